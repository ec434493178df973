//! Partitions in files: embeddings, and what the optimizer remembers of them.

use std::fs::File;
use std::path::{Path, PathBuf};

use pbg_core::bfloat16::Rounding;
use pbg_core::model::{Optimizer, Storage};

use super::reader::{Listed, Reader};
use super::{put_rounded, put_rows, write_with};
use crate::checkpoint::CheckpointError;
use crate::files::{FileError, Summary};

/// Name of the rows of a partition.
pub(in crate::checkpoint) const EMBEDDINGS: &str = "embeddings";
/// Name of the accumulators of a partition.
pub(in crate::checkpoint) const ROW_ADAGRAD: &str = "row_adagrad";
/// The same where each number has an accumulator of its own.
const ADAGRAD: &str = "adagrad";

/// The tensor of the accumulators of an optimizer.
const fn accumulators_of(optimizer: Optimizer) -> &'static str {
    match optimizer {
        Optimizer::RowAdagrad => ROW_ADAGRAD,
        Optimizer::Adagrad => ADAGRAD,
    }
}

/// A partition of an entity type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartitionData {
    /// Number of rows: entities, or features.
    pub rows: usize,
    /// Numbers per row.
    pub dim: usize,
    /// `rows` x `dim` numbers, row by row.
    pub embeddings: Vec<f32>,
    /// What the accumulators are of.
    pub optimizer: Optimizer,
    /// Accumulators, row by row: one of each row, or of each number.
    pub adagrad: Vec<f32>,
}

/// Where the numbers of a partition lie, little-endian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddingPlace {
    /// The file.
    pub path: PathBuf,
    /// Number of rows.
    pub rows: usize,
    /// Numbers per row.
    pub dim: usize,
    /// What embeddings are made of.
    pub storage: Storage,
    /// Bytes before the first number of the embeddings, which are `rows` x `dim` numbers, row by row.
    pub embeddings: u64,
    /// What the accumulators are of.
    pub optimizer: Optimizer,
    /// Bytes before the first accumulator, which are floats: one of each row, or of each number.
    pub adagrad: u64,
}

impl EmbeddingPlace {
    /// By the header of a partition's file; the numbers are not read.
    pub(in crate::checkpoint) fn find(
        file: &File,
        path: &Path,
        expected: Summary,
    ) -> Result<Self, CheckpointError> {
        let mut reader = Reader::new(file, path, expected)?;
        let header = reader.header()?;
        let form = PartitionForm::of(&header, path)?;
        let first = |name| {
            let found = header.iter().find(|tensor| tensor.name == name);
            found.map_or(0, |tensor| reader.position + tensor.bytes.start)
        };
        Ok(Self {
            path: path.to_owned(),
            rows: form.rows,
            dim: form.dim,
            storage: form.storage,
            embeddings: first(EMBEDDINGS),
            optimizer: form.optimizer,
            adagrad: first(accumulators_of(form.optimizer)),
        })
    }
}

/// What the header of a partition's file says.
struct PartitionForm {
    rows: usize,
    dim: usize,
    storage: Storage,
    optimizer: Optimizer,
}

impl PartitionForm {
    fn of(header: &[Listed], path: &Path) -> Result<Self, CheckpointError> {
        let damaged = |what: &str| CheckpointError::damaged(path, what);
        let find = |name| header.iter().find(|tensor| tensor.name == name);
        let state = Optimizer::ALL
            .into_iter()
            .find_map(|optimizer| Some((optimizer, find(accumulators_of(optimizer))?)));
        let (Some(embeddings), Some((optimizer, accumulators)), 2) =
            (find(EMBEDDINGS), state, header.len())
        else {
            return Err(damaged("it has not the tensors of a partition"));
        };
        let (&[rows, dim], Storage::F32) = (&embeddings.shape[..], accumulators.storage) else {
            return Err(damaged("it has not the tensors of a partition"));
        };
        let (fits, what) = match optimizer {
            Optimizer::RowAdagrad => (accumulators.shape == [rows], "row"),
            Optimizer::Adagrad => (accumulators.shape == [rows, dim], "number"),
        };
        if !fits {
            return Err(damaged(&format!("it has not one accumulator per {what}")));
        }
        Ok(Self {
            rows,
            dim,
            storage: embeddings.storage,
            optimizer,
        })
    }
}

