//! Files that survive crashes: creation under a temporary name, replacement, checksums, locks and sealed manifests.
//!
//! Every error names the operation, the path and, where possible, a remedy ([`FileError`]). In reading order: a file
//! that gets its name when it is complete ([`ChecksummedFile`]), the lock of a folder ([`FolderLock`]), files that are
//! not removed while somebody reads them ([`open_locked`]), manifests with their own checksum ([`sealed_json`]), the
//! dataset, checkpoint or index that a folder belongs to ([`owner`]), and folders in object stores ([`remote`]).
//!
//! Invariants: a file that has its name is complete, and what was renamed was synced to disk before. This crate knows
//! neither the contents of the files nor the configuration of a run.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use rustix::fs::{CWD, RenameFlags, renameat_with};

mod checksummed;
mod error;
pub mod faults;
mod lock;
pub mod owner;
mod read_locks;
pub mod remote;
pub mod sealed_json;
mod staged;
mod unfinished;
mod writable;

pub use self::checksummed::{ChecksummedFile, FileSummary, summarize};
pub use self::error::FileError;
use self::faults::{attempt, attempt_removal, step, synced};
pub use self::lock::{FolderLock, lock_folder};
pub use self::read_locks::{open_locked, remove_unless_read};
use self::staged::folder_of;
pub use self::staged::{STAGED_SUFFIX, rename, staged_name};
pub use self::writable::{check_writable, is_kernel_filesystem};

/// Drops a file's pages from the system's page cache, as far as they are already on disk.
///
/// # Errors
/// When the file cannot be opened.
pub fn drop_page_cache(path: &Path) -> Result<(), FileError> {
    let file = open(path)?;
    // This is only advice. A system that lacks or ignores it affects nothing but a measurement.
    #[cfg(target_os = "linux")]
    let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
    drop(file);
    Ok(())
}

/// Writes to the end of a file that was opened for appending.
///
/// # Errors
/// When it cannot be written.
pub fn append(file: &mut File, path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    attempt("write", path, || file.write_all(bytes))
}

/// Writes all of `bytes` at `offset`, without moving the file's shared position.
///
/// # Errors
/// When they cannot be written.
pub fn write_all_at(file: &File, path: &Path, bytes: &[u8], offset: u64) -> Result<(), FileError> {
    attempt("write", path, || file.write_all_at(bytes, offset))
}

/// Opens a regular file for reading. Refuses pipes, on which reading would block, and devices, which never end.
///
/// # Errors
/// When the file cannot be opened or is not a regular file.
pub fn open(path: &Path) -> Result<File, FileError> {
    size(path)?;
    File::open(path).map_err(|e| FileError::new("open", path, e))
}

/// Fills `buffer` with the bytes from `offset` on, without moving the file's shared position.
///
/// # Errors
/// When the bytes cannot be read or the file is too short.
pub fn read_exact_at(
    file: &File,
    path: &Path,
    buffer: &mut [u8],
    offset: u64,
) -> Result<(), FileError> {
    file.read_exact_at(buffer, offset)
        .map_err(|e| FileError::new("read", path, e))
}

/// Reads the whole file; refuses a file of more than `limit` bytes.
///
/// # Errors
/// When the file cannot be read, is larger, or is not a regular file.
pub fn read(path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    let failed = |e| FileError::new("read", path, e);
    let file = open(path)?;
    let mut bytes = Vec::new();
    // One byte more than the limit, because files may grow while they are read.
    let read = file.take(limit.saturating_add(1)).read_to_end(&mut bytes);
    if read.map_err(failed)? as u64 > limit {
        let what = format!("it is larger than the limit of {limit} bytes");
        return Err(failed(io::Error::new(io::ErrorKind::InvalidData, what)));
    }
    Ok(bytes)
}

/// Returns the size of a regular file in bytes.
///
/// # Errors
/// When the file does not exist, or is a folder, a pipe or a device.
pub fn size(path: &Path) -> Result<u64, FileError> {
    let metadata = fs::metadata(path).map_err(|e| FileError::new("open", path, e))?;
    if metadata.is_dir() {
        let cause = io::ErrorKind::IsADirectory.into();
        return Err(FileError::new("open", path, cause));
    }
    if !metadata.is_file() {
        let what = "it is not a regular file but a pipe or a device";
        let cause = io::Error::new(io::ErrorKind::InvalidData, what);
        return Err(FileError::new("open", path, cause));
    }
    Ok(metadata.len())
}

