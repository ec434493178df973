//! A safetensors file with one tensor, `embeddings`.

use std::path::Path;

use pbg_core::model::Storage;

use super::{EmbeddingFile, ExportError};
use crate::checkpoint::tensors::{header, put_numbers};
use crate::files::{FileError, SummedFile};

pub(super) struct Array {
    file: SummedFile,
}

impl Array {
    pub(super) fn create(path: &Path, shape: &[usize]) -> Result<Self, FileError> {
        let mut file = SummedFile::create(path)?;
        let header = header(&[("embeddings", Storage::F32, shape)], &[]);
        let header = header.map_err(|e| file.error(std::io::Error::other(e)))?;
        file.put(&header)?;
        Ok(Self { file })
    }
}

impl EmbeddingFile for Array {
    fn put(&mut self, _names: &[&str], values: &[f32]) -> Result<(), ExportError> {
        Ok(put_numbers(&mut self.file, values)?)
    }

    fn finish(self: Box<Self>) -> Result<(), ExportError> {
        self.file.finish(true)?;
        Ok(())
    }
}
