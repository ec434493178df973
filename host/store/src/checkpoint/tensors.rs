//! Tensors in safetensors files: a length, a header in JSON, and the numbers, little-endian.
//!
//! Written and read in pieces, so that no second copy of a partition is in memory.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use pbg_core::bfloat16::Rounding;
use pbg_core::model::{Optimizer, Storage};
use serde::{Deserialize, Serialize};

use super::CheckpointError;
use crate::files::{FileError, Summary, SummedFile};

mod reader;

use reader::{Listed, Reader};

/// Name of the rows of a partition.
pub(super) const EMBEDDINGS: &str = "embeddings";
/// Name of the accumulators of a partition.
pub(super) const ROW_ADAGRAD: &str = "row_adagrad";
/// The same where each number has an accumulator of its own.
const ADAGRAD: &str = "adagrad";

/// The tensor of the accumulators of an optimizer.
const fn accumulators_of(optimizer: Optimizer) -> &'static str {
    match optimizer {
        Optimizer::RowAdagrad => ROW_ADAGRAD,
        Optimizer::Adagrad => ADAGRAD,
    }
}

/// Numbers converted at a time.
const CHUNK: usize = 256 << 10;

/// Bytes that a partition takes on its way to the disk or from there, where its embeddings are converted.
pub const CONVERSION_BYTES: u64 = 8 * CHUNK as u64;

/// A tensor and its name, borrowed.
#[derive(Clone, Copy, Debug)]
pub struct TensorRef<'a> {
    /// Name.
    pub name: &'a str,
    /// Size of each dimension.
    pub shape: &'a [usize],
    /// Values, last dimension fastest.
    pub values: &'a [f32],
}

/// A tensor and its name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tensor {
    /// Name.
    pub name: String,
    /// Size of each dimension.
    pub shape: Vec<usize>,
    /// Values, last dimension fastest.
    pub values: Vec<f32>,
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
    pub(super) fn find(
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
        let state = Optimizer::ALL.into_iter().find_map(|optimizer| {
            Some((optimizer, find(accumulators_of(optimizer))?))
        });
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

/// A header's entry.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (u64, u64),
}

const METADATA: &str = "__metadata__";
const F32: &str = "F32";
const BF16: &str = "BF16";

/// A tensor that is to be written: its name, what it is made of, and its shape.
pub(crate) type Wanted<'a> = (&'a str, Storage, &'a [usize]);

