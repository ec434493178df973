//! Safetensors files: one with the tensor `embeddings`, and one with all parameters.

use std::path::Path;

use pbg_core::model::EmbeddingFormat;

use super::ExportError;
use super::embedding_file::EmbeddingFile;
use pbg_checkpoint::Tensor;
use pbg_checkpoint::tensors::{header, put_numbers};
use pbg_files::{ChecksummedFile, FileError};

pub(super) struct SafetensorsWriter {
    file: ChecksummedFile,
}

impl SafetensorsWriter {
    pub(super) fn create(path: &Path, shape: &[usize]) -> Result<Self, FileError> {
        let mut file = ChecksummedFile::unfinished(path)?;
        let header = header(&[("embeddings", EmbeddingFormat::F32, shape)], &[]);
        let header = header.map_err(|e| file.error(std::io::Error::other(e)))?;
        file.put(&header)?;
        Ok(Self { file })
    }
}

/// Writes the parameters, each under its name.
pub(super) fn parameters(path: &Path, tensors: &[&Tensor]) -> Result<(), FileError> {
    let shapes = tensors.iter();
    let shapes: Vec<_> = shapes
        .map(|tensor| (&*tensor.name, EmbeddingFormat::F32, &*tensor.shape))
        .collect();
    let mut file = ChecksummedFile::unfinished(path)?;
    let header = header(&shapes, &[]).map_err(|e| file.error(std::io::Error::other(e)))?;
    file.put(&header)?;
    for tensor in tensors {
        put_numbers(&mut file, &tensor.values)?;
    }
    file.finish(true).map(|_| ())
}

impl EmbeddingFile for SafetensorsWriter {
    fn put(&mut self, _names: &[&str], values: &[f32]) -> Result<(), ExportError> {
        Ok(put_numbers(&mut self.file, values)?)
    }

    fn finish(self: Box<Self>) -> Result<(), ExportError> {
        self.file.finish(true)?;
        Ok(())
    }
}
