//! Keeping a version for good, in a folder of its own.

use std::path::Path;

use super::{CheckpointError, MANIFEST, Manifest, partition_files, read};
use crate::files::{self, FileError};

/// Makes `name` a checkpoint with the files of `manifest`. The files are links: none is ever written
/// to after it has its name. What `name` held before stays whole until its manifest is replaced.
pub(super) fn preserve(
    folder: &Path,
    manifest: &Manifest,
    name: &str,
) -> Result<(), CheckpointError> {
    let target = folder.join(name);
    if let Ok(Some(held)) = read::manifest_if_any(&target) {
        fill(folder, manifest, &target, Some(&held))?;
        // A file too many does no harm; the next run removes it.
        let _ = partition_files::sweep_preserved(&target, manifest);
        return Ok(());
    }
    let staged = files::staged_name(&target);
    files::remove_folder(&staged)?;
    files::create_folder(&staged)?;
    fill(folder, manifest, &staged, None)?;
    // Without a manifest that can be read it is no checkpoint.
    files::remove_folder(&target)?;
    files::rename(&staged, &target)?;
    Ok(files::sync_folder_of(&target)?)
}

/// Brings the files of `manifest` into folder `to`, which holds those of `held`, then the manifest.
fn fill(
    from: &Path,
    manifest: &Manifest,
    to: &Path,
    held: Option<&Manifest>,
) -> Result<(), CheckpointError> {
    for (file, summary) in &manifest.files {
        if held.and_then(|held| held.files.get(file)) != Some(summary) {
            link(&from.join(file), &to.join(file))?;
        }
    }
    let path = to.join(MANIFEST);
    files::sync_folder_of(&path)?;
    let sealed = manifest.seal();
    let sealed = sealed.map_err(|e| CheckpointError::manifest(&path, e))?;
    Ok(files::replace(&path, &sealed)?)
}

/// Gives a file a second name, also where a crash left that name to something else.
fn link(from: &Path, to: &Path) -> Result<(), FileError> {
    let staged = files::staged_name(to);
    files::remove(&staged)?;
    files::link_or_copy(from, &staged)?;
    files::rename(&staged, to)?;
    // Renaming one name of a file to another name of the same file leaves both.
    files::remove(&staged)
}
