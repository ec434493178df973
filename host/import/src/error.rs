//! Errors of imports.

use std::path::{Path, PathBuf};

use pbg_dataset::describe::DescribeError;
use pbg_dataset::{DatasetError, EdgeReadError, StagingError};
use pbg_files::FileError;
use pbg_files::owner::Owner;

/// Error that ended an import. The target is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// The dataset whose ids are to be kept is damaged or missing.
    #[error(transparent)]
    Dictionary(#[from] DatasetError),
    /// The dataset in the target folder is damaged.
    #[error(
        "the ids of the dataset in the target folder cannot be kept: {0}; `--fresh` replaces the \
         dataset without keeping its ids"
    )]
    Previous(DatasetError),
    /// The request or the configuration is invalid.
    #[error("{0}")]
    Usage(String),
    /// A line of a text or a row of a table is wrong.
    #[error("{}, line {line}: {what}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// Line number, from 1; for Parquet the row number.
        line: u64,
        /// Description of the problem.
        what: String,
    },
    /// A file of edges is wrong as a whole.
    #[error("{}: {what}", path.display())]
    Input {
        /// The file.
        path: PathBuf,
        /// Description of the problem.
        what: String,
    },
    /// There are more names or edges than the format can number.
    #[error("{0}")]
    TooMany(String),
    /// Data that must be in memory exceed the limit.
    #[error("{0}; allow more with `--memory`")]
    Memory(String),
    /// The names of all entities exceed the memory limit.
    #[error("{0}; allow more with `--memory`")]
    Names(String),
    /// The target folder exists and is not a dataset.
    #[error("{} exists and is not a dataset: choose another folder", .0.display())]
    Occupied(PathBuf),
    /// Edges of the new dataset cannot be read.
    #[error(transparent)]
    Edges(EdgeReadError),
    /// The target lies in another dataset.
    #[error("{} belongs to {owner}, and an import into that dataset would remove it; choose another folder", path.display())]
    Inside {
        /// The target.
        path: PathBuf,
        /// The other dataset.
        owner: Owner,
    },
    /// Another import uses the target, or the operating system reported an error.
    #[error(transparent)]
    Staging(StagingError),
    /// The caller stopped the import.
    #[error("the import was stopped")]
    Cancelled,
}

impl From<DescribeError> for ImportError {
    fn from(error: DescribeError) -> Self {
        match error {
            DescribeError::Dataset(error) => Self::Dictionary(error),
            DescribeError::Read(EdgeReadError::File(error)) => Self::File(error),
            DescribeError::Read(error) => Self::Edges(error),
            DescribeError::Memory { .. } => Self::Memory(error.to_string()),
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
        Self::Usage(what.into())
    }

    pub(super) fn input(path: &Path, what: impl Into<String>) -> Self {
        Self::Input {
            path: path.to_owned(),
            what: what.into(),
        }
    }
}
