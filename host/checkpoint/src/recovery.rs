//! Versions that a run has preserved, and advice to use one in place of a damaged checkpoint.

use std::fs;
use std::path::{Path, PathBuf};

use super::{MANIFEST, names};
use pbg_files::{FileError, remote};

/// Returns the checkpoints in folder `path` that were preserved at ends of epochs, in the order of the epochs.
///
/// # Errors
/// When the folder cannot be listed.
pub fn list_preserved(path: &Path) -> Result<Vec<PathBuf>, FileError> {
    let names = names::entries(path)?;
    let epochs = names.iter().filter_map(|name| names::parse_preserved(name));
    let mut epochs: Vec<u32> = epochs.collect();
    epochs.sort_unstable();
    let names = epochs.into_iter().map(names::preserved);
    let folders = names.map(|name| path.join(name));
    Ok(folders.filter(|folder| exists(folder)).collect())
}

/// Returns advice for a checkpoint in `folder` that cannot be used, as the end of a message.
#[must_use]
pub fn recovery_advice(folder: &Path) -> String {
    if let Some(advice) = remote::copy_advice(folder) {
        return advice;
    }
    match other_than(folder) {
        Some(kept) => format!(
            "the version in {} was kept: name it to use it, or copy its files over the damaged ones to resume from it",
            kept.display()
        ),
        None => "no other version was kept: put a copy of the file in its place if you have one, or train again with \
                 another `checkpoint_path`"
            .to_owned(),
    }
}

/// Returns a preserved version of the run of `folder`: the latest preserved epoch or, without one, the best.
fn other_than(folder: &Path) -> Option<PathBuf> {
    let name = folder.file_name().and_then(|name| name.to_str());
    let is_kept = name.is_some_and(names::is_preserved);
    let run = match is_kept {
        true => folder.parent()?,
        false => folder,
    };
    let mut others = list_preserved(run).unwrap_or_default();
    others.insert(0, run.join(names::BEST));
    if is_kept {
        others.push(run.to_owned());
    }
    let is_usable = |other: &PathBuf| other != folder && exists(other);
    others.into_iter().rev().find(is_usable)
}

/// Returns whether the folder contains a checkpoint's manifest, intact or damaged.
#[must_use]
pub fn exists(path: &Path) -> bool {
    fs::exists(path.join(MANIFEST)).unwrap_or(false)
}
