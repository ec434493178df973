//! What travels from the reader to the workers and on to the collector.

use std::path::PathBuf;
use std::sync::Arc;

use super::ImportError;
use super::columns::ColumnLayout;
use super::on_disk::Divided;

/// Bytes of text in a block, and the longest line.
pub(super) const BLOCK_BYTES: usize = 512 << 10;

/// The longest name: with it the names of a dictionary batch stay below 2 GiB.
pub(super) const MAX_NAME: usize = 32 << 10;

/// A file of edges.
#[derive(Debug)]
pub(super) struct InputFile {
    pub(super) path: PathBuf,
    /// Number of the file in the import.
    pub(super) index: usize,
    pub(super) layout: ColumnLayout,
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
    /// Whole lines.
    Text(Vec<u8>),
    /// Rows of a table, their names in the buffer, the lines they take, and what is wrong with
    /// the last of them.
    EdgeRows {
        buffer: Vec<u8>,
        rows: EdgeRows,
        lines: u64,
        wrong: Option<Wrong>,
    },
}

/// A line that is wrong.
pub(super) struct Wrong {
    /// Counted from the start of the block.
    pub(super) line: u64,
    pub(super) what: String,
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
    pub(super) wrong: Option<Wrong>,
}

/// A block or its outcome, or what ended the reading, with its place in the order of the files.
pub(super) struct Numbered<T> {
    pub(super) number: u64,
    pub(super) item: Result<T, ImportError>,
}
