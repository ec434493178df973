//! Tensors in safetensors files: a length, a header in JSON, and the numbers, little-endian.
//!
//! Written and read in pieces, so that no second copy of a partition is in memory.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::CheckpointError;
use crate::files::{FileError, Summary, SummedFile};

mod reader;
mod rows;

use reader::Reader;
pub use rows::{EmbeddingRows, row_sum};

/// Name of the rows of a partition.
pub(super) const EMBEDDINGS: &str = "embeddings";
/// Name of the accumulators of a partition.
pub(super) const ROW_ADAGRAD: &str = "row_adagrad";

/// Numbers converted at a time.
const CHUNK: usize = 256 << 10;

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
    /// The row-Adagrad accumulator of each row.
    pub row_adagrad: Vec<f32>,
}

/// Where the embeddings of a partition lie: `rows` x `dim` numbers, row by row, little-endian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmbeddingPlace {
    /// The file.
    pub path: PathBuf,
    /// Bytes before the first number.
    pub offset: u64,
    /// Number of rows.
    pub rows: usize,
    /// Numbers per row.
    pub dim: usize,
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
        let Some((EMBEDDINGS, &[rows, dim])) = header
            .first()
            .map(|(name, shape, _)| (name.as_str(), &shape[..]))
        else {
            return Err(CheckpointError::damaged(
                path,
                "it has not the tensors of a partition",
            ));
        };
        Ok(Self {
            path: path.to_owned(),
            offset: reader.position,
            rows,
            dim,
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
        .map(|tensor| (tensor.name, tensor.shape))
        .collect();
    write_with(path, &shapes, metadata, |file| {
        let mut values = tensors.iter().map(|tensor| tensor.values);
        values.try_for_each(|values| put_numbers(file, values))
    })
}

/// Writes tensors whose numbers `put` puts into the file, in order.
fn write_with(
    path: &Path,
    shapes: &[(&str, &[usize])],
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
    /// Row-Adagrad accumulators, one number per row.
    pub row_adagrad: CopyRows<'a>,
}

impl PartitionRows<'_> {
    /// Writes the partition as [`write`] writes its tensors.
    pub(super) fn write(
        &self,
        path: &Path,
        metadata: &[(&str, String)],
    ) -> Result<Summary, FileError> {
        let (rows, dim) = (self.rows, self.dim);
        let shapes: [(&str, &[usize]); 2] = [(EMBEDDINGS, &[rows, dim]), (ROW_ADAGRAD, &[rows])];
        write_with(path, &shapes, metadata, |file| {
            put_rows(file, rows, dim, self.embeddings)?;
            put_rows(file, rows, 1, self.row_adagrad)
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

/// What stands before the numbers of tensors with these names and shapes.
pub(crate) fn header(
    tensors: &[(&str, &[usize])],
    metadata: &[(&str, String)],
) -> Result<Vec<u8>, String> {
    let mut entries = BTreeMap::new();
    let mut end = 0;
    for &(name, shape) in tensors {
        let start = end;
        end += 4 * shape.iter().product::<usize>() as u64;
        let entry = Entry {
            dtype: F32.to_owned(),
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
    for (name, shape, _) in reader.header()? {
        let mut tensor = Tensor {
            name,
            shape,
            values: Vec::new(),
        };
        reader.numbers(tensor.shape.iter().product(), &mut tensor.values)?;
        tensors.push(tensor);
    }
    reader.finish()?;
    Ok(tensors)
}

impl PartitionData {
    /// Reads a partition and verifies its file. The memory of the old content is used again.
    pub(super) fn read(
        &mut self,
        file: &File,
        path: &Path,
        expected: Summary,
    ) -> Result<(), CheckpointError> {
        let mut reader = Reader::new(file, path, expected)?;
        let header = reader.header()?;
        let names: Vec<_> = header
            .iter()
            .map(|(name, shape, _)| (name.as_str(), &shape[..]))
            .collect();
        let [(EMBEDDINGS, &[rows, dim]), (ROW_ADAGRAD, &[accumulators])] = names[..] else {
            return Err(CheckpointError::damaged(
                path,
                "it has not the tensors of a partition",
            ));
        };
        if rows != accumulators {
            return Err(CheckpointError::damaged(
                path,
                "it has not one accumulator per row",
            ));
        }
        (self.rows, self.dim) = (rows, dim);
        reader.numbers(rows * dim, &mut self.embeddings)?;
        reader.numbers(rows, &mut self.row_adagrad)?;
        reader.finish()
    }
}
