//! Files: every failure carries the operation, the path and, where there is one, the way out.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde::{Deserialize, Serialize};

#[cfg(test)]
pub(crate) mod faults;
mod lock;
mod place;
mod reading;
mod summed;
mod unfinished;

pub use self::lock::{FolderLock, lock_folder};
pub use self::place::{check_writable, is_of_kernel};
pub use self::reading::{open_held, remove_unread};
use self::summed::BUFFER_BYTES;
pub use self::summed::SummedFile;

/// An operation on a file that the operating system refused.
#[derive(Debug, thiserror::Error)]
#[error("cannot {operation} {}: {cause}{}", path.display(), advice(cause))]
pub struct FileError {
    /// What was tried, a verb.
    pub operation: &'static str,
    /// On which file or folder.
    pub path: PathBuf,
    /// Why it failed.
    pub cause: io::Error,
}

impl FileError {
    /// The failure `cause` of `operation` on `path`.
    #[must_use]
    pub fn new(operation: &'static str, path: &Path, cause: io::Error) -> Self {
        Self {
            operation,
            path: path.to_owned(),
            cause,
        }
    }

    /// Whether the file or folder is not there.
    #[must_use]
    pub fn is_not_found(&self) -> bool {
        self.cause.kind() == io::ErrorKind::NotFound
    }

    /// Whether what the file holds is wrong, and not the reading of it.
    #[must_use]
    pub fn is_damage(&self) -> bool {
        self.cause.kind() == io::ErrorKind::InvalidData
    }
}

fn advice(cause: &io::Error) -> &'static str {
    match cause.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "; free some space and run the command again, what was complete before still is"
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

/// Makes the system forget what it holds of a file in memory, as far as it is on the disk already.
///
/// # Errors
/// When the file cannot be opened.
pub fn forget_cached(path: &Path) -> Result<(), FileError> {
    let file = open(path)?;
    // Only advice: a file system that takes none changes nothing but a measurement.
    let _ = rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed);
    Ok(())
}

/// Size and checksum of bytes on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Summary {
    /// Bytes.
    pub size: u64,
    /// CRC-32 (IEEE) of the bytes.
    pub crc32: u32,
}

/// Writes at the end of a file that was opened for appending.
///
/// # Errors
/// When it cannot be written.
pub fn append(file: &mut File, path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    step(path)
        .and_then(|()| file.write_all(bytes))
        .map_err(|e| FileError::new("write", path, e))
}

/// Writes all of `bytes` at `offset`, without moving a shared position.
///
/// # Errors
/// When they cannot be written.
pub fn write_all_at(file: &File, path: &Path, bytes: &[u8], offset: u64) -> Result<(), FileError> {
    step(path)
        .and_then(|()| file.write_all_at(bytes, offset))
        .map_err(|e| FileError::new("write", path, e))
}

/// Opens a regular file for reading. A pipe would be waited for, and a device never ends.
///
/// # Errors
/// When it cannot be opened, or is something else.
pub fn open(path: &Path) -> Result<File, FileError> {
    size(path)?;
    File::open(path).map_err(|e| FileError::new("open", path, e))
}

/// Fills `buffer` from `offset` on, without moving a shared position.
///
/// # Errors
/// When the bytes cannot be read, or are not there.
pub fn read_exact_at(
    file: &File,
    path: &Path,
    buffer: &mut [u8],
    offset: u64,
) -> Result<(), FileError> {
    file.read_exact_at(buffer, offset)
        .map_err(|e| FileError::new("read", path, e))
}

/// The whole file, refusing more than `limit` bytes.
///
/// # Errors
/// When it cannot be read, is larger, or is no regular file.
pub fn read(path: &Path, limit: u64) -> Result<Vec<u8>, FileError> {
    let failed = |e| FileError::new("read", path, e);
    let file = open(path)?;
    let mut bytes = Vec::new();
    // One byte more: files may grow while they are read.
    let read = file.take(limit.saturating_add(1)).read_to_end(&mut bytes);
    if read.map_err(failed)? as u64 > limit {
        let what = format!("it has more than the {limit} bytes that are expected at most");
        return Err(failed(io::Error::new(io::ErrorKind::InvalidData, what)));
    }
    Ok(bytes)
}

/// Size of a regular file in bytes.
///
/// # Errors
/// When there is no such file, or it is a folder, a pipe or a device.
pub fn size(path: &Path) -> Result<u64, FileError> {
    let metadata = fs::metadata(path).map_err(|e| FileError::new("open", path, e))?;
    if metadata.is_dir() {
        return Err(FileError::new(
            "open",
            path,
            io::ErrorKind::IsADirectory.into(),
        ));
    }
    if !metadata.is_file() {
        let what = "it is no regular file but a pipe or a device";
        let cause = io::Error::new(io::ErrorKind::InvalidData, what);
        return Err(FileError::new("open", path, cause));
    }
    Ok(metadata.len())
}

