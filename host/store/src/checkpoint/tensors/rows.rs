//! Single rows of a partition, by position.

use std::fs::File;

use super::EmbeddingPlace;
use crate::checkpoint::CheckpointError;
use crate::files;

/// The embeddings of a partition, read row by row.
#[derive(Debug)]
pub struct EmbeddingRows<'c> {
    pub(in crate::checkpoint) file: &'c File,
    pub(in crate::checkpoint) place: EmbeddingPlace,
}

impl EmbeddingRows<'_> {
    /// Where they lie.
    #[must_use]
    pub const fn place(&self) -> &EmbeddingPlace {
        &self.place
    }

    /// Row `row`, whose [`row_sum`] is `sum`; `bytes` is used again.
    ///
    /// # Errors
    /// When it cannot be read, is not what was summed up, or there is no such row.
    pub fn read(
        &self,
        row: usize,
        sum: u32,
        bytes: &mut Vec<u8>,
        out: &mut [f32],
    ) -> Result<(), CheckpointError> {
        let EmbeddingPlace {
            path,
            offset,
            rows,
            dim,
        } = &self.place;
        let damaged = |what: &str| CheckpointError::damaged(path, format!("its row {row}: {what}"));
        if row >= *rows || out.len() != *dim {
            return Err(damaged("there is none of this length"));
        }
        bytes.resize(4 * dim, 0);
        files::read_exact_at(self.file, path, bytes, offset + 4 * (row * dim) as u64)?;
        if crc32fast::hash(bytes) != sum {
            return Err(damaged("its checksum does not match its content"));
        }
        for (number, from) in out.iter_mut().zip(bytes.as_chunks().0) {
            *number = f32::from_le_bytes(*from);
        }
        Ok(())
    }
}

/// The checksum of a row as it lies on the disk.
#[must_use]
pub fn row_sum(row: &[f32]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    for number in row {
        hasher.update(&number.to_le_bytes());
    }
    hasher.finalize()
}
