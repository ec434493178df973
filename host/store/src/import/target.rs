//! The folder that an import makes its dataset in, and how that takes the place of the target.

use std::fs;
use std::io;
use std::path::Path;

use super::ImportError;
use crate::dataset::manifest::{FORMAT, Manifest};
use crate::dataset::{Dataset, MANIFEST, Staging};
use crate::files::{self, FileError, SummedFile};
use crate::owner::{self, Kind};
use crate::sealed;

/// Keeps other imports out of the target, and checks that it may be replaced.
pub(super) fn begin(target: &Path) -> Result<Staging, ImportError> {
    // Before anything is made beside it.
    check(target)?;
    let staging = Staging::begin(target)?;
    check(staging.target())?;
    Ok(staging)
}

/// Only a dataset is replaced, and nothing is put into what another import replaces.
fn check(target: &Path) -> Result<(), ImportError> {
    let parent = target.parent().and_then(owner::of);
    if let Some(owner) = parent.filter(|owner| owner.kind == Kind::Dataset) {
        let path = target.to_owned();
        return Err(ImportError::Inside { path, owner });
    }
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

/// Writes the manifest and puts the folder in the place of the target.
pub(super) fn complete(staging: &Staging, manifest: &Manifest) -> Result<(), ImportError> {
    let new = staging.new_folder();
    let path = new.join(MANIFEST);
    let sealed = sealed::seal(FORMAT, manifest);
    let sealed = sealed.map_err(|e| FileError::new("write", &path, io::Error::other(e)))?;
    let mut file = SummedFile::create(&path)?;
    file.put(&sealed)?;
    file.finish(true)?;
    files::sync(&new)?;
    check(staging.target())?;
    Ok(staging.replace()?)
}