/// Size and checksum of a file, read in pieces.
///
/// # Errors
/// When it cannot be read.
pub fn summarize(file: &File, path: &Path) -> Result<Summary, FileError> {
    let mut hasher = crc32fast::Hasher::new();
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut size = 0;
    loop {
        let read = match file.read_at(&mut buffer, size) {
            Ok(0) => {
                return Ok(Summary {
                    size,
                    crc32: hasher.finalize(),
                });
            }
            Ok(read) => read,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(FileError::new("read", path, e)),
        };
        hasher.update(&buffer[..read]);
        size += read as u64;
    }
}

/// Replaces a file so that, whatever happens, it holds either the old or the new bytes.
///
/// # Errors
/// When the new bytes cannot be written; the old ones are still there then.
pub fn replace(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let staged = staged_name(path);
    write(&staged, bytes)?;
    rename(&staged, path)?;
    sync_folder_of(path)
}

/// Writes a file, durably but for its name. One that fails leaves half of it.
///
/// # Errors
/// When the operating system refuses.
pub fn write(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let mut file = SummedFile::create(path)?;
    file.put(bytes)?;
    file.finish(true)?;
    Ok(())
}

/// Makes an empty file durable; one that is there is fine.
///
/// # Errors
/// When the operating system refuses.
pub fn mark(path: &Path) -> Result<(), FileError> {
    step(path)
        .and_then(|()| File::options().append(true).create(true).open(path))
        .map_err(|e| FileError::new("create", path, e))?;
    sync(path)?;
    sync_folder_of(path)
}

/// The name under which a file is written before it is renamed to `path`.
#[must_use]
pub fn staged_name(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(STAGED_SUFFIX);
    path.with_file_name(name)
}

/// Ending of files that are not complete yet.
pub const STAGED_SUFFIX: &str = ".tmp";

/// Renames a file or folder. Of two names of one file, `to` stays: rename(2) would leave both.
///
/// # Errors
/// When the operating system refuses.
pub fn rename(from: &Path, to: &Path) -> Result<(), FileError> {
    step(to)
        .and_then(|()| fs::rename(from, to))
        .map_err(|e| FileError::new("rename to", to, e))?;
    match fs::remove_file(from) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(FileError::new("remove", from, error));
        }
        _ => {}
    }
    renamed(from, to);
    Ok(())
}

/// Exchanges two folders in one step.
///
/// # Errors
/// When the operating system refuses, or the file system cannot do that.
pub fn exchange(one: &Path, other: &Path) -> Result<(), FileError> {
    let exchange = || renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE);
    step(other)
        .and_then(|()| Ok(exchange()?))
        .map_err(|e| FileError::new("rename to", other, e))
}

/// Removes a file; one that is not there is fine.
///
/// # Errors
/// When the operating system refuses.
pub fn remove(path: &Path) -> Result<(), FileError> {
    match step(path).and_then(|()| fs::remove_file(path)) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(FileError::new("remove", path, e)),
        _ => Ok(()),
    }
}

/// Removes a folder and what is in it; one that is not there is fine.
///
/// # Errors
/// When the operating system refuses.
pub fn remove_folder(path: &Path) -> Result<(), FileError> {
    match step(path).and_then(|()| fs::remove_dir_all(path)) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(FileError::new("remove", path, e)),
        _ => Ok(()),
    }
}

/// Makes a folder and those above it.
///
/// # Errors
/// When the operating system refuses.
pub fn create_folder(path: &Path) -> Result<(), FileError> {
    step(path)
        .and_then(|()| fs::create_dir_all(path))
        .map_err(|e| FileError::new("create folder", path, e))
}

/// Gives a file a second name; copies it where the file system has no links.
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

/// Waits until a file is on the disk.
///
/// # Errors
/// When the operating system could not write it.
pub fn sync(path: &Path) -> Result<(), FileError> {
    step(path)
        .and_then(|()| File::open(path))
        .and_then(|file| file.sync_all())
        .map_err(|e| FileError::new("sync", path, e))?;
    synced(path);
    Ok(())
}

/// Waits until the names in a file's folder are on the disk.
///
/// # Errors
/// When the operating system could not write them.
pub fn sync_folder_of(path: &Path) -> Result<(), FileError> {
    sync(folder_of(path))
}

/// The folder that a file is in.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

#[cfg(test)]
use faults::{renamed, step, synced};

/// Before every operation that changes something: the place where tests inject faults.
#[cfg(not(test))]
#[expect(clippy::unnecessary_wraps, reason = "the version for tests fails")]
#[inline]
fn step(_path: &Path) -> io::Result<()> {
    Ok(())
}

#[cfg(not(test))]
#[inline]
fn synced(_path: &Path) {}

#[cfg(not(test))]
#[inline]
fn renamed(_from: &Path, _to: &Path) {}

#[cfg(test)]
mod tests {
    use super::*;

    /// Who is killed between renaming a link and what follows links and renames once more.
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
