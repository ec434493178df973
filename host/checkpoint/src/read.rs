//! Read access to a checkpoint, also while a run writes to it.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::manifest::{FORMAT, RunInfo};
use super::tensors::{EmbeddingLocation, EmbeddingRows};
use super::{CheckpointError, CheckpointManifest, MANIFEST, PartitionData, Tensor, names, tensors};
use pbg_files::remote::{self, LocalCopy};
use pbg_files::sealed_json::{self, SealError};
use pbg_files::{self as files, FileError, FileSummary};

/// One version of a checkpoint, held from the beginning of a command to its end. Commits do not remove its files before
/// it is dropped.
#[derive(Debug)]
pub struct ReadCheckpoint {
    path: PathBuf,
    manifest: CheckpointManifest,
    files: BTreeMap<String, File>,
    /// The copy, if the checkpoint is in an object store; nobody changes it while it is held.
    _copy: Option<LocalCopy>,
}

/// Maximum number of commits that may happen between reading a manifest and opening its files. After each of them, only
/// the replaced files are opened again.
const ATTEMPTS: usize = 1000;

impl ReadCheckpoint {
    /// Opens the last commit of the checkpoint in folder `path`; of a folder in an object store, a local copy.
    ///
    /// # Errors
    /// When the folder has no checkpoint, is not a folder, or the checkpoint is damaged or incomplete.
    pub fn open(path: &Path) -> Result<Self, CheckpointError> {
        let Some(url) = remote::as_url(path) else {
            return Self::open_local(path);
        };
        if !remote::has_object(url, MANIFEST)? {
            return Err(CheckpointError::Missing(path.to_owned()));
        }
        let copy = remote::copy_folder(url, &is_own)?;
        let opened = Self::open_local(&copy.folder)?;
        Ok(Self {
            _copy: Some(copy),
            ..opened
        })
    }

    fn open_local(path: &Path) -> Result<Self, CheckpointError> {
        if fs::metadata(path).is_ok_and(|found| !found.is_dir()) {
            return Err(CheckpointError::NoFolder(path.to_owned()));
        }
        let missing = || CheckpointError::Missing(path.to_owned());
        let mut manifest = manifest_if_any(path)?.ok_or_else(missing)?;
        let mut files = BTreeMap::new();
        for _ in 0..ATTEMPTS {
            let Err(error) = open_all(path, &manifest, &mut files) else {
                let path = path.to_owned();
                return Ok(Self {
                    path,
                    manifest,
                    files,
                    _copy: None,
                });
            };
            let now = manifest_if_any(path)?.ok_or_else(missing)?;
            if now == manifest {
                return Err(error);
            }
            files.retain(|name, _| now.files.get(name) == manifest.files.get(name));
            manifest = now;
        }
        Err(CheckpointError::Changing(path.to_owned()))
    }

    /// Returns the checkpoint's folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the number of the commit.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.manifest.version
    }

    /// Returns the manifest of this version.
    #[must_use]
    pub fn manifest(&self) -> &CheckpointManifest {
        &self.manifest
    }

    /// Returns the description of the run that wrote this version.
    #[must_use]
    pub fn run(&self) -> &RunInfo {
        &self.manifest.run
    }

    /// Returns whether this version contains a partition.
    #[must_use]
    pub fn has_partition(&self, entity_type: &str, partition: u32) -> bool {
        self.partition_summary(entity_type, partition).is_some()
    }

    /// Reads a partition; `None` if this version does not contain it.
    ///
    /// # Errors
    /// When its file cannot be read or is damaged.
    pub fn read_partition(
        &self,
        entity_type: &str,
        partition: u32,
    ) -> Result<Option<PartitionData>, CheckpointError> {
        let mut data = PartitionData::default();
        let found = self.read_partition_into(entity_type, partition, &mut data)?;
        Ok(found.then_some(data))
    }

    /// Like [`ReadCheckpoint::read_partition`], but reuses the memory of `data`. Returns false if there is no such
    /// partition.
    ///
    /// # Errors
    /// When its file cannot be read or is damaged; `data` is meaningless then.
    pub fn read_partition_into(
        &self,
        entity_type: &str,
        partition: u32,
        data: &mut PartitionData,
    ) -> Result<bool, CheckpointError> {
        let found = self.find(&names::partition(entity_type, partition));
        let Some((path, file, summary)) = found else {
            return Ok(false);
        };
        data.read(file, &path, summary)?;
        Ok(true)
    }

    /// Returns the location of a partition's embeddings, for memory mapping; `None` if there is no such partition. The
    /// next commit may remove the file; an open or mapped file stays readable.
    ///
    /// # Errors
    /// When its header cannot be read or is damaged.
    pub fn embedding_location(
        &self,
        entity_type: &str,
        partition: u32,
    ) -> Result<Option<EmbeddingLocation>, CheckpointError> {
        let rows = self.rows(entity_type, partition)?;
        Ok(rows.map(|rows| rows.location))
    }

    /// Returns size and checksum of a partition's file; `None` if there is no such partition.
    #[must_use]
    pub fn partition_summary(&self, entity_type: &str, partition: u32) -> Option<FileSummary> {
        let found = self
            .manifest
            .find(&names::partition(entity_type, partition));
        found.map(|(_, summary)| summary)
    }

    /// Opens a partition for reading its embeddings row by row; `None` if there is no such partition.
    ///
    /// # Errors
    /// When its header cannot be read or is damaged.
    pub fn rows(
        &self,
        entity_type: &str,
        partition: u32,
    ) -> Result<Option<EmbeddingRows<'_>>, CheckpointError> {
        let found = self.find(&names::partition(entity_type, partition));
        let rows = |(path, file, summary): (PathBuf, _, FileSummary)| {
            let location = EmbeddingLocation::from_header(file, &path, summary)?;
            Ok(EmbeddingRows { file, location })
        };
        found.map(rows).transpose()
    }

    /// Reads the model parameters; empty if there are none.
    ///
    /// # Errors
    /// When their file cannot be read or is damaged.
    pub fn model(&self) -> Result<Vec<Tensor>, CheckpointError> {
        match self.find(names::MODEL) {
            Some((path, file, summary)) => tensors::read(file, &path, summary),
            None => Ok(Vec::new()),
        }
    }

    /// Reads every file and compares it with its checksum, without keeping any values.
    ///
    /// # Errors
    /// For the first file that cannot be read or is damaged.
    pub fn verify(&self) -> Result<(), CheckpointError> {
        if let Some((path, file, summary)) = self.find(names::MODEL) {
            tensors::verify(file, &path, summary)?;
        }
        for (entity_type, partition) in self.manifest.partitions() {
            let key = names::partition(&entity_type, partition);
            if let Some((path, file, summary)) = self.find(&key) {
                PartitionData::verify(file, &path, summary)?;
            }
        }
        Ok(())
    }

    fn find(&self, key: &str) -> Option<(PathBuf, &File, FileSummary)> {
        let (name, summary) = self.manifest.find(key)?;
        Some((self.path.join(name), self.files.get(name)?, summary))
    }
}

