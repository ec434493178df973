//! Temporary names of incomplete files, and renames to the final ones.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::error::FileError;
use crate::faults::{renamed, step};

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
