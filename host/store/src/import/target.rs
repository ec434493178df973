//! The folder in which a dataset is made, and how it takes the place of the target.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::ImportError;
use crate::dataset::manifest::{FORMAT, Manifest};
use crate::dataset::{Dataset, MANIFEST};
use crate::files::{self, FileError, SummedFile};
use crate::sealed;

/// A folder beside the target that is removed unless it takes its place.
pub(super) struct Staging {
    path: PathBuf,
}

impl Staging {
    pub(super) fn create(target: &Path) -> Result<Self, ImportError> {
        check(target)?;
        let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else {
            let what = format!("{} cannot be the folder of a dataset", target.display());
            return Err(ImportError::usage(what));
        };
        let parent = if parent.as_os_str().is_empty() {
            Path::new(".")
        } else {
            parent
        };
        files::create_folder(parent)?;
        let prefix = format!(".{}.import-", name.to_string_lossy());
        sweep(parent, &prefix);
        let path = parent.join(format!("{prefix}{}", std::process::id()));
        // A thread of this very process may be importing into the same target.
        fs::create_dir(&path).map_err(|e| FileError::new("create folder", &path, e))?;
        Ok(Self { path })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// Nothing but a dataset is replaced.
fn check(target: &Path) -> Result<(), ImportError> {
    let occupied = || {
        Err(ImportError::Occupied {
            path: target.to_owned(),
        })
    };
    match fs::read_dir(target) {
        Ok(mut entries) => {
            if entries.next().is_none() || Dataset::is_at(target) {
                Ok(())
            } else {
                occupied()
            }
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotADirectory => occupied(),
        Err(e) => Err(FileError::new("open", target, e).into()),
    }
}

/// Removes what imports left behind that were killed.
fn sweep(parent: &Path, prefix: &str) {
    let Ok(entries) = fs::read_dir(parent) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let process = name
            .to_str()
            .and_then(|name| name.strip_prefix(prefix)?.parse::<u32>().ok());
        if process.is_some_and(|id| !Path::new(&format!("/proc/{id}")).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Writes the manifest and puts the folder in the place of the target.
pub(super) fn complete(
    staging: Staging,
    target: &Path,
    manifest: &Manifest,
) -> Result<(), ImportError> {
    let path = staging.path().join(MANIFEST);
    let sealed = sealed::seal(FORMAT, manifest);
    let sealed = sealed.map_err(|e| FileError::new("write", &path, io::Error::other(e)))?;
    let mut file = SummedFile::create(&path)?;
    file.put(&sealed)?;
    file.finish(true)?;
    files::sync(staging.path())?;
    check(target)?;
    if target.exists() {
        exchange(staging.path(), target)?;
        // The old dataset is in the staging folder now, which goes away.
    } else {
        files::rename(staging.path(), target)?;
    }
    files::sync_folder_of(target)?;
    Ok(())
}

/// Exchanges two folders in one step; in two where the file system cannot.
fn exchange(new: &Path, old: &Path) -> Result<(), FileError> {
    if renameat_with(CWD, new, CWD, old, RenameFlags::EXCHANGE).is_ok() {
        return Ok(());
    }
    let aside = new.with_extension("old");
    files::rename(old, &aside)?;
    if let Err(error) = files::rename(new, old) {
        files::rename(&aside, old)?;
        return Err(error);
    }
    fs::remove_dir_all(&aside).map_err(|e| FileError::new("remove", &aside, e))
}
