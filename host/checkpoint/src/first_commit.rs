//! Marker of a folder whose first commit is not complete.

use std::fs;
use std::path::Path;

use super::{CheckpointError, names};
use pbg_files::FileError;

/// Marker that exists until the first commit is complete. While it exists, files without a manifest are those of a run
/// that crashed before its first commit.
pub(super) const FIRST: &str = ".first";

/// Marks the folder as one without a commit.
///
/// If the manifest is missing and there are files of a version after the first, the manifest was lost and the files
/// cannot be used; this is an error. The marker distinguishes that case from a run that crashed during its first
/// commit.
///
/// Several trainers may call this at the same time.
pub(super) fn mark_uncommitted(folder: &Path) -> Result<(), CheckpointError> {
    let marker = folder.join(FIRST);
    if fs::exists(&marker).unwrap_or(false) {
        return Ok(());
    }
    let names = names::entries(folder)?;
    let is_later = |name: &&String| names::parse(name).is_some_and(|name| name.version > 1);
    match names.iter().find(is_later) {
        None => Ok(pbg_files::create_marker(&marker)?),
        Some(name) => Err(CheckpointError::lost(folder, name)),
    }
}

/// Removes the marker: the folder has a commit.
pub(super) fn unmark_uncommitted(folder: &Path) -> Result<(), FileError> {
    pbg_files::remove(&folder.join(FIRST))
}
