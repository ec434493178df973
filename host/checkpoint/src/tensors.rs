//! Tensors in safetensors files: the header's length, a header in JSON, and the values, little-endian.
//!
//! Files are written and read in chunks, so that memory never holds a second copy of a partition.

use std::fs::File;
use std::path::Path;

use pbg_core::model::EmbeddingFormat;

use super::CheckpointError;
use pbg_files::{FileError, FileSummary};

mod header;
mod partition;
mod reader;
mod rows;
mod writer;

use header::CHUNK;
pub use header::header;
pub(super) use partition::{EMBEDDINGS, ROW_ADAGRAD, partition_metadata};
pub use partition::{EmbeddingLocation, PartitionData, PartitionRows};
use reader::SafetensorsReader;
pub use rows::{EmbeddingRows, row_sum};
use writer::write_with;
pub use writer::{CopyRows, TensorOutput, put_numbers};

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

/// Writes tensors in the given order. Does not sync the file; a commit does that.
pub(crate) fn write(
    path: &Path,
    tensors: &[TensorRef<'_>],
    metadata: &[(&str, String)],
) -> Result<FileSummary, FileError> {
    let invalid = |what: String| FileError::new("write", path, std::io::Error::other(what));
    for tensor in tensors {
        let (name, count) = (tensor.name, tensor.values.len());
        if tensor.shape.iter().product::<usize>() != count {
            let what = format!("{count} numbers do not fit the shape of `{name}`");
            return Err(invalid(what));
        }
    }
    let shapes = tensors.iter();
    let shapes = shapes.map(|tensor| (tensor.name, EmbeddingFormat::F32, tensor.shape));
    let shapes: Vec<_> = shapes.collect();
    write_with(path, &shapes, metadata, |file| {
        let mut values = tensors.iter().map(|tensor| tensor.values);
        values.try_for_each(|values| put_numbers(file, values))
    })
}

/// Reads and verifies a tensor file without keeping its values.
pub(super) fn verify(
    file: &File,
    path: &Path,
    expected: FileSummary,
) -> Result<(), CheckpointError> {
    let mut reader = SafetensorsReader::of_file(file, path, expected)?;
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
    let mut reader = SafetensorsReader::of_file(file, path, expected)?;
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
