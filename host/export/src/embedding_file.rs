//! Interface of the writers of embeddings, one per format.

use pbg_checkpoint::tensors::put_numbers;
use pbg_files::ChecksummedFile;

use super::ExportError;

/// Writer of a file of embeddings.
pub(super) trait EmbeddingFile {
    /// Appends rows: their names (`[n]`) and their values (`[n, dim]`).
    fn put(&mut self, names: &[&str], values: &[f32]) -> Result<(), ExportError>;
    /// Completes the file.
    fn finish(self: Box<Self>) -> Result<(), ExportError>;
}

/// Formats that contain only the numbers after a header.
impl EmbeddingFile for ChecksummedFile {
    fn put(&mut self, _names: &[&str], values: &[f32]) -> Result<(), ExportError> {
        Ok(put_numbers(self, values)?)
    }

    fn finish(self: Box<Self>) -> Result<(), ExportError> {
        (*self).finish(true)?;
        Ok(())
    }
}
