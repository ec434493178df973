//! Errors in files of vectors.

use std::path::{Path, PathBuf};

use pbg_files::FileError;

/// Error in a file of vectors or names.
#[derive(Debug, thiserror::Error)]
pub enum VectorError {
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// A file is damaged, or is not what is expected.
    #[error("{}: {what}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// Description of the problem.
        what: String,
    },
}

impl VectorError {
    /// Returns an error in the content of a file.
    pub fn content(path: &Path, what: impl Into<String>) -> Self {
        Self::Content {
            path: path.to_owned(),
            what: what.into(),
        }
    }
}
