//! What can be wrong with an import.

use std::path::{Path, PathBuf};

use crate::dataset::{DatasetError, ReadError, StagingError};
use crate::describe::DescribeError;
use crate::files::FileError;
use crate::owner::Owner;

/// What ended an import. The target is as it was before.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The dataset whose ids are to be kept is damaged or none.
    #[error(transparent)]
    Dictionary(#[from] DatasetError),
    /// So is the dataset in the target folder.
    #[error(
        "the dataset in the target folder cannot be built upon: {error}; with `--fresh` it is \
         replaced without keeping its ids"
    )]
    Previous {
        /// What is wrong with it.
        error: DatasetError,
    },
    /// Something is wrong with what was asked for.
    #[error("{what}")]
    Usage {
        /// What.
        what: String,
    },
    /// A line, or a row of a table, is wrong.
    #[error("{}:{line}: {what}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Line, from 1; for Parquet the row.
        line: u64,
        /// What is wrong.
        what: String,
    },
    /// A file of edges is wrong as a whole.
    #[error("{}: {what}", path.display())]
    Input {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// There are more names or edges than the format can number.
    #[error("{what}")]
    TooMany {
        /// Of what.
        what: String,
    },
    /// What must be in memory is more than was allowed.
    #[error("{what}; allow more with `--memory`")]
    Memory {
        /// What takes how much.
        what: String,
    },
    /// So are the names of all entities, where they have to be in memory for entities have features.
    #[error("{what}; allow more with `--memory`")]
    Names {
        /// What they take.
        what: String,
    },
    /// The target is a folder of something else.
    #[error("{} is there and is not a dataset: choose another folder", path.display())]
    Occupied {
        /// The target.
        path: PathBuf,
    },
    /// Edges that were just written cannot be read.
    #[error(transparent)]
    Edges(ReadError),
    /// The target lies in another dataset.
    #[error("{} belongs to {owner}, and an import into that one would remove it; choose another folder", path.display())]
    Inside {
        /// The target.
        path: PathBuf,
        /// The other dataset.
        owner: Owner,
    },
    /// Another import works on the target, or the system does not let this one.
    #[error(transparent)]
    Staging(StagingError),
    /// The caller ended it.
    #[error("the import was stopped")]
    Cancelled,
}

impl From<DescribeError> for ImportError {
    fn from(error: DescribeError) -> Self {
        match error {
            DescribeError::Dataset(error) => Self::Dictionary(error),
            DescribeError::Read(ReadError::File(error)) => Self::File(error),
            DescribeError::Read(error) => Self::Edges(error),
            DescribeError::Memory { .. } => Self::Memory {
                what: error.to_string(),
            },
            DescribeError::Cancelled => Self::Cancelled,
        }
    }
}

impl From<StagingError> for ImportError {
    fn from(error: StagingError) -> Self {
        match error {
            StagingError::File(error) => Self::File(error),
            error => Self::Staging(error),
        }
    }
}

impl ImportError {
    pub(super) fn usage(what: impl Into<String>) -> Self {
        Self::Usage { what: what.into() }
    }

    pub(super) fn input(path: &Path, what: impl Into<String>) -> Self {
        Self::Input {
            path: path.to_owned(),
            what: what.into(),
        }
    }
}
