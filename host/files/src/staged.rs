//! Temporary names of incomplete files, and renames to the final ones.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::FileError;
use crate::faults::{attempt, renamed};

/// Suffix of the names of incomplete files.
pub const STAGED_SUFFIX: &str = ".tmp";

/// Returns the name under which a file is written before it is renamed to `path`.
#[must_use]
pub fn staged_name(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(STAGED_SUFFIX);
    path.with_file_name(name)
}

/// Returns the folder that contains a file.
pub(super) fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Renames a file or folder. If both are hard links to one file, removes `from`, which rename(2) would keep.
///
/// # Errors
/// When the operating system reports an error.
pub fn rename(from: &Path, to: &Path) -> Result<(), FileError> {
    attempt("rename to", to, || fs::rename(from, to))?;
    let removed = unless_missing(fs::remove_file(from));
    removed.map_err(|e| FileError::new("remove", from, e))?;
    renamed(from, to);
    Ok(())
}

/// Returns success where there was nothing to remove.
pub(crate) fn unless_missing(removed: io::Result<()>) -> io::Result<()> {
    match removed {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}
