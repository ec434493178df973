//! Data that the reader passes to the workers and the workers to the collector.

use std::sync::Arc;

use super::ImportError;
use super::columns::ColumnLayout;
use super::format::{OnBadLine, TextFormat};
use super::inputs::InputPath;
use super::on_disk::DividedNames;
use super::rdf::{RdfFormat, RdfSyntax, TermNames};

/// Bytes of text in a block, and the maximum length of a line.
pub(super) const BLOCK_BYTES: usize = 512 << 10;

/// Maximum length of a name in bytes: it keeps the names of a dictionary batch below 2 GiB.
pub(super) const MAX_NAME: usize = 32 << 10;

/// File of edges.
#[derive(Debug)]
pub(super) struct InputFile {
    pub(super) file: InputPath,
    /// Index of the file in the import.
    pub(super) index: usize,
    pub(super) format: EdgeFormat,
    pub(super) layout: ColumnLayout,
    /// Rule for the names of terms, if the file is RDF.
    pub(super) terms: TermNames,
    pub(super) on_bad_line: OnBadLine,
}

/// Format of a file of edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EdgeFormat {
    /// Text with one edge per line.
    Text(TextFormat),
    /// RDF.
    Rdf(RdfFormat),
    /// Parquet.
    Parquet,
}

impl InputFile {
    /// Returns the number of lines before the first edge.
    pub(super) fn preamble(&self) -> u64 {
        match self.format {
            EdgeFormat::Text(format) => format.preamble,
            EdgeFormat::Rdf(format) => format.preamble,
            EdgeFormat::Parquet => 0,
        }
    }
}

/// Byte range of a name in a buffer.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct NameSpan {
    pub(super) start: u32,
    pub(super) end: u32,
}

impl NameSpan {
    pub(super) fn of(self, bytes: &[u8]) -> &[u8] {
        &bytes[self.start as usize..self.end as usize]
    }
}

/// Edges whose names are byte ranges of a buffer.
#[derive(Debug, Default)]
pub(super) struct EdgeRows {
    pub(super) lhs: Vec<NameSpan>,
    /// Relation names; empty if there is no such column.
    pub(super) rel: Vec<NameSpan>,
    pub(super) rhs: Vec<NameSpan>,
    /// Weights; empty if there is no such column.
    pub(super) weight: Vec<f32>,
    /// Lines of the rows, relative to the start of the block; empty if each row is one line.
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

    /// Adds an edge on `line`.
    pub(super) fn push(
        &mut self,
        line: u64,
        (lhs, rel, rhs): (NameSpan, Option<NameSpan>, NameSpan),
        weight: Option<f32>,
    ) {
        self.lhs.push(lhs);
        self.rel.extend(rel);
        self.rhs.push(rhs);
        self.weight.extend(weight);
        // Storing a number per row is cheaper than finding the line of a row again.
        self.lines.push(line as u32);
    }

    pub(super) fn line(&self, row: usize) -> u64 {
        let line = self.lines.get(row);
        line.map_or(row as u64, |&line| u64::from(line))
    }
}

/// Part of a file.
pub(super) struct InputBlock {
    pub(super) file: Arc<InputFile>,
    pub(super) content: Content,
    /// Bytes read from disk for this block.
    pub(super) disk_bytes: u64,
}

pub(super) enum Content {
    /// Whole lines, and their format.
    Text(Vec<u8>, TextFormat),
    /// Whole lines of N-Triples or N-Quads.
    Triples(Vec<u8>, RdfSyntax),
    /// Parsed rows: the buffer with their names, the number of lines, the skipped lines, and the error of the last row.
    EdgeRows {
        buffer: Vec<u8>,
        rows: EdgeRows,
        lines: u64,
        bad: BadLines,
        wrong: Option<LineError>,
    },
}

/// Line that is not an edge, with the reason.
pub(super) struct LineError {
    /// Line number relative to the start of the block.
    pub(super) line: u64,
    pub(super) what: String,
}

/// Skipped lines of a block, which are not edges.
#[derive(Default)]
pub(super) struct BadLines {
    pub(super) count: u64,
    pub(super) first: Option<LineError>,
    /// Number of skipped triples whose object is a literal.
    pub(super) literals: u64,
}

impl BadLines {
    /// Counts a bad line.
    ///
    /// # Errors
    /// Returns the line if it ends the import.
    pub(super) fn record(
        &mut self,
        on_bad_line: OnBadLine,
        wrong: LineError,
    ) -> Result<(), LineError> {
        if on_bad_line == OnBadLine::Error {
            return Err(wrong);
        }
        self.count += 1;
        self.first.get_or_insert(wrong);
        Ok(())
    }
}

/// Output of a worker for a block.
pub(super) struct ParsedBlock {
    pub(super) file: Arc<InputFile>,
    /// The block's buffer, for reuse.
    pub(super) buffer: Vec<u8>,
    /// Edges, as records of the spill file.
    pub(super) records: Vec<u8>,
    /// Names of the edges, if names are on disk.
    pub(super) names: Option<DividedNames>,
    pub(super) edges: u64,
    pub(super) lines: u64,
    pub(super) disk_bytes: u64,
    pub(super) bad: BadLines,
    pub(super) wrong: Option<LineError>,
}

/// Block, output or read error with its position in the order of the files.
pub(super) struct Sequenced<T> {
    pub(super) number: u64,
    pub(super) item: Result<T, ImportError>,
}
