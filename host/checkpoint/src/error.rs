//! Errors of checkpoints.

use std::path::{Path, PathBuf};

use super::MANIFEST;
use super::recovery::recovery_advice;
use pbg_files::FileError;
use pbg_files::sealed_json::SealError;

/// Error of a checkpoint operation.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
    /// Another run holds the lock.
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
    /// The folder has no checkpoint.
    #[error(
        "{} is not a checkpoint: it has no {MANIFEST}; `pbg-host train` creates one", .0.display()
    )]
    Missing(PathBuf),
    /// The manifest is missing, but files that a manifest must have named exist.
    #[error(
        "{} is not a complete checkpoint: it has no {MANIFEST}, but files of one, such as {file}; {instead}", path.display()
    )]
    Lost {
        /// The folder.
        path: PathBuf,
        /// Name of one of the files.
        file: String,
        /// Advice.
        instead: String,
    },
    /// The path is a file, a pipe or a device.
    #[error(
        "{} is not a checkpoint: it is not a folder; name the folder that `pbg-host train` writes to", .0.display()
    )]
    NoFolder(PathBuf),
    /// A run committed again and again while the checkpoint was being opened.
    #[error(
        "the checkpoint {} changes faster than its files can be opened; run the command again, or wait until the run that \
         writes it has ended", .0.display()
    )]
    Changing(PathBuf),
    /// A file does not have the content that was written.
    #[error("{} is damaged: {what}; {instead}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// Description of the damage.
        what: String,
        /// Advice.
        instead: String,
    },
    /// The folder belongs to another program, or to another version of this one.
    #[error("{0}; choose another `checkpoint_path`")]
    Format(SealError),
    /// A partition server that may have a file does not answer.
    #[error("the partition server {address}, which may have {name}, does not answer: {cause}")]
    SilentServer {
        /// Address of the server.
        address: String,
        /// Name of the file.
        name: String,
        /// Last failure.
        cause: std::io::Error,
    },
    /// An earlier write failed.
    #[error(
        "cannot commit to {}: an earlier write failed: {failure}; the last complete version \
         is kept", path.display()
    )]
    Refused {
        /// The folder.
        path: PathBuf,
        /// Message of the first failure.
        failure: String,
    },
}

impl CheckpointError {
    /// Returns whether the checkpoint cannot be opened now because another run uses it.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        matches!(self, Self::Locked { .. } | Self::Changing { .. })
    }

    /// Returns whether the operating system reported the error, for example a full disk or a missing permission.
    #[must_use]
    pub fn is_io(&self) -> bool {
        match self {
            Self::File(error) => !error.is_damage(),
            Self::Refused { .. } | Self::SilentServer { .. } => true,
            _ => false,
        }
    }

    /// Returns whether a partition server that may have the file does not answer.
    #[must_use]
    pub fn is_silent_server(&self) -> bool {
        matches!(self, Self::SilentServer { .. })
    }

    pub(super) fn damaged(path: &Path, what: impl Into<String>) -> Self {
        Self::Damaged {
            path: path.to_owned(),
            what: what.into(),
            instead: path.parent().map(recovery_advice).unwrap_or_default(),
        }
    }

    pub(super) fn lost(folder: &Path, file: &str) -> Self {
        Self::Lost {
            path: folder.to_owned(),
            file: file.to_owned(),
            instead: recovery_advice(folder),
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
            SealError::Format { .. } => Self::Format(error),
        }
    }
}
