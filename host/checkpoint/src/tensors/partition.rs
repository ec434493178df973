//! Partition files: embeddings and optimizer state.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use pbg_core::bfloat16::StochasticRounding;
use pbg_core::model::{EmbeddingFormat, Optimizer};

use super::reader::{SafetensorsReader, TensorEntry};
use super::writer::{CopyRows, TensorOutput, put_header, put_rounded, put_rows};
use crate::CheckpointError;
use pbg_files::{ChecksummedFile, FileError, FileSummary};

/// Name of the embeddings tensor.
pub(crate) const EMBEDDINGS: &str = "embeddings";
/// Name of the tensor with one Adagrad accumulator per row.
pub(crate) const ROW_ADAGRAD: &str = "row_adagrad";
/// Name of the tensor with one Adagrad accumulator per value.
const ADAGRAD: &str = "adagrad";
/// Name of the tensor with Adam's averages and number of updates of each row.
const ADAM: &str = "adam";

/// Returns the name of the tensor with an optimizer's state.
const fn state_name(optimizer: Optimizer) -> &'static str {
    match optimizer {
        Optimizer::RowAdagrad => ROW_ADAGRAD,
        Optimizer::Adagrad => ADAGRAD,
        Optimizer::Adam => ADAM,
    }
}

/// Returns the shape of the tensor with an optimizer's state.
fn state_shape(optimizer: Optimizer, rows: usize, dim: usize) -> Vec<usize> {
    match optimizer {
        Optimizer::RowAdagrad => vec![rows],
        Optimizer::Adagrad | Optimizer::Adam => vec![rows, optimizer.state_width(dim)],
    }
}

/// Estimates the sums of squared gradients of a row from Adam's state of it.
fn sums_of_adam(state: &[f32], dim: usize) -> impl Iterator<Item = f32> {
    let updates = state.last().copied().unwrap_or_default();
    // The weight of the gradients in an average that began with zero.
    let [_, beta] = Optimizer::ADAM_BETAS;
    let weight = 1.0 - f64::from(beta).powf(f64::from(updates));
    let factor = match updates > 0.0 {
        true => (f64::from(updates) / weight) as f32,
        false => 0.0,
    };
    state[dim..2 * dim]
        .iter()
        .map(move |square| square * factor)
}

/// Partition of an entity type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartitionData {
    /// Number of rows: one per entity, or per feature.
    pub rows: usize,
    /// Values per row.
    pub dim: usize,
    /// Embeddings, `[rows, dim]`.
    pub embeddings: Vec<f32>,
    /// Optimizer that the state belongs to.
    pub optimizer: Optimizer,
    /// State of the optimizer, [`Optimizer::state_width`] numbers per row.
    pub state: Vec<f32>,
}

/// Location of a partition's values in its file, little-endian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddingLocation {
    /// Path of the file.
    pub path: PathBuf,
    /// Number of rows.
    pub rows: usize,
    /// Values per row.
    pub dim: usize,
    /// Number format of the embeddings.
    pub storage: EmbeddingFormat,
    /// Byte offset of the embeddings, `[rows, dim]`.
    pub embeddings: u64,
    /// Optimizer that the state belongs to.
    pub optimizer: Optimizer,
    /// Byte offset of the optimizer's state, `f32`, [`Optimizer::state_width`] numbers per row.
    pub state: u64,
}

impl EmbeddingLocation {
    /// Computes the location from the header of a partition's file. The values are not read.
    pub(crate) fn from_header(
        file: &File,
        path: &Path,
        expected: FileSummary,
    ) -> Result<Self, CheckpointError> {
        let mut reader = SafetensorsReader::of_file(file, path, expected)?;
        let header = reader.header()?;
        let form = PartitionHeader::of(&header, path)?;
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
            state: first(state_name(form.optimizer)),
        })
    }
}

/// Properties of a partition, from the header of its file.
struct PartitionHeader {
    rows: usize,
    dim: usize,
    storage: EmbeddingFormat,
    optimizer: Optimizer,
}

impl PartitionHeader {
    fn of(header: &[TensorEntry], path: &Path) -> Result<Self, CheckpointError> {
        let damaged = |what: &str| CheckpointError::damaged(path, what);
        let find = |name| header.iter().find(|tensor| tensor.name == name);
        let state = Optimizer::ALL
            .into_iter()
            .find_map(|optimizer| Some((optimizer, find(state_name(optimizer))?)));
        let (Some(embeddings), Some((optimizer, state_entry)), 2) =
            (find(EMBEDDINGS), state, header.len())
        else {
            return Err(damaged("it does not have the tensors of a partition"));
        };
        let (&[rows, dim], EmbeddingFormat::F32) = (&embeddings.shape[..], state_entry.storage)
        else {
            return Err(damaged("it does not have the tensors of a partition"));
        };
        if state_entry.shape != state_shape(optimizer, rows, dim) {
            let what = format!(
                "its tensor `{}` does not have {} numbers per row",
                state_name(optimizer),
                optimizer.state_width(dim)
            );
            return Err(damaged(&what));
        }
        Ok(Self {
            rows,
            dim,
            storage: embeddings.storage,
            optimizer,
        })
    }
}

