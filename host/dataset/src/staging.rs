//! Staging folder of an import next to its dataset, and the replacement of the dataset by the new one.
//!
//! For the dataset `NAME` the folder is `.NAME.import`. It exists while an import runs, and after an import that was
//! killed.
//!
//! | content | meaning |
//! |---|---|
//! | `lock` | locked by the import; the system releases the lock when the process ends, on any machine |
//! | `new` | the new dataset; after the exchange the previous one, until it is removed |
//! | `old` | the previous dataset, where the file system cannot exchange folders and the import renames them in turn |
//!
//! An import that is killed between the two renames leaves no dataset `NAME`, but the previous one in `old`. The next
//! command that opens the dataset renames it back.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;

use pbg_files::{self as files, FileError};

const LOCK: &str = "lock";
const NEW: &str = "new";
const OLD: &str = "old";

/// Maximum number of symbolic links that are followed; more than any real path has.
const MOST_LINKS: usize = 40;
/// Number of attempts to lock the lock file, which may be removed between opening and locking it.
const MOST_ATTEMPTS: usize = 100;

/// Error that prevents an import from starting, or a dataset from being opened.
#[derive(Debug, thiserror::Error)]
pub enum StagingError {
    /// The operating system reported an error.
    #[error(transparent)]
    File(#[from] FileError),
    /// The path has no last component that could name a folder.
    #[error("{} cannot be the folder of a dataset: the path does not end in the name of a folder", .0.display())]
    NoName(PathBuf),
    /// Another import holds the lock.
    #[error("another import is writing to {}; wait for it, or choose another folder", .0.display())]
    Busy(PathBuf),
    /// The file system has no locks, and the staging folder of an import that has died or still runs exists.
    #[error(
        "{} exists, and this file system has no locks that would show whether the import that created it still runs; \
         if none runs{}, remove it and start again", folder.display(), aside(folder, path)
    )]
    Unknown {
        /// Folder of the dataset.
        path: PathBuf,
        /// Staging folder.
        folder: PathBuf,
    },
    /// Something else has the name of the staging folder.
    #[error("{} exists and is not the folder of an import: rename it", .0.display())]
    NotOurs(PathBuf),
    /// The previous dataset cannot be renamed back.
    #[error(
        "{} is missing, because an import ended while it was replacing it; it is complete in {}, but could not be \
         renamed: {cause}", path.display(), old.display()
    )]
    Aside {
        /// Folder of the dataset.
        path: PathBuf,
        /// Current folder of the previous dataset.
        old: PathBuf,
        /// Reason why it could not be renamed.
        cause: io::Error,
    },
}

/// Returns the manual step, if any, that is necessary before the staging folder may be removed, as part of a message.
fn aside(folder: &Path, path: &Path) -> String {
    match is_vacant(path) && has_manifest(&folder.join(OLD)) {
        true => {
            let old = folder.join(OLD);
            format!(", rename {} to {}", old.display(), path.display())
        }
        false => String::new(),
    }
}

/// Staging folder of a running import and the lock that keeps other imports out. Dropping it removes the folder.
#[derive(Debug)]
pub struct Staging {
    target: PathBuf,
    folder: PathBuf,
    /// `None` where the file system has no locks; the folder's existence keeps others out then.
    _lock: Option<File>,
}

impl Staging {
    /// Starts an import into the dataset `target`: locks out other imports, and cleans up after one that was killed.
    ///
    /// # Errors
    /// When another import works on the dataset, or the operating system reports an error.
    pub fn begin(target: &Path) -> Result<Self, StagingError> {
        let target = follow(target)?;
        let folder = folder_of(&target)?;
        if let Some(parent) = folder.parent() {
            files::create_folder(parent)?;
        }
        let lock = claim(&target, &folder)?;
        let staging = Self {
            target,
            folder,
            _lock: lock,
        };
        staging.restore()?;
        Ok(staging)
    }

    /// Returns the folder of the dataset, with symbolic links resolved.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Returns the folder in which the new dataset is created.
    pub fn new_folder(&self) -> PathBuf {
        self.folder.join(NEW)
    }

    /// Creates an empty folder for the new dataset. Removes the leftovers of a killed import, including a previous
    /// dataset that it had already replaced.
    pub fn make_new(&self) -> Result<(), FileError> {
        let new = self.new_folder();
        files::remove_folder(&self.folder.join(OLD))?;
        files::remove_folder(&new)?;
        fs::create_dir(&new).map_err(|e| FileError::new("create folder", &new, e))
    }

    /// Replaces the dataset with the new one, which is complete and synced. After an error the previous dataset is
    /// where it was.
    pub fn replace(&self) -> Result<(), FileError> {
        let (new, target) = (&self.new_folder(), &self.target);
        files::sync(&self.folder)?;
        if fs::symlink_metadata(target).is_err() {
            files::rename(new, target)?;
            return files::sync_folder_of(target);
        }
        match files::exchange(new, target) {
            Ok(()) => files::sync_folder_of(target).inspect_err(|_| {
                let _ = renameat_with(CWD, new, CWD, target, RenameFlags::EXCHANGE);
            }),
            Err(error) if cannot_exchange(&error.cause) => self.replace_by_renaming(),
            Err(error) => Err(error),
        }
    }

    fn replace_by_renaming(&self) -> Result<(), FileError> {
        let (new, old) = (self.new_folder(), self.folder.join(OLD));
        files::remove_folder(&old)?;
        files::rename(&self.target, &old)?;
        let replaced = files::sync(&self.folder)
            .and_then(|()| files::rename(&new, &self.target))
            .and_then(|()| files::sync_folder_of(&self.target));
        replaced.inspect_err(|_| {
            if is_vacant(&self.target) {
                // If this fails too, the next command that opens the dataset does it.
                let _ = fs::rename(&old, &self.target);
            }
        })
    }

