//! Safetensors files: one with the tensor `embeddings`, and one with all parameters.

use std::path::Path;

use pbg_core::model::EmbeddingFormat;

use pbg_checkpoint::Tensor;
use pbg_checkpoint::tensors::{header, put_numbers};
use pbg_files::{ChecksummedFile, FileError};

/// Creates a file of tensors with these names and shapes, to which only their numbers remain to be written.
pub(super) fn create(
    path: &Path,
    shapes: &[(&str, EmbeddingFormat, &[usize])],
) -> Result<ChecksummedFile, FileError> {
    let mut file = ChecksummedFile::unfinished(path)?;
    let header = header(shapes, &[]).map_err(|e| file.error(std::io::Error::other(e)))?;
    file.put(&header)?;
    Ok(file)
}

/// Writes the parameters, each under its name.
pub(super) fn parameters(path: &Path, tensors: &[&Tensor]) -> Result<(), FileError> {
    let shapes = tensors.iter();
    let shapes = shapes.map(|tensor| (&*tensor.name, EmbeddingFormat::F32, &*tensor.shape));
    let mut file = create(path, &shapes.collect::<Vec<_>>())?;
    for tensor in tensors {
        put_numbers(&mut file, &tensor.values)?;
    }
    file.finish(true).map(|_| ())
}
