//! Spill file: edges on disk between reading and sorting, in records of 12 bytes, or 16 with weights.

use std::fs::File;
use std::path::{Path, PathBuf};

use pbg_files::{self as files, FileError};

/// Edges of a set as records of three u32 (left, relation, right) and, if there are weights, an f32, all little-endian.
pub(super) struct Spill {
    pub(super) set: String,
    pub(super) edges: u64,
    pub(super) has_weight: bool,
    path: PathBuf,
    file: File,
}

impl Spill {
    /// Opens the complete file at `path`.
    pub(super) fn open(
        path: &Path,
        set: &str,
        edges: u64,
        has_weight: bool,
    ) -> Result<Self, FileError> {
        let file = files::open(path)?;
        Ok(Self {
            set: set.to_owned(),
            edges,
            has_weight,
            path: path.to_owned(),
            file,
        })
    }

    /// Returns the size of a record in bytes.
    pub(super) fn record(&self) -> usize {
        if self.has_weight { 16 } else { 12 }
    }

    /// Fills `records` with the edges from `first` on.
    pub(super) fn read(&self, first: u64, records: &mut [u8]) -> Result<(), FileError> {
        self.read_at(first * self.record() as u64, records)
    }

    /// Fills `bytes` with the bytes from `offset` on.
    pub(super) fn read_at(&self, offset: u64, bytes: &mut [u8]) -> Result<(), FileError> {
        files::read_exact_at(&self.file, &self.path, bytes, offset)
    }
}

impl Drop for Spill {
    /// Removes the file. The folder is removed anyway; this frees the space sooner.
    fn drop(&mut self) {
        let _ = files::remove(&self.path);
    }
}

/// Returns the n-th u32 of a record.
pub(super) fn field(record: &[u8], n: usize) -> u32 {
    let bytes = record.get(4 * n..4 * n + 4).and_then(|b| b.first_chunk());
    bytes.map_or(0, |&bytes| u32::from_le_bytes(bytes))
}
