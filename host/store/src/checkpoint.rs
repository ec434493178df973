//! Checkpoints: folders that hold one complete version of a run, whatever happens.
//!
//! Every write makes a new file; a commit makes sure that all of them are on the disk and then
//! replaces the manifest in one step. What the manifest does not name does not exist: it is
//! removed after the commit, or when the folder is opened the next time.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use crate::files::{self, Summary};
use crate::sealed;

mod error;
mod lock;
pub mod manifest;
mod metrics;
mod names;
mod preserve;
mod read;
pub(crate) mod tensors;

pub use error::CheckpointError;
use lock::Lock;
pub use manifest::Manifest;
use manifest::{FORMAT, RunInfo};
use metrics::Metrics;
pub use read::ReadCheckpoint;
pub use tensors::{PartitionData, Tensor, TensorRef};

/// Name of the manifest in its folder.
pub const MANIFEST: &str = "manifest.json";

/// A checkpoint that a run writes to. No other run can open it meanwhile.
#[derive(Debug)]
pub struct Checkpoint {
    path: PathBuf,
    /// The version that a crash would leave.
    committed: Option<Manifest>,
    pending: Mutex<Pending>,
    metrics: Mutex<Metrics>,
    _lock: Lock,
}

/// What was written since the last commit.
#[derive(Debug, Default)]
struct Pending {
    /// File name and summary, by key of what it holds.
    files: BTreeMap<String, (String, Summary)>,
    /// The first failed write; after it nothing is committed.
    failure: Option<String>,
}

impl Checkpoint {
    /// Opens the checkpoint in folder `path`, or starts one: takes its lock, verifies the
    /// manifest and the sizes of the files, and removes what a crashed run left behind. The
    /// files themselves are verified as they are read.
    ///
    /// # Errors
    /// When another run holds the lock, or the checkpoint is damaged or cannot be written.
    pub fn open_or_create(path: &Path) -> Result<Self, CheckpointError> {
        files::create_folder(path)?;
        let lock = Lock::take(path)?;
        let committed = read::manifest_if_any(path)?;
        match &committed {
            Some(manifest) => read::check_sizes(path, manifest)?,
            None => names::check_no_versions(path)?,
        }
        names::sweep(path, committed.as_ref())?;
        let metrics_length = committed
            .as_ref()
            .map_or(0, |manifest| manifest.metrics_length);
        let metrics = Metrics::open(path, metrics_length)?;
        Ok(Self {
            path: path.to_owned(),
            committed,
            pending: Mutex::default(),
            metrics: Mutex::new(metrics),
            _lock: lock,
        })
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Number of the last commit; 0 before the first.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.committed
            .as_ref()
            .map_or(0, |manifest| manifest.version)
    }

    /// What the last commit says about its run; `None` before the first.
    #[must_use]
    pub fn run(&self) -> Option<&RunInfo> {
        self.committed.as_ref().map(|manifest| &manifest.run)
    }

    /// Whether a partition was ever written, committed or not.
    #[must_use]
    pub fn has_partition(&self, entity_type: &str, partition: u32) -> bool {
        self.latest(&names::partition(entity_type, partition))
            .is_some()
    }

    /// A partition as it was last written, committed or not; `None` if it never was.
    ///
    /// # Errors
    /// When its file cannot be read or is damaged.
    pub fn read_partition(
        &self,
        entity_type: &str,
        partition: u32,
    ) -> Result<Option<PartitionData>, CheckpointError> {
        let mut data = PartitionData::default();
        Ok(self
            .read_partition_into(entity_type, partition, &mut data)?
            .then_some(data))
    }

    /// The same into memory that is used again; false if the partition was never written.
    ///
    /// # Errors
    /// When its file cannot be read or is damaged; `data` is meaningless then.
    pub fn read_partition_into(
        &self,
        entity_type: &str,
        partition: u32,
        data: &mut PartitionData,
    ) -> Result<bool, CheckpointError> {
        let Some((file, summary)) = self.latest(&names::partition(entity_type, partition)) else {
            return Ok(false);
        };
        let path = self.path.join(file);
        data.read(&files::open(&path)?, &path, summary)?;
        Ok(true)
    }

    /// The parameters as they were last written; empty if they never were.
    ///
    /// # Errors
    /// When their file cannot be read or is damaged.
    pub fn model(&self) -> Result<Vec<Tensor>, CheckpointError> {
        let Some((file, summary)) = self.latest(names::MODEL) else {
            return Ok(Vec::new());
        };
        let path = self.path.join(file);
        tensors::read(&files::open(&path)?, &path, summary)
    }

    /// Writes a partition: `embeddings` are rows of `dim` numbers, `row_adagrad` has one number
    /// per row. Belongs to the next commit.
    ///
    /// # Errors
    /// When it cannot be written. The committed version stays, and nothing is committed any more.
    pub fn write_partition(
        &self,
        entity_type: &str,
        partition: u32,
        dim: usize,
        embeddings: &[f32],
        row_adagrad: &[f32],
    ) -> Result<(), CheckpointError> {
        let rows = row_adagrad.len();
        let tensors = [
            TensorRef {
                name: tensors::EMBEDDINGS,
                shape: &[rows, dim],
                values: embeddings,
            },
            TensorRef {
                name: tensors::ROW_ADAGRAD,
                shape: &[rows],
                values: row_adagrad,
            },
        ];
        let metadata = [
            ("entity_type", entity_type.to_owned()),
            ("partition", partition.to_string()),
        ];
        self.write(
            &names::partition(entity_type, partition),
            &tensors,
            &metadata,
        )
    }

