//! What can be wrong with an index.

use std::path::{Path, PathBuf};

use crate::files::FileError;
use crate::sealed::SealError;

/// What is wrong with an index.
#[derive(Debug, thiserror::Error)]
pub enum IndexError {
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// There is none.
    #[error("there is no index in {}; `pbg-host index` builds it{how}", path.display())]
    Missing {
        /// Its folder.
        path: PathBuf,
        /// With which options, where it is not the usual one.
        how: String,
    },
    /// A file is not as it was written.
    #[error("{} is damaged: {what}; `pbg-host index` builds it anew", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// The folder was made by something else, or by another version.
    #[error("{error}; `pbg-host index` builds it anew")]
    Format {
        /// What was found and what was expected.
        error: SealError,
    },
    /// Another process builds it.
    #[error(
        "the index in {} is being built by another `pbg-host index`; wait for it", path.display()
    )]
    Busy {
        /// Its folder.
        path: PathBuf,
    },
    /// The checkpoint has other embeddings by now.
    #[error(
        "the index in {} is of other embeddings than the checkpoint has, of {what}: it was trained on since; `pbg-host \
         index` builds the index anew", path.display()
    )]
    Stale {
        /// Its folder.
        path: PathBuf,
        /// Which embeddings.
        what: String,
    },
}

impl IndexError {
    /// Whether the operating system refused something: disk full, no permission and the like.
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
            SealError::Format { .. } => Self::Format { error },
        }
    }
}