/// Returns whether an object belongs to a checkpoint itself or to one of its indexes: not to a version that it has
/// preserved, which is a checkpoint of its own, and not to the trainers that write it.
fn is_own(name: &str) -> bool {
    match name.split_once('/') {
        Some((folder, _)) => folder != names::LEDGER && !names::is_preserved(folder),
        None => !names::is_of_trainers(name),
    }
}

/// Reads and verifies the newest manifest of a folder; `None` if there is none. Where several trainers write, a
/// published manifest whose files are complete counts, even if it has not replaced `manifest.json` yet.
pub(super) fn manifest_if_any(
    folder: &Path,
) -> Result<Option<CheckpointManifest>, CheckpointError> {
    let current = manifest_at(&folder.join(MANIFEST))?;
    let version = current.as_ref().map_or(0, |manifest| manifest.version);
    let names = names::entries(folder).unwrap_or_default();
    let numbered = names.iter().filter_map(|name| names::parse_numbered(name));
    let mut newer: Vec<u64> = numbered.filter(|n| *n > version).collect();
    newer.sort_unstable_by(|a, b| b.cmp(a));
    for version in newer {
        let path = folder.join(names::numbered_manifest(version));
        // An incomplete manifest belongs to a commit that was never finished.
        if let Ok(Some(manifest)) = manifest_at(&path)
            && manifest.version == version
            && check_sizes(folder, &manifest).is_ok()
        {
            return Ok(Some(manifest));
        }
    }
    Ok(current)
}

pub(super) fn manifest_at(path: &Path) -> Result<Option<CheckpointManifest>, CheckpointError> {
    let manifest: CheckpointManifest = match sealed_json::read(path, FORMAT) {
        Ok(unsealed) => unsealed.body,
        Err(SealError::File(e)) if e.is_not_found() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    let checked = manifest.check();
    checked.map_err(|what| CheckpointError::damaged(path, what))?;
    Ok(Some(manifest))
}

/// Opens the files of a manifest that are missing in `opened`.
fn open_all(
    folder: &Path,
    manifest: &CheckpointManifest,
    opened: &mut BTreeMap<String, File>,
) -> Result<(), CheckpointError> {
    for (name, summary) in &manifest.files {
        let path = folder.join(name);
        if !opened.contains_key(name) {
            let file = files::open_locked(&path).map_err(|e| unopened(&path, e))?;
            opened.insert(name.clone(), file);
        }
        let size = opened[name].metadata().map(|found| found.len());
        let size = size.map_err(|e| FileError::new("open", &path, e));
        check_size(&path, size, *summary)?;
    }
    Ok(())
}

/// Checks that all files of a manifest exist and have the recorded sizes.
pub(super) fn check_sizes(
    folder: &Path,
    manifest: &CheckpointManifest,
) -> Result<(), CheckpointError> {
    for (name, summary) in &manifest.files {
        let path = folder.join(name);
        check_size(&path, files::size(&path), *summary)?;
    }
    Ok(())
}

fn check_size(
    path: &Path,
    size: Result<u64, FileError>,
    expected: FileSummary,
) -> Result<(), CheckpointError> {
    let size = size.map_err(|e| unopened(path, e))?;
    if size == expected.size {
        return Ok(());
    }
    let what = format!("it has {size} bytes instead of {}", expected.size);
    Err(CheckpointError::damaged(path, what))
}

/// Returns the error for a file that a manifest names and that could not be opened.
fn unopened(path: &Path, error: FileError) -> CheckpointError {
    match error.is_not_found() {
        true => CheckpointError::damaged(path, "it is missing"),
        false => error.into(),
    }
}
