//! The folder beside a dataset in which an import makes the next one, and how the next one takes the dataset's place.
//!
//! Beside the dataset `NAME` this is `.NAME.import`. It is there while an import runs, and after one that was killed.
//!
//! | in it | what it is |
//! |---|---|
//! | `lock` | locked by the import that works here; the system frees the lock when the process ends, on whichever machine |
//! | `new` | the next dataset; after the exchange the last one, until it is removed |
//! | `old` | the last dataset, where the file system cannot exchange two folders and renames them one after the other |
//!
//! An import that was killed between the two renames leaves no dataset `NAME`, and the last one in `old`. Whatever opens
//! the dataset next renames it back.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;

use crate::files::{self, FileError};

const LOCK: &str = "lock";
const NEW: &str = "new";
const OLD: &str = "old";

/// Links that are followed from one name to the next: more than any path has.
const MOST_LINKS: usize = 40;
/// How often the lock file may be removed between being opened and being locked.
const MOST_ATTEMPTS: usize = 100;

/// What keeps an import from beginning, or a dataset from being opened.
#[derive(Debug, thiserror::Error)]
pub enum StagingError {
    /// The operating system refused.
    #[error(transparent)]
    File(#[from] FileError),
    /// The path has no name that a folder could have.
    #[error("{} cannot be the folder of a dataset", path.display())]
    NoName {
        /// The path.
        path: PathBuf,
    },
    /// An import holds the lock.
    #[error("an import is writing to {}: wait for it, or choose another folder", path.display())]
    Busy {
        /// The dataset.
        path: PathBuf,
    },
    /// The file system has no locks, and an import left its folder or still works in it.
    #[error(
        "{} is there, and this file system has no locks that could tell whether the import that made it still runs; \
         if none runs{}, remove it and start again", folder.display(), aside(folder, path)
    )]
    Unknown {
        /// The dataset.
        path: PathBuf,
        /// The folder.
        folder: PathBuf,
    },
    /// Something else has the name of the folder.
    #[error("{} is there and is not the folder of an import: rename it", folder.display())]
    NotOurs {
        /// The folder.
        folder: PathBuf,
    },
    /// The last dataset cannot be renamed back.
    #[error(
        "{} is not there, because an import ended while it was replacing it; it is complete in {}, and could not be \
         renamed: {cause}", path.display(), old.display()
    )]
    Aside {
        /// The dataset.
        path: PathBuf,
        /// Where it is.
        old: PathBuf,
        /// Why it is still there.
        cause: io::Error,
    },
}

/// What has to be done by hand before the folder of an import may be removed.
fn aside(folder: &Path, path: &Path) -> String {
    match is_vacant(path) && has_manifest(&folder.join(OLD)) {
        true => format!(
            ", rename {} to {}",
            folder.join(OLD).display(),
            path.display()
        ),
        false => String::new(),
    }
}

/// The folder of an import that works on a dataset, and the lock that keeps others out. It goes away when it is dropped.
#[derive(Debug)]
pub(crate) struct Staging {
    target: PathBuf,
    folder: PathBuf,
    /// Nothing where the file system has no locks; then the folder itself keeps others out.
    _lock: Option<File>,
}

impl Staging {
    /// Begins to work on the dataset `target`: keeps other imports out, and puts in order what one that was killed left.
    ///
    /// # Errors
    /// When another import works on it, or the operating system refuses.
    pub(crate) fn begin(target: &Path) -> Result<Self, StagingError> {
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

    /// The folder of the dataset, which no link leads to.
    pub(crate) fn target(&self) -> &Path {
        &self.target
    }

    /// The folder that the next dataset is made in.
    pub(crate) fn new_folder(&self) -> PathBuf {
        self.folder.join(NEW)
    }

    /// Makes the folder for the next dataset, without what was in it. The last one, if an import that was killed had
    /// replaced it already, goes as well.
    pub(crate) fn make_new(&self) -> Result<(), FileError> {
        let new = self.new_folder();
        files::remove_folder(&self.folder.join(OLD))?;
        files::remove_folder(&new)?;
        fs::create_dir(&new).map_err(|e| FileError::new("create folder", &new, e))
    }

    /// Puts the next dataset, which is complete and on the disk, in the place of the last. After an error the last one
    /// is where it was.
    pub(crate) fn replace(&self) -> Result<(), FileError> {
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
                // Should this fail as well, whatever opens the dataset next does it.
                let _ = fs::rename(&old, &self.target);
            }
        })
    }

    /// Renames the last dataset back, if an import that was killed left it aside. Tells whether it was.
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
    /// Removes the folder. The last dataset is removed only where there is another one in its place.
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(self.folder.join(NEW));
        if !is_vacant(&self.target) {
            let _ = fs::remove_dir_all(self.folder.join(OLD));
        }
        let _ = fs::remove_file(self.folder.join(LOCK));
        // Stays if there is anything left in it.
        let _ = fs::remove_dir(&self.folder);
    }
}

