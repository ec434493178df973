//! Errors of indexes.

use std::path::{Path, PathBuf};

use pbg_files::FileError;
use pbg_files::sealed_json::SealError;

/// Error of an index operation.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The folder has no index.
    #[error("there is no index in {}; `pbg-host index` builds one{how}", path.display())]
    Missing {
        /// Folder of the index.
        path: PathBuf,
        /// Options of the command that builds it, where the defaults do not.
        how: String,
    },
    /// The comparator is a formula of each pair of embeddings, so scores are no distances between points.
    #[error(
        "an index needs a comparator of inner products (dot, cos, l2 or squared_l2), and {comparator} is a formula of \
         each pair of embeddings; search without an index, which compares all entities"
    )]
    NotProducts {
        /// Name of the comparator.
        comparator: String,
    },
    /// A file does not have the content that was written.
    #[error("{} is damaged: {what}; `pbg-host index` rebuilds it", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Description of the damage.
        what: String,
    },
    /// The folder belongs to another program, or to another version of this one.
    #[error("{0}; `pbg-host index` rebuilds it")]
    Format(SealError),
    /// Another process builds the index.
    #[error(
        "the index in {} is being built by another `pbg-host index`; wait for it", .0.display()
    )]
    Busy(PathBuf),
    /// The embeddings of the checkpoint have changed since the index was built.
    #[error(
        "the index in {} is out of date: the checkpoint has other embeddings of {what} since it was trained further; \
         `pbg-host index` rebuilds the index", path.display()
    )]
    Stale {
        /// Folder of the index.
        path: PathBuf,
        /// Description of the changed embeddings.
        what: String,
    },
}

impl IndexError {
    /// Returns whether the operating system reported the error, for example a full disk or a missing permission.
    #[must_use]
    pub fn is_io(&self) -> bool {
        matches!(self, Self::File(error) if !error.is_damage())
    }

    pub(super) fn damaged(path: &Path, what: impl Into<String>) -> Self {
        Self::Damaged {
            path: path.to_owned(),
            what: what.into(),
        }
    }
}

impl From<SealError> for IndexError {
    fn from(error: SealError) -> Self {
        match error {
            SealError::File(error) => Self::File(error),
            SealError::Damaged { path, what } => Self::Damaged { path, what },
            SealError::Format { .. } => Self::Format(error),
        }
    }
}