    /// Renames the previous dataset back if a killed import set it aside. Returns whether it did.
    fn restore(&self) -> Result<bool, FileError> {
        let old = self.folder.join(OLD);
        if !is_vacant(&self.target) || !has_manifest(&old) {
            return Ok(false);
        }
        files::rename(&old, &self.target)?;
        files::sync_folder_of(&self.target)?;
        Ok(true)
    }
}

impl Drop for Staging {
    /// Removes the folder. The previous dataset is removed only if another one exists at its place.
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.folder.join(NEW));
        if !is_vacant(&self.target) {
            let _ = fs::remove_dir_all(self.folder.join(OLD));
        }
        let _ = fs::remove_file(self.folder.join(LOCK));
        // Fails, and keeps the folder, if it is not empty.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Renames the dataset `target` back if a killed import set it aside. Returns whether it exists again.
pub(super) fn restore(target: &Path) -> Result<bool, StagingError> {
    let Some((target, folder)) = left_aside(target) else {
        return Ok(false);
    };
    let staging = match lock(&target, &folder) {
        Ok(Some(lock)) => Staging {
            target,
            folder,
            _lock: Some(lock),
        },
        // Another process has just restored it.
        Ok(None) => return Ok(true),
        Err(StagingError::File(error)) => return Err(not_restored(target, &folder, error.cause)),
        Err(error) => return Err(error),
    };
    let restored = staging.restore();
    restored.map_err(|error| not_restored(staging.target.clone(), &staging.folder, error.cause))
}

fn not_restored(path: PathBuf, folder: &Path, cause: io::Error) -> StagingError {
    let old = folder.join(OLD);
    StagingError::Aside { path, old, cause }
}

/// Returns whether a killed import set the dataset `target` aside.
pub(super) fn is_left_aside(target: &Path) -> bool {
    left_aside(target).is_some()
}

fn left_aside(target: &Path) -> Option<(PathBuf, PathBuf)> {
    let target = follow(target).ok()?;
    let folder = folder_of(&target).ok()?;
    let aside = is_vacant(&target) && has_manifest(&folder.join(OLD));
    aside.then_some((target, folder))
}

/// Returns the staging folder of an import into `target`.
fn folder_of(target: &Path) -> Result<PathBuf, StagingError> {
    let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else {
        return Err(StagingError::NoName(target.to_owned()));
    };
    let parent = match parent.as_os_str().is_empty() {
        true => Path::new("."),
        false => parent,
    };
    let mut hidden = OsString::from(".");
    hidden.push(name);
    hidden.push(".import");
    Ok(parent.join(hidden))
}

/// Follows symbolic links from `path` to their target, which may not exist.
fn follow(path: &Path) -> Result<PathBuf, FileError> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        match fs::read_link(&path) {
            Ok(next) => path = path.parent().unwrap_or(Path::new("")).join(next),
            // Not a symbolic link, or missing.
            Err(_) => return Ok(path),
        }
    }
    let cause = io::Error::from_raw_os_error(Errno::LOOP.raw_os_error());
    Err(FileError::new("open", &path, cause))
}

/// Creates the staging folder and locks other imports out.
fn claim(target: &Path, folder: &Path) -> Result<Option<File>, StagingError> {
    for _ in 0..MOST_ATTEMPTS {
        let made = match fs::create_dir(folder) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(FileError::new("create folder", folder, error).into()),
        };
        // A symbolic link would lead to a folder of somebody else.
        if !fs::symlink_metadata(folder).is_ok_and(|there| there.is_dir()) {
            return Err(StagingError::NotOurs(folder.to_owned()));
        }
        match lock(target, folder) {
            Ok(Some(lock)) => return Ok(Some(lock)),
            Ok(None) => {}
            Err(StagingError::Unknown { .. }) if made => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Err(StagingError::Busy(target.to_owned()))
}

/// Locks the folder; `None` if it was removed in the meantime.
fn lock(target: &Path, folder: &Path) -> Result<Option<File>, StagingError> {
    let path = folder.join(LOCK);
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false);
    options.custom_flags(OFlags::NOFOLLOW.bits().cast_signed());
    let file = match options.open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(|e| FileError::new("open", &path, e))?,
    };
    match file.try_lock() {
        Ok(()) => Ok(is_at(&file, &path).then_some(file)),
        Err(TryLockError::WouldBlock) => Err(StagingError::Busy(target.to_owned())),
        Err(TryLockError::Error(_)) => Err(StagingError::Unknown {
            path: target.to_owned(),
            folder: folder.to_owned(),
        }),
    }
}

/// Returns whether `path` still names an open file.
fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(there)) = (file.metadata(), fs::symlink_metadata(path)) else {
        return false;
    };
    (open.dev(), open.ino()) == (there.dev(), there.ino())
}

/// Returns whether a dataset can be renamed to `path`: it is missing or an empty folder.
fn is_vacant(path: &Path) -> bool {
    match fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

fn has_manifest(folder: &Path) -> bool {
    folder.join(super::MANIFEST).is_file()
}

/// Returns whether the error means that the file system cannot exchange two folders. No other failure has these codes.
fn cannot_exchange(cause: &io::Error) -> bool {
    let errno = Errno::from_io_error(cause);
    matches!(errno, Some(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP))
}
