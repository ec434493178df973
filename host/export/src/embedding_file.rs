//! Interface of the writers of embeddings, one per format.

use super::ExportError;

/// Writer of a file of embeddings.
pub(super) trait EmbeddingFile {
    /// Appends rows: their names (`[n]`) and their values (`[n, dim]`).
    fn put(&mut self, names: &[&str], values: &[f32]) -> Result<(), ExportError>;
    /// Completes the file.
    fn finish(self: Box<Self>) -> Result<(), ExportError>;
}
