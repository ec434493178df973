//! Staging folder of an import, and the replacement of the target by the new dataset.

use std::fs;
use std::io;
use std::path::Path;

use super::ImportError;
use pbg_dataset::manifest::{DatasetManifest, FORMAT};
use pbg_dataset::{Dataset, MANIFEST, Staging};
use pbg_files::owner::{self, OwnerKind};
use pbg_files::sealed_json;
use pbg_files::{self as files, FileError};

/// Locks other imports out of the target, and checks that the target may be replaced.
pub(super) fn begin(target: &Path) -> Result<Staging, ImportError> {
    // Check before anything is created next to it.
    check(target)?;
    let staging = Staging::begin(target)?;
    check(staging.target())?;
    Ok(staging)
}

/// Checks that the target is missing, empty or a dataset, and that it does not lie in another dataset, which an import
/// would replace.
fn check(target: &Path) -> Result<(), ImportError> {
    let parent = target.parent().and_then(owner::owner_of);
    if let Some(owner) = parent.filter(|owner| owner.kind == OwnerKind::Dataset) {
        let path = target.to_owned();
        return Err(ImportError::Inside { path, owner });
    }
    match fs::read_dir(target).map(|mut entries| entries.next().is_none()) {
        Ok(is_empty) if is_empty || Dataset::exists(target) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(e) if e.kind() != io::ErrorKind::NotADirectory => {
            Err(FileError::new("open", target, e).into())
        }
        _ => Err(ImportError::Occupied(target.to_owned())),
    }
}

/// Writes the manifest and replaces the target with the new dataset.
pub(super) fn complete(staging: &Staging, manifest: &DatasetManifest) -> Result<(), ImportError> {
    let new = staging.new_folder();
    let path = new.join(MANIFEST);
    let sealed = sealed_json::seal(FORMAT, manifest);
    let sealed = sealed.map_err(|e| FileError::new("write", &path, io::Error::other(e)))?;
    files::write(&path, &sealed)?;
    files::sync(&new)?;
    check(staging.target())?;
    Ok(staging.replace()?)
}
