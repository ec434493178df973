//! Reader of text with columns that may be quoted.

use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::ImportError;
use super::block::{BLOCK_BYTES, BadLines, Content, EdgeRows, InputFile, LineError};
use super::format::TextFormat;
use super::source::TextSource;
use super::table::{Sink, push_name};
use super::text::{parse_weight, wrong_count};
use pbg_files::FileError;

/// Reads a text record by record. A quoted name may contain line ends, so the text cannot be divided at line ends.
pub(super) fn read(
    file: &InputFile,
    format: TextFormat,
    delimiter: u8,
    sink: &mut dyn Sink,
) -> Result<(), ImportError> {
    let source = TextSource::open_behind(&file.file, format.preamble)?;
    let disk = Arc::clone(&source.disk_bytes);
    let mut records = Records::new(file, format, delimiter, source.reader);
    let mut told = 0;
    while !records.at_end {
        let Some(buffer) = sink.buffer() else {
            return Ok(());
        };
        let content = records.block(buffer)?;
        let disk_bytes = disk.load(Ordering::Relaxed);
        if !sink.take(content, disk_bytes - told) {
            return Ok(());
        }
        told = disk_bytes;
    }
    Ok(())
}

/// Remaining records of a file.
struct Records<'a> {
    file: &'a InputFile,
    format: TextFormat,
    reader: csv::Reader<Box<dyn Read + Send>>,
    record: csv::ByteRecord,
    /// Line number of the first line of the next block.
    first_line: u64,
    at_end: bool,
}

impl<'a> Records<'a> {
    fn new(
        file: &'a InputFile,
        format: TextFormat,
        delimiter: u8,
        reader: Box<dyn Read + Send>,
    ) -> Self {
        let comment = format.comment.filter(|rule| rule.by_user);
        let reader = csv::ReaderBuilder::new()
            .has_headers(false)
            .flexible(true)
            .delimiter(delimiter)
            .comment(comment.map(|rule| rule.mark))
            .buffer_capacity(256 << 10)
            .from_reader(reader);
        Self {
            file,
            format,
            reader,
            record: csv::ByteRecord::new(),
            first_line: 1,
            at_end: false,
        }
    }

    /// Reads the next records.
    fn block(&mut self, mut buffer: Vec<u8>) -> Result<Content, ImportError> {
        let mut rows = EdgeRows::default();
        let mut bad = BadLines::default();
        let mut wrong = None;
        while buffer.len() < BLOCK_BYTES / 2 && wrong.is_none() {
            let read = self.reader.read_byte_record(&mut self.record);
            self.at_end = !read.map_err(|e| error(&self.file.file.path, e))?;
            if self.at_end {
                break;
            }
            let position = self.record.position();
            let line = position.map_or(self.first_line, csv::Position::line) - self.first_line;
            let bytes = buffer.len();
            let pushed = self.push(line, &mut buffer, &mut rows);
            let refused = pushed.or_else(|what| {
                buffer.truncate(bytes);
                bad.record(self.file.on_bad_line, LineError { line, what })
            });
            wrong = refused.err();
        }
        let next_line = self.reader.position().line();
        let lines = next_line - self.first_line;
        self.first_line = next_line;
        Ok(Content::EdgeRows {
            buffer,
            rows,
            lines,
            bad,
            wrong,
        })
    }

    fn push(&self, line: u64, buffer: &mut Vec<u8>, rows: &mut EdgeRows) -> Result<(), String> {
        let (record, layout) = (&self.record, &self.file.layout);
        if let Some(rule) = self.format.comment {
            // Definite comments were skipped by the CSV reader already.
            rule.skips(record.get(0).and_then(<[u8]>::first))?;
        }
        if record.len() != layout.count {
            let separator = self.format.separator;
            return Err(wrong_count(layout.count, record.len(), separator));
        }
        let mut name = |column: usize| push_name(record[column].trim_ascii(), column, buffer);
        let (lhs, rhs) = (name(layout.lhs)?, name(layout.rhs)?);
        let rel = layout.rel.map(name).transpose()?;
        let weight = layout.weight.map(|at| parse_weight(&record[at]));
        rows.push(line, (lhs, rel, rhs), weight.transpose()?);
        Ok(())
    }
}

fn error(path: &Path, error: csv::Error) -> ImportError {
    match error.into_kind() {
        csv::ErrorKind::Io(e) => FileError::new("read", path, e).into(),
        other => ImportError::input(path, format!("{other:?}")),
    }
}