/// Copies rows from the given one on into a slice, as many as fill it.
pub type CopyRows<'a> = &'a dyn Fn(usize, &mut [f32]);

/// A partition whose rows are copied out piece by piece, since nobody may hold a slice of them.
pub struct PartitionRows<'a> {
    /// Number of rows.
    pub rows: usize,
    /// Numbers per row.
    pub dim: usize,
    /// Embeddings, `dim` numbers per row.
    pub embeddings: CopyRows<'a>,
    /// What the accumulators are of.
    pub optimizer: Optimizer,
    /// Accumulators, as many per row as the optimizer has.
    pub adagrad: CopyRows<'a>,
    /// How embeddings are rounded to bfloat16; none: they are written as they are.
    pub rounding: Option<Rounding>,
}

impl PartitionRows<'_> {
    /// Writes the partition as [`write`] writes its tensors.
    pub(in crate::checkpoint) fn write(
        &self,
        path: &Path,
        metadata: &[(&str, String)],
    ) -> Result<Summary, FileError> {
        let (rows, dim) = (self.rows, self.dim);
        let (all, width) = ([rows, dim], self.optimizer.accumulators(dim));
        let of_state = match self.optimizer {
            Optimizer::RowAdagrad => &all[..1],
            Optimizer::Adagrad => &all[..],
        };
        let accumulators = (accumulators_of(self.optimizer), Storage::F32, of_state);
        let Some(rounding) = self.rounding else {
            let shapes = [(EMBEDDINGS, Storage::F32, &all[..]), accumulators];
            return write_with(path, &shapes, metadata, |file| {
                put_rows(file, rows, dim, self.embeddings)?;
                put_rows(file, rows, width, self.adagrad)
            });
        };
        // What is wider comes first, so that every number lies at a multiple of its size.
        let shapes = [accumulators, (EMBEDDINGS, Storage::Bf16, &all[..])];
        write_with(path, &shapes, metadata, |file| {
            put_rows(file, rows, width, self.adagrad)?;
            put_rounded(file, (rows, dim), self.embeddings, rounding)
        })
    }
}

impl PartitionData {
    /// Makes the accumulators those of another optimizer: one of a row is the mean of those of its numbers, as row-Adagrad
    /// has it, and those of its numbers are what the one of the row is.
    pub fn convert(&mut self, optimizer: Optimizer) {
        if self.optimizer == optimizer {
            return;
        }
        self.optimizer = optimizer;
        let dim = self.dim;
        self.adagrad = match optimizer {
            Optimizer::RowAdagrad => {
                let rows = self.adagrad.chunks_exact(dim.max(1));
                rows.map(|row| row.iter().sum::<f32>() / dim as f32)
                    .collect()
            }
            Optimizer::Adagrad => {
                let sums = self.adagrad.iter();
                sums.flat_map(|&sum| std::iter::repeat_n(sum, dim))
                    .collect()
            }
        };
    }

    /// Reads a partition's file and verifies it, without keeping its numbers.
    pub(in crate::checkpoint) fn verify(
        file: &File,
        path: &Path,
        expected: Summary,
    ) -> Result<(), CheckpointError> {
        let mut reader = Reader::new(file, path, expected)?;
        PartitionForm::of(&reader.header()?, path)?;
        reader.skip_to_end()?;
        reader.finish()
    }

    /// Reads a partition and verifies its file. The memory of the old content is used again.
    pub(in crate::checkpoint) fn read(
        &mut self,
        file: &File,
        path: &Path,
        expected: Summary,
    ) -> Result<(), CheckpointError> {
        let mut reader = Reader::new(file, path, expected)?;
        let header = reader.header()?;
        let form = PartitionForm::of(&header, path)?;
        (self.rows, self.dim, self.optimizer) = (form.rows, form.dim, form.optimizer);
        for tensor in &header {
            let values = match tensor.name == EMBEDDINGS {
                true => &mut self.embeddings,
                false => &mut self.adagrad,
            };
            reader.numbers(tensor.storage, tensor.shape.iter().product(), values)?;
        }
        reader.finish()
    }
}
