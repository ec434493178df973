//! Array of numbers at a position of a file, row after row.

use std::fs::File;
use std::path::Path;

use pbg_files::{self as files, FileError};

use crate::numbers::NumberFormat;
use crate::{BUFFER_BYTES, VectorError};

/// Consumer of vectors, each with its row. An error of its own ends the reading.
pub(crate) type RowVisitor<'a> = dyn FnMut(u64, &[f32]) -> Result<(), VectorError> + 'a;

/// Array of `[rows, dimension]` numbers in a file.
#[derive(Debug)]
pub(crate) struct RawArray {
    pub(crate) file: File,
    /// Position of the first number.
    pub(crate) start: u64,
    pub(crate) format: NumberFormat,
    pub(crate) rows: u64,
    pub(crate) dimension: usize,
}

impl RawArray {
    /// Returns the bytes of the array; `None` if no file is that long.
    pub(crate) fn bytes(&self) -> Option<u64> {
        let row = (self.dimension as u64).checked_mul(self.format.bytes() as u64)?;
        self.rows.checked_mul(row)
    }

    /// Calls `visit` with the vector of each of `wanted`, which ascend.
    pub(crate) fn visit(
        &self,
        path: &Path,
        wanted: &mut dyn Iterator<Item = u64>,
        visit: &mut RowVisitor<'_>,
    ) -> Result<(), VectorError> {
        let row_bytes = self.dimension * self.format.bytes();
        let most = (BUFFER_BYTES / row_bytes).max(1) as u64;
        let (mut bytes, mut vector) = (Vec::new(), Vec::with_capacity(self.dimension));
        let (mut block, mut wanted) = (Vec::new(), wanted.peekable());
        while let Some(first) = wanted.next() {
            block.clear();
            block.push(first);
            while let Some(row) = wanted.next_if(|row| row - first < most) {
                block.push(row);
            }
            let last = block[block.len() - 1];
            bytes.resize((last - first + 1) as usize * row_bytes, 0);
            let at = self.start + first * row_bytes as u64;
            files::read_exact_at(&self.file, path, &mut bytes, at)?;
            for &row in &block {
                let from = (row - first) as usize * row_bytes;
                vector.clear();
                self.format
                    .decode(&bytes[from..from + row_bytes], &mut vector);
                visit(row, &vector)?;
            }
        }
        Ok(())
    }
}

/// Reads the first bytes of a file, at most `limit`.
pub(crate) fn read_first(file: &File, path: &Path, limit: usize) -> Result<Vec<u8>, FileError> {
    let size = file
        .metadata()
        .map_err(|e| FileError::new("read", path, e))?;
    let mut bytes = vec![0; size.len().min(limit as u64) as usize];
    files::read_exact_at(file, path, &mut bytes, 0)?;
    Ok(bytes)
}
