//! Removal of incomplete files that a killed export left (on file systems without `O_TMPFILE`), and the lock that
//! excludes a running export.

use std::fs::{self, File};
use std::path::Path;

use super::ExportError;
use pbg_files::{self as files, FileError, FolderLock, STAGED_SUFFIX};

/// Prefixes and suffixes of the names of exported files.
const BEGINNINGS: [&str; 5] = [
    "entities_",
    "entities.",
    "features_",
    "parameters.",
    "relations.",
];
const ENDINGS: [&str; 5] = [".npy", ".safetensors", ".parquet", ".tsv", ".names.json"];

/// Locks `folder` against other exports until the result is dropped. Returns `None` on file systems that cannot lock a
/// folder.
///
/// # Errors
/// When another export holds the lock.
pub(super) fn lock(folder: &Path) -> Result<Option<File>, ExportError> {
    match files::lock_folder(folder)? {
        FolderLock::Taken(lock) => Ok(lock),
        FolderLock::Busy => Err(ExportError::Busy(folder.to_owned())),
    }
}

/// Removes incomplete files of earlier exports.
///
/// # Errors
/// When the folder cannot be listed, or a file cannot be removed.
pub(super) fn sweep(folder: &Path) -> Result<(), FileError> {
    let failed = |e| FileError::new("list", folder, e);
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
        if is_file && name.to_str().is_some_and(is_left_over) {
            files::remove(&entry.path())?;
        }
    }
    Ok(())
}

fn is_left_over(name: &str) -> bool {
    name.strip_suffix(STAGED_SUFFIX).is_some_and(|name| {
        let numbered = name
            .rsplit_once('.')
            .filter(|(_, n)| n.parse::<u32>().is_ok());
        let name = numbered.map_or(name, |(name, _)| name);
        BEGINNINGS.iter().any(|start| name.starts_with(start))
            && ENDINGS.iter().any(|end| name.ends_with(end))
    })
}
