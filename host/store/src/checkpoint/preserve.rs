//! Keeping a version for good, in a folder of its own.

use std::fs;
use std::path::Path;

use super::manifest::FORMAT;
use super::{CheckpointError, MANIFEST, Manifest};
use crate::files::{self, FileError};
use crate::sealed;

/// Makes `name` a checkpoint with the files of `manifest`. The files are links: none is ever written
/// to after it has its name.
pub(super) fn preserve(
    folder: &Path,
    manifest: &Manifest,
    name: &str,
) -> Result<(), CheckpointError> {
    let target = folder.join(name);
    let staged = files::staged_name(&target);
    remove_folder(&staged)?;
    files::create_folder(&staged)?;
    for file in manifest.files.keys() {
        files::link_or_copy(&folder.join(file), &staged.join(file))?;
    }
    let manifest_path = staged.join(MANIFEST);
    let sealed = sealed::seal(FORMAT, manifest);
    let sealed = sealed.map_err(|e| CheckpointError::manifest(&manifest_path, e))?;
    files::replace(&manifest_path, &sealed)?;
    // A run that was resumed before this epoch's end may have kept it already; a better one replaces
    // the best.
    remove_folder(&target)?;
    files::rename(&staged, &target)?;
    Ok(files::sync_folder_of(&target)?)
}

fn remove_folder(path: &Path) -> Result<(), FileError> {
    match fs::remove_dir_all(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(FileError::new("remove", path, e))
        }
        _ => Ok(()),
    }
}