/// Partition whose rows are copied out in chunks, because other threads change them and nobody may hold a slice of
/// them.
pub struct PartitionRows<'a> {
    /// Number of rows.
    pub rows: usize,
    /// Values per row.
    pub dim: usize,
    /// Copies embeddings, `dim` values per row.
    pub embeddings: CopyRows<'a>,
    /// Optimizer that the state belongs to.
    pub optimizer: Optimizer,
    /// Copies the optimizer's state, [`Optimizer::state_width`] numbers per row.
    pub state: CopyRows<'a>,
    /// Rounding of embeddings to bfloat16; `None` to store `f32`.
    pub rounding: Option<StochasticRounding>,
}

impl PartitionRows<'_> {
    /// Writes the partition's file.
    pub(crate) fn write(
        &self,
        path: &Path,
        metadata: &[(&str, String)],
    ) -> Result<FileSummary, FileError> {
        let mut file = ChecksummedFile::create(path)?;
        self.put(&mut file, metadata)?;
        file.finish(false)
    }

    /// Writes the content of the partition's file.
    pub(crate) fn put(
        &self,
        out: &mut impl TensorOutput,
        metadata: &[(&str, String)],
    ) -> Result<(), FileError> {
        let (rows, dim) = (self.rows, self.dim);
        let (all, width) = ([rows, dim], self.optimizer.state_width(dim));
        let of_state = state_shape(self.optimizer, rows, dim);
        let name = state_name(self.optimizer);
        let state = (name, EmbeddingFormat::F32, &of_state[..]);
        let Some(rounding) = self.rounding else {
            let shapes = [(EMBEDDINGS, EmbeddingFormat::F32, &all[..]), state];
            put_header(out, &shapes, metadata)?;
            put_rows(out, rows, dim, self.embeddings)?;
            return put_rows(out, rows, width, self.state);
        };
        // The wider tensor comes first, so that every value is aligned to its size.
        let shapes = [state, (EMBEDDINGS, EmbeddingFormat::Bf16, &all[..])];
        put_header(out, &shapes, metadata)?;
        put_rows(out, rows, width, self.state)?;
        put_rounded(out, rows, dim, self.embeddings, rounding)
    }
}

impl PartitionData {
    /// Converts the state to another optimizer. The accumulator of a row becomes the mean of those of its values, as in
    /// row-Adagrad; in the other direction, each value gets the accumulator of its row. Adam's averages of squares,
    /// times the number of updates, become Adagrad's sums; Adam itself begins anew, since a sum does not tell of how
    /// many updates.
    pub fn convert(&mut self, optimizer: Optimizer) {
        if self.optimizer == optimizer {
            return;
        }
        let dim = self.dim;
        if optimizer == Optimizer::Adam {
            self.state = vec![0.0; self.rows * optimizer.state_width(dim)];
        } else {
            if self.optimizer == Optimizer::Adam {
                let rows = self.state.chunks_exact(Optimizer::Adam.state_width(dim));
                self.state = rows.flat_map(|row| sums_of_adam(row, dim)).collect();
                self.optimizer = Optimizer::Adagrad;
            }
            match (self.optimizer, optimizer) {
                (Optimizer::Adagrad, Optimizer::RowAdagrad) => {
                    let rows = self.state.chunks_exact(dim.max(1));
                    let means = rows.map(|row| row.iter().sum::<f32>() / dim as f32);
                    self.state = means.collect();
                }
                (Optimizer::RowAdagrad, Optimizer::Adagrad) => {
                    let sums = self.state.iter();
                    let repeated = sums.flat_map(|&sum| std::iter::repeat_n(sum, dim));
                    self.state = repeated.collect();
                }
                _ => {}
            }
        }
        self.optimizer = optimizer;
    }

    /// Reads and verifies a partition's file without keeping its values.
    pub(crate) fn verify(
        file: &File,
        path: &Path,
        expected: FileSummary,
    ) -> Result<(), CheckpointError> {
        let mut reader = SafetensorsReader::of_file(file, path, expected)?;
        PartitionHeader::of(&reader.header()?, path)?;
        reader.skip_to_end()?;
        reader.finish()
    }

    /// Reads and verifies a partition's file. The memory of the previous content is reused.
    pub(crate) fn read(
        &mut self,
        file: &File,
        path: &Path,
        expected: FileSummary,
    ) -> Result<(), CheckpointError> {
        self.read_from(SafetensorsReader::of_file(file, path, expected)?, path)
    }

    /// Reads and verifies the file of a partition from `source`, which has `size` bytes, as [`PartitionData::read`] does.
    pub(crate) fn receive(
        &mut self,
        source: impl Read,
        size: u64,
        path: &Path,
        expected: FileSummary,
    ) -> Result<(), CheckpointError> {
        self.read_from(SafetensorsReader::new(source, size, path, expected)?, path)
    }

    fn read_from<R: Read>(
        &mut self,
        mut reader: SafetensorsReader<'_, R>,
        path: &Path,
    ) -> Result<(), CheckpointError> {
        let header = reader.header()?;
        let form = PartitionHeader::of(&header, path)?;
        (self.rows, self.dim, self.optimizer) = (form.rows, form.dim, form.optimizer);
        for tensor in &header {
            let values = match tensor.name == EMBEDDINGS {
                true => &mut self.embeddings,
                false => &mut self.state,
            };
            reader.numbers(tensor.storage, tensor.shape.iter().product(), values)?;
        }
        reader.finish()
    }
}

/// Returns the metadata of a partition's file.
pub(crate) fn partition_metadata(entity_type: &str, partition: u32) -> [(&'static str, String); 2] {
    [
        ("entity_type", entity_type.to_owned()),
        ("partition", partition.to_string()),
    ]
}
