//! Names of the files in a checkpoint: what they hold, then `.v` and the version that wrote them.

use std::fs;
use std::path::Path;

use super::{CheckpointError, MANIFEST, Manifest, read};
use crate::files::{FileError, STAGED_SUFFIX};

/// Key of the parameters.
pub(super) const MODEL: &str = "model";
const ENDING: &str = ".safetensors";
/// Start of the names of preserved checkpoints.
pub(super) const PRESERVED: &str = "epoch_";
/// Name of the preserved checkpoint whose validation was best.
pub(super) const BEST: &str = "best";

/// Key of a partition.
pub(super) fn partition(entity_type: &str, partition: u32) -> String {
    format!("embeddings_{entity_type}_{partition}")
}

/// File name of what `key` names in a version.
pub(super) fn versioned(key: &str, version: u64) -> String {
    format!("{key}.v{version}{ENDING}")
}

/// Key and version of a file name of ours.
fn parse(name: &str) -> Option<(&str, u64)> {
    let (key, version) = name.strip_suffix(ENDING)?.rsplit_once(".v")?;
    let is_plain = !key.contains('/') && (key == MODEL || key.starts_with("embeddings_"));
    let is_number = version.bytes().all(|b| b.is_ascii_digit());
    Some((key, version.parse().ok().filter(|_| is_number)?)).filter(|_| is_plain)
}

/// Whether a file name is one of ours.
pub(super) fn is_ours(name: &str) -> bool {
    parse(name).is_some()
}

/// What a file holds: its name without the version.
pub(super) fn key_of(name: &str) -> &str {
    parse(name).map_or(name, |(key, _)| key)
}

/// Entity type and partition that a file holds.
pub(super) fn parse_partition(name: &str) -> Option<(String, u32)> {
    let (entity_type, partition) = key_of(name).strip_prefix("embeddings_")?.rsplit_once('_')?;
    Some((entity_type.to_owned(), partition.parse().ok()?))
}

fn entries(folder: &Path) -> Result<Vec<String>, FileError> {
    let failed = |e| FileError::new("list", folder, e);
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        names.extend(entry.map_err(failed)?.file_name().into_string());
    }
    names.sort_unstable();
    Ok(names)
}

/// There until the first commit is at its end: files without a manifest are then those of a run that
/// crashed before.
const FIRST: &str = ".first";

/// Says that the folder has no commit yet. Without a manifest, files of a version after the first mean that
/// it was lost, and with it what the files are worth; unless a run crashed while its first commit was under
/// way.
pub(super) fn begin_first(folder: &Path) -> Result<(), CheckpointError> {
    let marker = folder.join(FIRST);
    if fs::exists(&marker).unwrap_or(false) {
        return Ok(());
    }
    let names = entries(folder)?;
    match names
        .iter()
        .find(|name| parse(name).is_some_and(|(_, version)| version > 1))
    {
        None => Ok(crate::files::replace(&marker, b"")?),
        Some(name) => {
            let what = format!("it is missing, and there is `{name}`");
            Err(CheckpointError::damaged(&folder.join(MANIFEST), what))
        }
    }
}

/// The folder has a commit.
pub(super) fn end_first(folder: &Path) -> Result<(), FileError> {
    crate::files::remove(&folder.join(FIRST))
}

/// Removes the files of ours that no manifest names, in preserved checkpoints too: what a crashed run
/// left behind.
pub(super) fn sweep(folder: &Path, manifest: Option<&Manifest>) -> Result<(), FileError> {
    for name in entries(folder)? {
        let path = folder.join(&name);
        let complete = name.strip_suffix(STAGED_SUFFIX);
        let is_staged =
            complete.is_some_and(|name| is_ours(name) || name == MANIFEST || name == FIRST);
        let is_named = manifest.is_some_and(|manifest| manifest.files.contains_key(&name));
        if is_staged || (is_ours(&name) && !is_named) {
            crate::files::remove(&path)?;
        } else if complete.is_some_and(is_preserved) && path.is_dir() {
            crate::files::remove_folder(&path)?;
        } else if is_preserved(&name)
            && let Ok(Some(held)) = read::manifest_if_any(&path)
        {
            sweep(&path, Some(&held))?;
        }
    }
    Ok(())
}

/// Whether a folder name is one of a preserved checkpoint.
fn is_preserved(name: &str) -> bool {
    name == BEST || name.starts_with(PRESERVED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_files_hold() {
        let name = versioned(&partition("my_type.v3", 12), 7);
        assert_eq!(name, "embeddings_my_type.v3_12.v7.safetensors");
        assert_eq!(key_of(&name), partition("my_type.v3", 12));
        assert_eq!(parse_partition(&name), Some(("my_type.v3".to_owned(), 12)));
        assert!(is_ours("model.v1.safetensors"));
        for other in [
            "notes.v1.safetensors",
            "model.v.safetensors",
            "model.v+1.safetensors",
            "model.safetensors",
            "model.v1.txt",
            "embeddings_x/../../y_0.v1.safetensors",
            "manifest.json",
        ] {
            assert!(!is_ours(other), "{other}");
        }
    }
}