/// Replaces a file atomically: after a crash it has either the old or the new content.
///
/// # Errors
/// When the new content cannot be written; the old content is kept then.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let staged = staged_name(path);
    write(&staged, bytes)?;
    rename(&staged, path)?;
    sync_folder_of(path)
}

/// Writes a file and syncs its content, but not its name. A failed write leaves an incomplete file.
///
/// # Errors
/// When the operating system reports an error.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let mut file = ChecksummedFile::create(path)?;
    file.put(bytes)?;
    file.finish(true)?;
    Ok(())
}

/// Creates an empty file, durably. An existing file is left unchanged.
///
/// # Errors
/// When the operating system reports an error.
pub fn create_marker(path: &Path) -> Result<(), FileError> {
    let mut options = File::options();
    options.append(true).create(true);
    let file = attempt("create", path, || options.open(path))?;
    // By the open file: another process may remove the marker at any time.
    attempt("sync", path, || file.sync_all())?;
    synced(path);
    sync_folder_of(path)
}

/// Exchanges two folders atomically.
///
/// # Errors
/// When the operating system reports an error, or the file system does not support it.
pub fn exchange(one: &Path, other: &Path) -> Result<(), FileError> {
    attempt("rename to", other, || {
        Ok(renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE)?)
    })
}

/// Removes a file. A missing file is not an error.
///
/// # Errors
/// When the operating system reports an error.
pub fn remove(path: &Path) -> Result<(), FileError> {
    attempt_removal(path, || fs::remove_file(path))
}

/// Removes a folder and its content. A missing folder is not an error.
///
/// # Errors
/// When the operating system reports an error.
pub fn remove_folder(path: &Path) -> Result<(), FileError> {
    attempt_removal(path, || fs::remove_dir_all(path))
}

/// Creates a folder and its missing parents.
///
/// # Errors
/// When the operating system reports an error, or `path` is a URL.
pub fn create_folder(path: &Path) -> Result<(), FileError> {
    if remote::is_any_url(path) {
        let what = match remote::as_url(path) {
            Some(_) => {
                "this command writes to local folders only; name one, and copy it afterwards"
            }
            None => "a URL begins with s3://, gs:// or az://, in small letters",
        };
        return Err(FileError::new(
            "create folder",
            path,
            io::Error::other(what),
        ));
    }
    attempt("create folder", path, || fs::create_dir_all(path))
}

/// Creates a hard link, or a copy where the file system has no hard links.
///
/// # Errors
/// When neither is possible.
pub fn link_or_copy(from: &Path, to: &Path) -> Result<(), FileError> {
    step(to).map_err(|e| FileError::new("link", to, e))?;
    if fs::hard_link(from, to).is_ok() {
        synced(to);
        return Ok(());
    }
    fs::copy(from, to).map_err(|e| FileError::new("copy to", to, e))?;
    sync(to)
}

/// Syncs a file to disk.
///
/// # Errors
/// When the operating system cannot write it.
pub fn sync(path: &Path) -> Result<(), FileError> {
    attempt("sync", path, || File::open(path)?.sync_all())?;
    synced(path);
    Ok(())
}

/// Syncs the entries of a file's folder to disk.
///
/// # Errors
/// When the operating system cannot write them.
pub fn sync_folder_of(path: &Path) -> Result<(), FileError> {
    sync(folder_of(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process may be killed between linking and renaming; its successor links and renames again.
    #[test]
    fn of_two_names_of_one_file_one_stays() {
        let folder = tempfile::tempdir().expect("a folder");
        let [original, staged, kept] =
            ["metrics", "kept.tmp", "kept"].map(|name| folder.path().join(name));
        fs::write(&original, "text").expect("room");
        for _ in 0..2 {
            link_or_copy(&original, &staged).expect("a link");
            rename(&staged, &kept).expect("a new name");
            assert!(kept.exists() && !staged.exists());
        }
    }
}
