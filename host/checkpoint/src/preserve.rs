//! Preserved versions: copies of a checkpoint version that are kept in their own folders.

use std::path::{Path, PathBuf};

use super::manifest::RunInfo;
use super::partition_files::sweep;
use super::shared_folder::SharedFolder;
use super::{
    CheckpointError, CheckpointManifest, FolderWriter, MANIFEST, ReadCheckpoint, SharedCheckpoint,
    names, read,
};
use pbg_files::{self as files, FileError, remote};

impl SharedCheckpoint {
    /// Keeps the version of `manifest`, whose files must exist, as `best`, a checkpoint in its own folder. A newer
    /// version of the run in `best` is not replaced: this trainer was delayed, and others have continued.
    ///
    /// # Errors
    /// When the folder cannot be created. The checkpoint itself is not changed.
    pub fn preserve_best(&self, manifest: &CheckpointManifest) -> Result<(), CheckpointError> {
        let held = match &*self.folder {
            SharedFolder::Files(folder) => read::manifest_if_any(&folder.join(names::BEST)),
            SharedFolder::Objects(objects) => objects.preserved(names::BEST),
        };
        let held = held.unwrap_or_default();
        // A version newer than all versions of this run belongs to another run.
        let newest = self.newest()?.map_or(0, |newest| newest.version);
        let newer = manifest.version + 1..=newest;
        match held.is_some_and(|held| newer.contains(&held.version)) {
            true => Ok(()),
            false => self.preserve_as(manifest, names::BEST),
        }
    }

    /// Keeps the version of `manifest`, whose files must exist, as `epoch_<epoch>`, a checkpoint in its own folder.
    ///
    /// # Errors
    /// When the folder cannot be created. The checkpoint itself is not changed.
    pub fn preserve(
        &self,
        manifest: &CheckpointManifest,
        epoch: u32,
    ) -> Result<(), CheckpointError> {
        self.preserve_as(manifest, &names::preserved(epoch))
    }

    fn preserve_as(
        &self,
        manifest: &CheckpointManifest,
        name: &str,
    ) -> Result<(), CheckpointError> {
        match &*self.folder {
            SharedFolder::Files(folder) => preserve(folder, manifest, name),
            SharedFolder::Objects(objects) => objects.preserve(manifest, name),
        }
    }
}

impl ReadCheckpoint {
    /// Makes folder `to`, which exists and has no manifest, a checkpoint with the files of this version and the
    /// description `run`, without events. Its files may be hard links. Other files with names like theirs are removed.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn publish_as(&self, to: &Path, run: RunInfo) -> Result<(), CheckpointError> {
        let manifest = CheckpointManifest {
            run,
            metrics_length: 0,
            cut: None,
            told: Default::default(),
            ..self.manifest().clone()
        };
        fill(self.path(), &manifest, to, None)?;
        Ok(sweep(to, &FolderWriter::Single, Some(&manifest))?)
    }
}

/// Version that a run has kept as its best.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreservedBest {
    /// Its folder, which is a checkpoint.
    pub path: PathBuf,
    /// Its version number.
    pub version: u64,
    /// Number of the run's last commit.
    pub last_version: u64,
    /// Whether the best and the last version are the same model.
    pub is_last: bool,
}

/// Returns the best version that the run in folder `path` has kept; `None` if there is none or it cannot be read. Of a
/// folder in an object store, only the existence of a best version is known.
#[must_use]
pub fn find_best(path: &Path) -> Option<PreservedBest> {
    if let Some(url) = remote::as_url(path) {
        return find_best_object(url);
    }
    let manifest = |folder: &Path| read::manifest_if_any(folder).ok().flatten();
    let folder = path.join(names::BEST);
    let kept = manifest(&folder)?;
    let last = manifest(path);
    Some(PreservedBest {
        path: folder,
        version: kept.version,
        last_version: last.as_ref().map_or(0, |last| last.version),
        is_last: last.is_some_and(|last| last.files == kept.files),
    })
}

fn find_best_object(url: &str) -> Option<PreservedBest> {
    let path = Path::new(url).join(names::BEST);
    let is_there = remote::has_object(path.to_str()?, MANIFEST).ok()?;
    is_there.then_some(PreservedBest {
        path,
        version: 0,
        last_version: 0,
        is_last: false,
    })
}