/// Writes tensors in the given order. Without waiting for the disk: a commit does that.
pub(crate) fn write(
    path: &Path,
    tensors: &[TensorRef<'_>],
    metadata: &[(&str, String)],
) -> Result<Summary, FileError> {
    let invalid = |what: String| FileError::new("write", path, std::io::Error::other(what));
    for TensorRef {
        name,
        shape,
        values,
    } in tensors
    {
        if shape.iter().product::<usize>() != values.len() {
            return Err(invalid(format!(
                "{} numbers do not fit the shape of `{name}`",
                values.len()
            )));
        }
    }
    let shapes: Vec<_> = tensors
        .iter()
        .map(|tensor| (tensor.name, Storage::F32, tensor.shape))
        .collect();
    write_with(path, &shapes, metadata, |file| {
        let mut values = tensors.iter().map(|tensor| tensor.values);
        values.try_for_each(|values| put_numbers(file, values))
    })
}

/// Writes tensors whose numbers `put` puts into the file, in order.
fn write_with(
    path: &Path,
    shapes: &[Wanted<'_>],
    metadata: &[(&str, String)],
    put: impl FnOnce(&mut SummedFile) -> Result<(), FileError>,
) -> Result<Summary, FileError> {
    let header = header(shapes, metadata)
        .map_err(|what| FileError::new("write", path, std::io::Error::other(what)))?;
    let mut file = SummedFile::create(path)?;
    file.put(&header)?;
    put(&mut file)?;
    file.finish(false)
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
    pub(super) fn write(
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

fn put_rows(
    file: &mut SummedFile,
    rows: usize,
    width: usize,
    copy: CopyRows<'_>,
) -> Result<(), FileError> {
    let step = (CHUNK / width.max(1)).max(1);
    let mut numbers = vec![0.0; step.min(rows) * width];
    for first in (0..rows).step_by(step) {
        let part = &mut numbers[..step.min(rows - first) * width];
        copy(first, part);
        put_numbers(file, part)?;
    }
    Ok(())
}

/// Writes `rows` rows of `width` numbers, rounded.
fn put_rounded(
    file: &mut SummedFile,
    (rows, width): (usize, usize),
    copy: CopyRows<'_>,
    rounding: Rounding,
) -> Result<(), FileError> {
    let step = (CHUNK / width.max(1)).max(1).min(rows);
    let mut numbers = vec![0.0; step * width];
    let mut halves = vec![0; step * width];
    let mut bytes = vec![0; 2 * step * width];
    for first in (0..rows).step_by(step.max(1)) {
        let count = step.min(rows - first) * width;
        let (part, halves) = (&mut numbers[..count], &mut halves[..count]);
        copy(first, part);
        let rows = part.chunks_exact(width.max(1));
        let rounded = halves.chunks_exact_mut(width.max(1));
        for ((row, numbers), rounded) in (first..).zip(rows).zip(rounded) {
            rounding.narrow(row, numbers, rounded);
        }
        let bytes = &mut bytes[..2 * count];
        for (to, half) in bytes.as_chunks_mut().0.iter_mut().zip(halves) {
            *to = half.to_le_bytes();
        }
        file.put(bytes)?;
    }
    Ok(())
}

/// What stands before the numbers of tensors with these names and shapes.
pub(crate) fn header(
    tensors: &[Wanted<'_>],
    metadata: &[(&str, String)],
) -> Result<Vec<u8>, String> {
    let mut entries = BTreeMap::new();
    let mut end = 0;
    for &(name, storage, shape) in tensors {
        let start = end;
        end += storage.bytes() * shape.iter().product::<usize>() as u64;
        let entry = Entry {
            dtype: dtype(storage).to_owned(),
            shape: shape.to_vec(),
            data_offsets: (start, end),
        };
        let entry = serde_json::to_value(entry).map_err(|e| e.to_string())?;
        if entries.insert(name, entry).is_some() {
            return Err(format!("there are two tensors `{name}`"));
        }
    }
    if !metadata.is_empty() {
        entries.insert(
            METADATA,
            metadata.iter().map(|(k, v)| (*k, v.as_str())).collect(),
        );
    }
    let mut text = serde_json::to_vec(&entries).map_err(|e| e.to_string())?;
    text.resize(text.len().next_multiple_of(8), b' ');
    let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
    bytes.append(&mut text);
    Ok(bytes)
}

const fn dtype(storage: Storage) -> &'static str {
    match storage {
        Storage::F32 => F32,
        Storage::Bf16 => BF16,
    }
}

/// Writes numbers, little-endian.
pub(crate) fn put_numbers(file: &mut SummedFile, numbers: &[f32]) -> Result<(), FileError> {
    let mut bytes = vec![0; 4 * numbers.len().min(CHUNK)];
    for chunk in numbers.chunks(CHUNK) {
        let bytes = &mut bytes[..4 * chunk.len()];
        for (to, number) in bytes.as_chunks_mut().0.iter_mut().zip(chunk) {
            *to = number.to_le_bytes();
        }
        file.put(bytes)?;
    }
    Ok(())
}

/// Reads all tensors of a file and verifies it.
pub(super) fn read(
    file: &File,
    path: &Path,
    expected: Summary,
) -> Result<Vec<Tensor>, CheckpointError> {
    let mut reader = Reader::new(file, path, expected)?;
    let mut tensors = Vec::new();
    for listed in reader.header()? {
        let mut tensor = Tensor {
            name: listed.name,
            shape: listed.shape,
            values: Vec::new(),
        };
        let count = tensor.shape.iter().product();
        reader.numbers(listed.storage, count, &mut tensor.values)?;
        tensors.push(tensor);
    }
    reader.finish()?;
    Ok(tensors)
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
                rows.map(|row| row.iter().sum::<f32>() / dim as f32).collect()
            }
            Optimizer::Adagrad => {
                let sums = self.adagrad.iter();
                sums.flat_map(|&sum| std::iter::repeat_n(sum, dim)).collect()
            }
        };
    }

    /// Reads a partition and verifies its file. The memory of the old content is used again.
    pub(super) fn read(
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
