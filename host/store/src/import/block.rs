//! What travels from the reader to the workers and on to the collector.

use std::sync::Arc;

use super::ImportError;
use super::columns::ColumnLayout;
use super::format::{OnBadLine, TextFormat};
use super::inputs::Input;
use super::on_disk::Divided;

/// Bytes of text in a block, and the longest line.
pub(super) const BLOCK_BYTES: usize = 512 << 10;

/// The longest name: with it the names of a dictionary batch stay below 2 GiB.
pub(super) const MAX_NAME: usize = 32 << 10;

/// A file of edges.
#[derive(Debug)]
pub(super) struct InputFile {
    pub(super) file: Input,
    /// Number of the file in the import.
    pub(super) index: usize,
    pub(super) format: EdgeFormat,
    pub(super) layout: ColumnLayout,
    pub(super) on_bad_line: OnBadLine,
}

/// How the edges of a file are written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EdgeFormat {
    /// A line per edge.
    Text(TextFormat),
    /// Parquet.
    Parquet,
}

impl InputFile {
    /// Lines before the first edge.
    pub(super) fn preamble(&self) -> u64 {
        match self.format {
            EdgeFormat::Text(format) => format.preamble,
            EdgeFormat::Parquet => 0,
        }
    }
}

/// A part of a name in a buffer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Span {
    pub(super) start: u32,
    pub(super) end: u32,
}

impl Span {
    pub(super) fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start as usize..self.end as usize]
    }
}

/// Edges whose names are parts of a buffer.
#[derive(Debug, Default)]
pub(super) struct EdgeRows {
    pub(super) lhs: Vec<Span>,
    /// Empty when there is no column of relations.
    pub(super) rel: Vec<Span>,
    pub(super) rhs: Vec<Span>,
    /// Empty when there is no column of weights.
    pub(super) weight: Vec<f32>,
    /// Lines of the rows, counted from the start of the block. Empty: one line each.
    pub(super) lines: Vec<u32>,
}

impl EdgeRows {
    pub(super) fn clear(&mut self) {
        self.lhs.clear();
        self.rel.clear();
        self.rhs.clear();
        self.weight.clear();
        self.lines.clear();
    }

    /// Lengths of all lists, for [`Self::truncate`].
    pub(super) fn lengths(&self) -> [usize; 5] {
        [
            self.lhs.len(),
            self.rel.len(),
            self.rhs.len(),
            self.weight.len(),
            self.lines.len(),
        ]
    }

    /// Takes back what was pushed since the lists had these lengths.
    pub(super) fn truncate(&mut self, [lhs, rel, rhs, weight, lines]: [usize; 5]) {
        self.lhs.truncate(lhs);
        self.rel.truncate(rel);
        self.rhs.truncate(rhs);
        self.weight.truncate(weight);
        self.lines.truncate(lines);
    }

    pub(super) fn line(&self, row: usize) -> u64 {
        self.lines
            .get(row)
            .map_or(row as u64, |&line| u64::from(line))
    }
}

/// A piece of a file.
pub(super) struct Block {
    pub(super) file: Arc<InputFile>,
    pub(super) content: Content,
    /// Bytes of the file on the disk that were read for it.
    pub(super) disk_bytes: u64,
}

pub(super) enum Content {
    /// Whole lines, and how they are read.
    Text(Vec<u8>, TextFormat),
    /// Rows of a table, their names in the buffer, the lines they take, those that were skipped, and what is wrong with
    /// the last of them.
    EdgeRows {
        buffer: Vec<u8>,
        rows: EdgeRows,
        lines: u64,
        bad: BadLines,
        wrong: Option<Wrong>,
    },
}

/// A line that is wrong.
pub(super) struct Wrong {
    /// Counted from the start of the block.
    pub(super) line: u64,
    pub(super) what: String,
}

/// Lines of a block that are not edges and were skipped.
#[derive(Default)]
pub(super) struct BadLines {
    pub(super) count: u64,
    pub(super) first: Option<Wrong>,
}

impl BadLines {
    /// Counts a bad line.
    ///
    /// # Errors
    /// With the line, where it ends the import.
    pub(super) fn refuse(&mut self, on_bad_line: OnBadLine, wrong: Wrong) -> Result<(), Wrong> {
        if on_bad_line == OnBadLine::Error {
            return Err(wrong);
        }
        self.count += 1;
        self.first.get_or_insert(wrong);
        Ok(())
    }
}

/// What a worker made of a block.
pub(super) struct Done {
    pub(super) file: Arc<InputFile>,
    /// The block's buffer, to be used again.
    pub(super) buffer: Vec<u8>,
    /// Edges as records of the spill file.
    pub(super) records: Vec<u8>,
    /// Their names, where they are on the disk.
    pub(super) names: Option<Divided>,
    pub(super) edges: u64,
    pub(super) lines: u64,
    pub(super) disk_bytes: u64,
    pub(super) bad: BadLines,
    pub(super) wrong: Option<Wrong>,
}

/// A block or its outcome, or what ended the reading, with its place in the order of the files.
pub(super) struct Numbered<T> {
    pub(super) number: u64,
    pub(super) item: Result<T, ImportError>,
}
