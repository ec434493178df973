//! Locks on folders that one process at a time writes to.

use std::fs::{File, TryLockError};
use std::path::Path;

use super::FileError;

/// Lock on a folder, held until it is dropped or the process ends.
#[derive(Debug)]
pub enum FolderLock {
    /// This process has the lock; `None` where the file system cannot lock folders.
    Taken(Option<File>),
    /// Another process has the lock.
    Busy,
}

/// Locks `folder` against other processes that call this function.
///
/// # Errors
/// When the folder cannot be opened.
pub fn lock_folder(folder: &Path) -> Result<FolderLock, FileError> {
    // `super::open` refuses folders.
    let file = File::open(folder).map_err(|e| FileError::new("open", folder, e))?;
    Ok(match file.try_lock() {
        Ok(()) => FolderLock::Taken(Some(file)),
        Err(TryLockError::WouldBlock) => FolderLock::Busy,
        Err(TryLockError::Error(_)) => FolderLock::Taken(None),
    })
}