    /// Writes all parameters of the model. Belongs to the next commit.
    ///
    /// # Errors
    /// When they cannot be written. The committed version stays, and nothing is committed any more.
    pub fn write_model(&self, tensors: &[TensorRef<'_>]) -> Result<(), CheckpointError> {
        self.write(names::MODEL, tensors, &[])
    }

    fn write(
        &self,
        key: &str,
        tensors: &[TensorRef<'_>],
        metadata: &[(&str, String)],
    ) -> Result<(), CheckpointError> {
        let name = names::versioned(key, self.version() + 1);
        let path = self.path.join(&name);
        let staged = files::staged_name(&path);
        let written = tensors::write(&staged, tensors, metadata)
            .and_then(|summary| files::rename(&staged, &path).map(|()| summary));
        match written {
            Ok(summary) => {
                self.pending().files.insert(key.to_owned(), (name, summary));
                Ok(())
            }
            Err(error) => {
                // Gives the space back that the commit of another run may need.
                let _ = files::remove(&staged);
                self.pending()
                    .failure
                    .get_or_insert_with(|| error.to_string());
                Err(error.into())
            }
        }
    }

    /// Makes everything written so far, together with the files of the last commit that were not
    /// written again, the new version. Gives its number.
    ///
    /// # Errors
    /// When a write failed before, or the files cannot be brought to the disk. A complete version
    /// stays: the last one or, if only its confirmation failed, this one.
    pub fn commit(&mut self, run: RunInfo) -> Result<u64, CheckpointError> {
        if let Some(failure) = &self.pending().failure {
            let (path, failure) = (self.path.clone(), failure.clone());
            return Err(CheckpointError::Refused { path, failure });
        }
        match self.try_commit(run) {
            Ok(version) => Ok(version),
            Err(error) => {
                self.pending()
                    .failure
                    .get_or_insert_with(|| error.to_string());
                Err(error)
            }
        }
    }

    fn try_commit(&mut self, run: RunInfo) -> Result<u64, CheckpointError> {
        let pending = self.pending().files.clone();
        for (name, _) in pending.values() {
            files::sync(&self.path.join(name))?;
        }
        let metrics_length = self.metrics().sync()?;
        let manifest_path = self.path.join(MANIFEST);
        files::sync_folder_of(&manifest_path)?;

        let mut kept = self
            .committed
            .as_ref()
            .map(|m| m.files.clone())
            .unwrap_or_default();
        let replaced: Vec<String> = kept
            .keys()
            .filter(|name| pending.contains_key(names::key_of(name)))
            .cloned()
            .collect();
        kept.retain(|name, _| !pending.contains_key(names::key_of(name)));
        kept.extend(pending.into_values());
        let version = self.version() + 1;
        let manifest = Manifest {
            version,
            run,
            metrics_length,
            files: kept,
        };
        let sealed = sealed::seal(FORMAT, &manifest);
        let sealed = sealed.map_err(|e| CheckpointError::manifest(&manifest_path, e))?;
        files::replace(&manifest_path, &sealed)?;

        self.committed = Some(manifest);
        self.pending().files.clear();
        for name in replaced {
            // A file too many does no harm; the next run removes it.
            let _ = files::remove(&self.path.join(name));
        }
        Ok(version)
    }

    /// Whether [`Checkpoint::preserve`] kept epoch `epoch`.
    #[must_use]
    pub fn has_preserved(&self, epoch: u32) -> bool {
        let folder = format!("{}{epoch}", names::PRESERVED);
        is_at(&self.path.join(folder))
    }

    /// Keeps the last commit as `epoch_<epoch>`, a checkpoint of its own.
    ///
    /// # Errors
    /// When the folder cannot be made; the checkpoint itself is untouched.
    pub fn preserve(&self, epoch: u32) -> Result<(), CheckpointError> {
        match &self.committed {
            Some(manifest) => {
                let name = format!("{}{epoch}", names::PRESERVED);
                preserve::preserve(&self.path, manifest, &name)
            }
            None => Ok(()),
        }
    }

    /// Keeps the last commit as `best`, a checkpoint of its own, in the place of an earlier one.
    ///
    /// # Errors
    /// When the folder cannot be made; the checkpoint itself is untouched.
    pub fn preserve_best(&self) -> Result<(), CheckpointError> {
        match &self.committed {
            Some(manifest) => preserve::preserve(&self.path, manifest, names::BEST),
            None => Ok(()),
        }
    }

    /// Adds a line to `metrics.jsonl`. Lines after the last commit are lost in a crash, together
    /// with the training they tell about.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn append_metrics(&self, event: &impl Serialize) -> Result<(), CheckpointError> {
        self.metrics().append(event)
    }

    /// File and summary of what `key` names, as it was last written.
    fn latest(&self, key: &str) -> Option<(String, Summary)> {
        if let Some(found) = self.pending().files.get(key) {
            return Some(found.clone());
        }
        self.committed
            .as_ref()?
            .find(key)
            .map(|(name, summary)| (name.to_owned(), summary))
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn metrics(&self) -> MutexGuard<'_, Metrics> {
        self.metrics.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether there is a checkpoint in the folder, whole or not.
#[must_use]
pub fn is_at(path: &Path) -> bool {
    fs::exists(path.join(MANIFEST)).unwrap_or(false)
}

#[cfg(test)]
mod tests;
