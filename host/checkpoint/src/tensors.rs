//! Tensors in safetensors files: the header's length, a header in JSON, and the values, little-endian.
//!
//! Files are written and read in chunks, so that memory never holds a second copy of a partition.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use pbg_core::bfloat16::StochasticRounding;
use pbg_core::model::EmbeddingFormat;
use serde::{Deserialize, Serialize};

use super::CheckpointError;
use pbg_files::{ChecksummedFile, FileError, FileSummary};

mod partition;
mod reader;
mod rows;

pub use partition::{CopyRows, EmbeddingLocation, PartitionData, PartitionRows};
pub(super) use partition::{EMBEDDINGS, ROW_ADAGRAD};
use reader::SafetensorsReader;
pub use rows::{EmbeddingRows, row_sum};

/// Number of values that are converted per chunk.
const CHUNK: usize = 256 << 10;

/// Size in bytes of the conversion buffers for reading or writing a partition whose embeddings are stored in another
/// number format.
pub const CONVERSION_BYTES: u64 = 8 * CHUNK as u64;

/// Borrowed tensor with its name.
#[derive(Clone, Copy, Debug)]
pub struct TensorRef<'a> {
    /// Name.
    pub name: &'a str,
    /// Size of each dimension.
    pub shape: &'a [usize],
    /// Values, last dimension fastest.
    pub values: &'a [f32],
}

/// Tensor with its name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tensor {
    /// Name.
    pub name: String,
    /// Size of each dimension.
    pub shape: Vec<usize>,
    /// Values, last dimension fastest.
    pub values: Vec<f32>,
}

impl<'a> From<&'a Tensor> for TensorRef<'a> {
    fn from(tensor: &'a Tensor) -> Self {
        Self {
            name: &tensor.name,
            shape: &tensor.shape,
            values: &tensor.values,
        }
    }
}

/// Entry of a safetensors header.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    dtype: String,
    shape: Vec<usize>,
    data_offsets: (u64, u64),
}

const METADATA: &str = "__metadata__";
const F32: &str = "F32";
const BF16: &str = "BF16";

/// Name, number format and shape of a tensor to write.
pub(crate) type TensorSpec<'a> = (&'a str, EmbeddingFormat, &'a [usize]);

/// Writes tensors in the given order. Does not sync the file; a commit does that.
pub(crate) fn write(
    path: &Path,
    tensors: &[TensorRef<'_>],
    metadata: &[(&str, String)],
) -> Result<FileSummary, FileError> {
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
        .map(|tensor| (tensor.name, EmbeddingFormat::F32, tensor.shape))
        .collect();
    write_with(path, &shapes, metadata, |file| {
        let mut values = tensors.iter().map(|tensor| tensor.values);
        values.try_for_each(|values| put_numbers(file, values))
    })
}

/// Writes tensors with these names and shapes; `put` writes all values, in order.
fn write_with(
    path: &Path,
    shapes: &[TensorSpec<'_>],
    metadata: &[(&str, String)],
    put: impl FnOnce(&mut ChecksummedFile) -> Result<(), FileError>,
) -> Result<FileSummary, FileError> {
    let header = header(shapes, metadata)
        .map_err(|what| FileError::new("write", path, std::io::Error::other(what)))?;
    let mut file = ChecksummedFile::create(path)?;
    file.put(&header)?;
    put(&mut file)?;
    file.finish(false)
}

fn put_rows(
    file: &mut ChecksummedFile,
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

/// Writes `rows` rows of `width` values, rounded to bfloat16.
fn put_rounded(
    file: &mut ChecksummedFile,
    (rows, width): (usize, usize),
    copy: CopyRows<'_>,
    rounding: StochasticRounding,
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

/// Returns the part of a file before the values, for tensors with these names and shapes.
pub fn header(tensors: &[TensorSpec<'_>], metadata: &[(&str, String)]) -> Result<Vec<u8>, String> {
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
            return Err(format!("two tensors are named `{name}`"));
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

const fn dtype(storage: EmbeddingFormat) -> &'static str {
    match storage {
        EmbeddingFormat::F32 => F32,
        EmbeddingFormat::Bf16 => BF16,
    }
}

/// Writes values, little-endian.
pub fn put_numbers(file: &mut ChecksummedFile, numbers: &[f32]) -> Result<(), FileError> {
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

/// Reads and verifies a tensor file without keeping its values.
pub(super) fn verify(
    file: &File,
    path: &Path,
    expected: FileSummary,
) -> Result<(), CheckpointError> {
    let mut reader = SafetensorsReader::new(file, path, expected)?;
    reader.header()?;
    reader.skip_to_end()?;
    reader.finish()
}

/// Reads and verifies all tensors of a file.
pub(super) fn read(
    file: &File,
    path: &Path,
    expected: FileSummary,
) -> Result<Vec<Tensor>, CheckpointError> {
    let mut reader = SafetensorsReader::new(file, path, expected)?;
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