/// Makes folder `name` a checkpoint with the files of `manifest`. The files are hard links: a file is never modified
/// after it has its name. The previous content of `name` stays complete until its manifest is replaced.
pub(super) fn preserve(
    folder: &Path,
    manifest: &CheckpointManifest,
    name: &str,
) -> Result<(), CheckpointError> {
    let target = folder.join(name);
    if let Ok(Some(held)) = read::manifest_if_any(&target) {
        fill(folder, manifest, &target, Some(&held))?;
        // A leftover file is harmless; the next run removes it. Another trainer may have stored a newer version in the
        // meantime.
        let now = read::manifest_if_any(&target).unwrap_or_default();
        if now.is_some_and(|now| now.version == manifest.version) {
            let _ = sweep(&target, &FolderWriter::Single, Some(manifest));
        }
        return Ok(());
    }
    let staged = files::staged_name(&target);
    files::remove_folder(&staged)?;
    files::create_folder(&staged)?;
    fill(folder, manifest, &staged, None)?;
    // A folder without a readable manifest is not a checkpoint.
    files::remove_folder(&target)?;
    files::rename(&staged, &target)?;
    Ok(files::sync_folder_of(&target)?)
}

/// Links the files of `manifest` into folder `to`, which already has those of `held`, then writes the manifest.
fn fill(
    from: &Path,
    manifest: &CheckpointManifest,
    to: &Path,
    held: Option<&CheckpointManifest>,
) -> Result<(), CheckpointError> {
    for (file, summary) in &manifest.files {
        if held.and_then(|held| held.files.get(file)) != Some(summary) {
            link(&from.join(file), &to.join(file))?;
        }
    }
    let path = to.join(MANIFEST);
    files::sync_folder_of(&path)?;
    Ok(files::replace(&path, &manifest.seal(&path)?)?)
}

/// Gives a file a second name, replacing whatever a crashed run left under that name.
fn link(from: &Path, to: &Path) -> Result<(), FileError> {
    let staged = files::staged_name(to);
    files::remove(&staged)?;
    files::link_or_copy(from, &staged)?;
    files::rename(&staged, to)?;
    // Renaming one name of a file to another name of the same file leaves both.
    files::remove(&staged)
}

#[cfg(test)]
mod tests {
    use pbg_ledger::Token;

    use super::super::{PartitionRows, shared};
    use super::*;

    fn version(trainer: &SharedCheckpoint, version: u64) -> CheckpointManifest {
        let rows = PartitionRows {
            rows: 2,
            dim: 3,
            embeddings: &|_, out| out.fill(1.0),
            optimizer: Default::default(),
            state: &|_, out| out.fill(1.0),
            rounding: None,
        };
        let file = trainer.write_partition("e", 0, version, &rows).unwrap();
        let manifest = CheckpointManifest {
            version,
            files: [shared::manifest_entry("e", 0, &file)].into(),
            ..CheckpointManifest::default()
        };
        trainer.publish(&manifest).unwrap();
        trainer.make_current(&manifest).unwrap();
        manifest
    }

    #[test]
    fn a_trainer_that_comes_late_does_not_replace_a_newer_best_one() {
        let folder = tempfile::tempdir().unwrap();
        let trainer = SharedCheckpoint::open(folder.path(), Token(1)).unwrap();
        let kept = || {
            let best = ReadCheckpoint::open(&folder.path().join(names::BEST)).unwrap();
            best.read_partition("e", 0).unwrap().unwrap();
            best.version()
        };
        let first = version(&trainer, 1);
        trainer.preserve_best(&first).unwrap();
        assert_eq!(kept(), 1);
        let second = version(&trainer, 2);
        for (late, expected) in [(&second, 2), (&first, 2), (&second, 2)] {
            trainer.preserve_best(late).unwrap();
            assert_eq!(kept(), expected);
        }
        // The same holds if another run left a version there.
        let other = CheckpointManifest {
            version: 9,
            ..second.clone()
        };
        preserve(folder.path(), &other, names::BEST).unwrap();
        trainer.preserve_best(&second).unwrap();
        assert_eq!(kept(), 2);
    }
}
