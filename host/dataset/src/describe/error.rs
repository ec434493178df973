//! Error of a description.

use std::path::PathBuf;

use crate::{DatasetError, EdgeReadError};

/// Error of a description.
#[derive(Debug, thiserror::Error)]
pub enum DescribeError {
    /// The dataset is damaged, or one of its files cannot be read.
    #[error(transparent)]
    Dataset(#[from] DatasetError),
    /// An edge set is damaged or cannot be read.
    #[error(transparent)]
    Read(#[from] EdgeReadError),
    /// The minimum memory exceeds the limit.
    #[error(
        "describing {} takes at least {} MiB of memory, but the limit is {} MiB; allow more with `--memory`",
        path.display(), needed.div_ceil(1 << 20), available >> 20
    )]
    Memory {
        /// Folder of the dataset.
        path: PathBuf,
        /// Required bytes.
        needed: u64,
        /// Available bytes.
        available: u64,
    },
    /// The caller stopped it.
    #[error("the description was stopped")]
    Cancelled,
}
