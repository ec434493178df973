//! Error of an operation on a file.

use std::io;
use std::path::{Path, PathBuf};

/// File operation that failed in the operating system.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {}: {cause}{}", path.display(), advice(cause))]
pub struct FileError {
    /// Attempted operation, a verb.
    pub operation: &'static str,
    /// File or folder of the operation.
    pub path: PathBuf,
    /// Error of the operating system.
    pub cause: io::Error,
}

impl FileError {
    /// Creates the error of an `operation` on `path` that failed with `cause`.
    #[must_use]
    pub fn new(operation: &'static str, path: &Path, cause: io::Error) -> Self {
        Self {
            operation,
            path: path.to_owned(),
            cause,
        }
    }

    /// Returns whether the file or folder does not exist.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.cause.kind() == io::ErrorKind::NotFound
    }

    /// Returns whether the disk or the user's share of it is full.
    #[must_use]
    pub fn is_disk_full(&self) -> bool {
        use io::ErrorKind::{QuotaExceeded, StorageFull};
        matches!(self.cause.kind(), StorageFull | QuotaExceeded)
    }

    /// Returns whether the content of the file is wrong, as opposed to a failed read.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        self.cause.kind() == io::ErrorKind::InvalidData
    }
}

fn advice(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free some space and run the command again; everything that was complete is kept"
        }
        io::ErrorKind::FileTooLarge => "; the limit on file sizes (`ulimit -f`) is too low",
        io::ErrorKind::PermissionDenied => {
            "; check owner and permissions of the file and its folder"
        }
        io::ErrorKind::ReadOnlyFilesystem => "; choose a folder that can be written",
        _ if cause.raw_os_error() == Some(rustix::io::Errno::MFILE.raw_os_error()) => {
            "; raise the limit on open files (`ulimit -n`)"
        }
        _ => "",
    }
}
