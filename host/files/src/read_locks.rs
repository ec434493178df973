//! Files that one process reads while another replaces them.
//!
//! A reader holds a shared lock on the file itself while it reads. The process that replaces the file removes the old
//! one only if nobody holds such a lock, and otherwise tries again later.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::{FileError, open, remove};

/// Opens a regular file for reading. [`remove_unless_read`] does not remove the file before the handle is dropped.
///
/// # Errors
/// When the file cannot be opened or is not a regular file. A file that is being removed counts as missing.
pub fn open_locked(path: &Path) -> Result<File, FileError> {
    let gone = || FileError::new("open", path, io::ErrorKind::NotFound.into());
    let file = open(path)?;
    match file.try_lock_shared() {
        Err(TryLockError::WouldBlock) => return Err(gone()),
        // Where files cannot be locked, the open handle alone keeps the content.
        Ok(()) | Err(TryLockError::Error(_)) => {}
    }
    let links = file.metadata().map(|found| found.nlink());
    match links.map_err(|e| FileError::new("open", path, e))? {
        0 => Err(gone()),
        _ => Ok(file),
    }
}

/// Removes a file unless a process holds it open with [`open_locked`]. Returns whether the file is gone; a missing file
/// counts as gone.
///
/// # Errors
/// When the operating system reports an error.
pub fn remove_unless_read(path: &Path) -> Result<bool, FileError> {
    // Network file systems lock only files that are open for writing.
    let opened = File::options().read(true).write(true).open(path);
    let locked = opened.map(|file| (file.try_lock(), file));
    if let Ok((Err(TryLockError::WouldBlock), _)) = locked {
        return Ok(false);
    }
    remove(path)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read as _;

    use super::*;

    #[test]
    fn a_file_that_is_read_stays_until_nobody_reads_it() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("file");
        fs::write(&path, "text").expect("room");
        let (one, two) = (open_locked(&path), open_locked(&path));
        let (mut one, two) = (one.expect("a file"), two.expect("a file"));
        assert!(!remove_unless_read(&path).expect("no failure"));
        drop(two);
        assert!(!remove_unless_read(&path).expect("no failure"));
        let mut text = String::new();
        one.read_to_string(&mut text).expect("it is readable");
        assert!(text == "text" && path.exists());
        drop(one);
        assert!(remove_unless_read(&path).expect("no failure"));
        assert!(!path.exists());
        assert!(remove_unless_read(&path).expect("none is fine"));
    }
}
