//! Folders that one process at a time writes to.

use std::fs::{File, TryLockError};
use std::path::Path;

use super::FileError;

/// A lock on a folder, until it is dropped or the process ends.
#[derive(Debug)]
pub enum FolderLock {
    /// It is taken; nothing is where the file system cannot lock a folder.
    Taken(Option<File>),
    /// Another process has it.
    Elsewhere,
}

/// Keeps other processes that ask the same out of `folder`.
///
/// # Errors
/// When the folder cannot be opened.
pub fn lock_folder(folder: &Path) -> Result<FolderLock, FileError> {
    // A folder, which `open` refuses.
    let file = File::open(folder).map_err(|e| FileError::new("open", folder, e))?;
    Ok(match file.try_lock() {
        Ok(()) => FolderLock::Taken(Some(file)),
        Err(TryLockError::WouldBlock) => FolderLock::Elsewhere,
        Err(TryLockError::Error(_)) => FolderLock::Taken(None),
    })
}
