//! Random access to the embedding rows of a partition.

use std::fs::File;

use pbg_core::model::EmbeddingFormat;

use super::EmbeddingLocation;
use crate::CheckpointError;
use pbg_files as files;

/// Embeddings of a partition, read row by row.
#[derive(Debug)]
pub struct EmbeddingRows<'c> {
    pub(crate) file: &'c File,
    pub(crate) location: EmbeddingLocation,
}

impl EmbeddingRows<'_> {
    /// Returns the location of the embeddings.
    #[must_use]
    pub const fn place(&self) -> &EmbeddingLocation {
        &self.location
    }

    /// Reads row `row` into `out` and compares it with its [`row_sum`] `sum`. `bytes` is a reusable buffer.
    ///
    /// # Errors
    /// When the row cannot be read, does not match `sum`, or does not exist.
    pub fn read(
        &self,
        row: usize,
        sum: u32,
        bytes: &mut Vec<u8>,
        out: &mut [f32],
    ) -> Result<(), CheckpointError> {
        let place = &self.location;
        let (path, dim) = (&place.path, place.dim);
        let damaged = |what: &str| CheckpointError::damaged(path, format!("its row {row}: {what}"));
        if row >= place.rows || out.len() != dim {
            let what = "it does not exist, or its length is not the expected one";
            return Err(damaged(what));
        }
        let width = place.storage.bytes() as usize * dim;
        bytes.resize(width, 0);
        let at = place.embeddings + (row * width) as u64;
        files::read_exact_at(self.file, path, bytes, at)?;
        let found = match place.storage {
            EmbeddingFormat::F32 => {
                for (number, from) in out.iter_mut().zip(bytes.as_chunks().0) {
                    *number = f32::from_le_bytes(*from);
                }
                crc32fast::hash(bytes)
            }
            EmbeddingFormat::Bf16 => {
                for (number, from) in out.iter_mut().zip(bytes.as_chunks().0) {
                    *number = f32::from_bits(u32::from(u16::from_le_bytes(*from)) << 16);
                }
                row_sum(out)
            }
        };
        match found == sum {
            true => Ok(()),
            false => Err(damaged("its checksum does not match its content")),
        }
    }
}

/// Returns the checksum of a row's values as `f32`. It equals the checksum of the row's bytes on disk if they are
/// stored as `f32`.
#[must_use]
pub fn row_sum(row: &[f32]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for number in row {
        hasher.update(&number.to_le_bytes());
    }
    hasher.finalize()
}