/// Renames the dataset `target` back if an import that was killed left it aside. Tells whether it did.
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
        // Another process has just put it in order.
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

/// Whether an import that was killed left the dataset `target` aside.
pub(super) fn is_left_aside(target: &Path) -> bool {
    left_aside(target).is_some()
}

fn left_aside(target: &Path) -> Option<(PathBuf, PathBuf)> {
    let target = follow(target).ok()?;
    let folder = folder_of(&target).ok()?;
    let aside = is_vacant(&target) && has_manifest(&folder.join(OLD));
    aside.then_some((target, folder))
}

/// The folder of an import that works on `target`.
fn folder_of(target: &Path) -> Result<PathBuf, StagingError> {
    let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else {
        return Err(StagingError::NoName {
            path: target.to_owned(),
        });
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

/// Where symbolic links lead to from `path`, whether there is something or not.
fn follow(path: &Path) -> Result<PathBuf, FileError> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        match fs::read_link(&path) {
            Ok(next) => path = path.parent().unwrap_or(Path::new("")).join(next),
            // Not a link, or not there.
            Err(_) => return Ok(path),
        }
    }
    let cause = io::Error::from_raw_os_error(Errno::LOOP.raw_os_error());
    Err(FileError::new("open", &path, cause))
}

/// Makes the folder, and keeps other imports out of it.
fn claim(target: &Path, folder: &Path) -> Result<Option<File>, StagingError> {
    for _ in 0..MOST_ATTEMPTS {
        let made = match fs::create_dir(folder) {
            Ok(()) => true,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
            Err(error) => return Err(FileError::new("create folder", folder, error).into()),
        };
        // A link would lead to a folder of somebody else.
        if !fs::symlink_metadata(folder).is_ok_and(|there| there.is_dir()) {
            let folder = folder.to_owned();
            return Err(StagingError::NotOurs { folder });
        }
        match lock(target, folder) {
            Ok(Some(lock)) => return Ok(Some(lock)),
            Ok(None) => {}
            Err(StagingError::Unknown { .. }) if made => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    let path = target.to_owned();
    Err(StagingError::Busy { path })
}

/// Locks the folder; nothing if it was removed meanwhile.
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
        Err(TryLockError::WouldBlock) => Err(StagingError::Busy {
            path: target.to_owned(),
        }),
        Err(TryLockError::Error(_)) => Err(StagingError::Unknown {
            path: target.to_owned(),
            folder: folder.to_owned(),
        }),
    }
}

/// Whether `path` still is the name of an open file.
fn is_at(file: &File, path: &Path) -> bool {
    let (Ok(open), Ok(there)) = (file.metadata(), fs::symlink_metadata(path)) else {
        return false;
    };
    (open.dev(), open.ino()) == (there.dev(), there.ino())
}

/// Whether a dataset can be renamed to `path`: nothing is there, or an empty folder.
fn is_vacant(path: &Path) -> bool {
    match fs::read_dir(path) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == io::ErrorKind::NotFound,
    }
}

fn has_manifest(folder: &Path) -> bool {
    folder.join(super::MANIFEST).is_file()
}

/// Whether the file system has no exchange of two folders: no other failure says that.
fn cannot_exchange(cause: &io::Error) -> bool {
    let missing = [Errno::INVAL, Errno::NOSYS, Errno::OPNOTSUPP];
    let cause = cause.raw_os_error();
    missing
        .iter()
        .any(|errno| cause == Some(errno.raw_os_error()))
}
