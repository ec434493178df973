//! What can be wrong with a checkpoint.

use std::path::{Path, PathBuf};

use super::{MANIFEST, way_out};
use crate::files::FileError;
use crate::sealed::SealError;

/// What is wrong with a checkpoint.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// Another run writes to it.
    #[error(
        "another run{holder} holds the checkpoint {}; wait for it, stop it, or choose another \
         `checkpoint_path`", path.display()
    )]
    Locked {
        /// The folder.
        path: PathBuf,
        /// ` (process N)`, if it is known.
        holder: String,
    },
    /// There is none.
    #[error(
        "{} is no checkpoint: it has no {MANIFEST}; `pbg-host train` makes one", path.display()
    )]
    Missing {
        /// The folder.
        path: PathBuf,
    },
    /// Its manifest is gone, and there are files that one named.
    #[error(
        "{} is no checkpoint: it has no {MANIFEST}, but files of one, such as {file}; {instead}", path.display()
    )]
    Lost {
        /// The folder.
        path: PathBuf,
        /// One of the files.
        file: String,
        /// What to do.
        instead: String,
    },
    /// It is a file, a pipe or a device.
    #[error(
        "{} is no checkpoint: it is no folder; name the folder that `pbg-host train` writes to", path.display()
    )]
    NoFolder {
        /// What was named.
        path: PathBuf,
    },
    /// A run has committed again and again while it was opened.
    #[error(
        "the checkpoint {} changes faster than its files can be opened; run the command again, or wait until the run that \
         writes it has ended", path.display()
    )]
    Changing {
        /// The folder.
        path: PathBuf,
    },
    /// A file is not as it was written.
    #[error("{} is damaged: {what}; {instead}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
        /// What to do.
        instead: String,
    },
    /// The folder was made by something else, or by another version.
    #[error("{error}; choose another `checkpoint_path`")]
    Format {
        /// What was found and what was expected.
        error: SealError,
    },
    /// An earlier write failed.
    #[error(
        "nothing is committed to {} any more, because a write failed before: {failure}; the last \
         complete version is kept", path.display()
    )]
    Refused {
        /// The folder.
        path: PathBuf,
        /// The first failure.
        failure: String,
    },
}

impl CheckpointError {
    /// Whether another run uses the checkpoint so that it cannot be opened now.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        matches!(self, Self::Locked { .. } | Self::Changing { .. })
    }

    /// Whether the operating system refused something: disk full, no permission and the like.
    #[must_use]
    pub fn is_io(&self) -> bool {
        match self {
            Self::File(error) => !error.is_damage(),
            Self::Refused { .. } => true,
            _ => false,
        }
    }

    pub(super) fn damaged(path: &Path, what: impl Into<String>) -> Self {
        Self::Damaged {
            path: path.to_owned(),
            what: what.into(),
            instead: path.parent().map(way_out).unwrap_or_default(),
        }
    }

    pub(super) fn lost(folder: &Path, file: &str) -> Self {
        Self::Lost {
            path: folder.to_owned(),
            file: file.to_owned(),
            instead: way_out(folder),
        }
    }

    pub(super) fn manifest(path: &Path, error: serde_json::Error) -> Self {
        FileError::new("write", path, std::io::Error::other(error)).into()
    }
}

impl From<SealError> for CheckpointError {
    fn from(error: SealError) -> Self {
        match error {
            SealError::File(error) => Self::File(error),
            SealError::Damaged { path, what } => Self::damaged(&path, what),
            SealError::Format { .. } => Self::Format { error },
        }
    }
}
