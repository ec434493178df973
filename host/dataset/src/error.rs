//! Error of opening or reading a dataset.

use std::path::{Path, PathBuf};

use pbg_files::sealed_json::SealError;
use pbg_files::{FileError, remote};

use super::MANIFEST;
use super::staging::StagingError;

/// Error of a dataset operation.
#[derive(Debug, thiserror::Error)]
pub enum DatasetError {
    /// The folder is not a dataset.
    #[error(
        "{} is not a dataset: it has no {MANIFEST}; `pbg-host import` creates one", .0.display()
    )]
    Missing(PathBuf),
    /// The folder was written in another format or by another version.
    #[error("{0}; import the edges again")]
    Format(SealError),
    /// A file does not have the content that was written.
    #[error("{} is damaged: {what}; {}", path.display(), repair(path))]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Description of the damage.
        what: String,
    },
    /// Another import has replaced the dataset since it was opened.
    #[error("{}", replaced(.0))]
    Replaced(PathBuf),
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// An import was interrupted while it replaced the dataset, or is replacing it now.
    #[error(transparent)]
    Unfinished(StagingError),
    /// The dataset has no edge set of this name.
    #[error("the dataset {} has no edge set `{name}`; it has {known}", path.display())]
    UnknownEdgeSet {
        /// Folder of the dataset.
        path: PathBuf,
        /// Requested name.
        name: String,
        /// Names of the existing edge sets.
        known: String,
    },
    /// The dataset has no entity type of this name.
    #[error("the dataset {} has no entity type `{name}`; it has {known}", path.display())]
    UnknownType {
        /// Folder of the dataset.
        path: PathBuf,
        /// Requested name.
        name: String,
        /// Names of the existing entity types.
        known: String,
    },
}

impl From<StagingError> for DatasetError {
    fn from(error: StagingError) -> Self {
        match error {
            StagingError::File(error) => Self::File(error),
            error => Self::Unfinished(error),
        }
    }
}

impl DatasetError {
    pub(crate) fn damaged(path: &Path, what: impl Into<String>) -> Self {
        Self::Damaged {
            path: path.to_owned(),
            what: what.into(),
        }
    }
}

/// Returns what to do about a damaged file of a dataset.
pub(super) fn repair(file: &Path) -> String {
    let advice = file.parent().and_then(remote::copy_advice);
    advice.unwrap_or_else(|| "import the edges again".to_owned())
}

/// Returns the message for a dataset that another import has replaced since it was opened.
pub(super) fn replaced(path: &Path) -> String {
    format!(
        "the dataset {} was imported again after it was opened, and its files have been replaced; run the command \
         again, or in Python open the model again",
        path.display()
    )
}
