//! Checks of files against the manifest.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::{DatasetError, DatasetManifest};
use pbg_files::{self as files, FileSummary};

/// Verifies the size of a file.
pub(super) fn check_size(path: &Path, summary: &FileSummary) -> Result<(), DatasetError> {
    let size = match files::size(path) {
        Ok(size) => size,
        Err(e) if e.is_not_found() => return Err(DatasetError::damaged(path, "it is missing")),
        Err(e) => return Err(e.into()),
    };
    if size == summary.size {
        return Ok(());
    }
    let what = format!("it has {size} bytes instead of {}", summary.size);
    Err(DatasetError::damaged(path, what))
}

/// Opens a file of the dataset and verifies its checksum.
pub(super) fn open_verified(
    folder: &Path,
    manifest: &DatasetManifest,
    name: &str,
) -> Result<(PathBuf, File), DatasetError> {
    let path = folder.join(name);
    let file = files::open(&path)?;
    let expected = manifest.files.get(name).copied();
    if Some(files::summarize(&file, &path)?) == expected {
        return Ok((path, file));
    }
    let what = "its checksum does not match its content";
    Err(DatasetError::damaged(&path, what))
}
