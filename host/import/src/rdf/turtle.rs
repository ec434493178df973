//! Reader of Turtle files.

use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::names::Term;
use super::rows::TripleRows;
use super::stream::{SkippedPart, TripleSink, TurtleStream};
use super::syntax::{RdfFormat, TERMS};
use crate::ImportError;
use crate::block::{BLOCK_BYTES, BadLines, Content, EdgeRows, InputFile, LineError};
use crate::format::OnBadLine;
use crate::source::TextSource;
use crate::table::Sink;
use pbg_files::FileError;

/// Bytes that are read from the file at a time.
const READ_AT_ONCE: u64 = 64 << 10;

/// Reads a Turtle file. Its statements depend on the prefixes before them, so one thread parses them in order.
pub(crate) fn read(
    file: &InputFile,
    format: RdfFormat,
    sink: &mut dyn Sink,
) -> Result<(), ImportError> {
    let source = TextSource::open_behind(&file.file, format.preamble)?;
    let disk = Arc::clone(&source.disk_bytes);
    let mut turtle = TurtleFile {
        file,
        reader: source.reader,
        stream: TurtleStream::new(),
        text: Vec::new(),
        at: 0,
        at_end: false,
    };
    let mut told = 0;
    while !turtle.at_end {
        let Some(buffer) = sink.buffer() else {
            return Ok(());
        };
        let content = turtle.block(buffer)?;
        let disk_bytes = disk.load(Ordering::Relaxed);
        if !sink.take(content, disk_bytes - told) {
            return Ok(());
        }
        told = disk_bytes;
    }
    Ok(())
}

/// Remaining text of a file.
struct TurtleFile<'a> {
    file: &'a InputFile,
    reader: Box<dyn Read + Send>,
    stream: TurtleStream,
    /// Text that was read last, and the position up to which it is parsed.
    text: Vec<u8>,
    at: usize,
    at_end: bool,
}

impl TurtleFile<'_> {
    /// Parses the next triples.
    fn block(&mut self, mut buffer: Vec<u8>) -> Result<Content, ImportError> {
        let mut rows = EdgeRows::default();
        let mut bad = BadLines::default();
        let mut literals = 0;
        let first_line = self.stream.lines();
        let mut block = TurtleBlock {
            triples: TripleRows {
                layout: &self.file.layout,
                names: &self.file.terms,
                rows: &mut rows,
                written: &mut buffer,
                base: 0,
                literals: &mut literals,
            },
            bad: &mut bad,
            on_bad_line: self.file.on_bad_line,
            first_line,
        };
        let (mut wrong, mut bytes) = (None, 0);
        while bytes.max(block.triples.written.len()) < BLOCK_BYTES
            && wrong.is_none()
            && !self.at_end
        {
            if self.at == self.text.len() {
                self.text.clear();
                self.at = 0;
                let mut more = self.reader.by_ref().take(READ_AT_ONCE);
                let read = more.read_to_end(&mut self.text);
                let path = &self.file.file.path;
                self.at_end = read.map_err(|e| FileError::new("read", path, e))? == 0;
            }
            let parsed = match self.at_end {
                true => self.stream.end(&mut block).map(|()| 0),
                false => {
                    let read = self.stream.read(&self.text[self.at..], &mut block);
                    read.map(|(length, _)| length)
                }
            };
            match parsed {
                Ok(length) => {
                    self.at += length;
                    bytes += length;
                }
                Err(error) => {
                    wrong = Some(LineError {
                        line: error.line.saturating_sub(first_line),
                        ..error
                    });
                }
            }
        }
        bad.literals += literals;
        Ok(Content::EdgeRows {
            buffer,
            rows,
            lines: self.stream.lines() - first_line,
            bad,
            wrong,
        })
    }
}

/// Destination of the triples of a block.
struct TurtleBlock<'a> {
    triples: TripleRows<'a>,
    bad: &'a mut BadLines,
    on_bad_line: OnBadLine,
    /// Number of the first line of the block.
    first_line: u64,
}

impl TripleSink for TurtleBlock<'_> {
    fn take(&mut self, line: u64, terms: [Term<'_>; TERMS]) -> Result<(), String> {
        self.triples
            .push(line.saturating_sub(self.first_line), terms)
    }

    fn refuse(&mut self, wrong: LineError, part: SkippedPart) -> Result<(), LineError> {
        let line = wrong.line.saturating_sub(self.first_line);
        let what = match (self.on_bad_line, part) {
            (OnBadLine::Skip, SkippedPart::RestOfStatement) => {
                format!("{}; the rest of the statement is skipped", wrong.what)
            }
            _ => wrong.what,
        };
        match self.bad.record(self.on_bad_line, LineError { line, what }) {
            Ok(()) => Ok(()),
            // The stream counts from the first line of the file.
            Err(error) => Err(LineError {
                line: error.line + self.first_line,
                ..error
            }),
        }
    }
}
