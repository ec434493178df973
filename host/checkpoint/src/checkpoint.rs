//! Checkpoint of a run with one trainer.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use serde::Serialize;

use super::lock::{CheckpointLock, LockMode};
use super::manifest::RunInfo;
use super::metrics::Metrics;
use super::tensors::{self, partition_metadata};
use super::versions::{TargetCommit, Versions};
use super::{
    CheckpointError, FolderWriter, MANIFEST, PartitionData, PartitionFiles, PartitionRows, Tensor,
    TensorRef, first_commit, names, preserve, read, recovery, shared,
};
use pbg_files::{self as files, FileError, FileSummary, STAGED_SUFFIX};

/// Checkpoint that a run writes to, locked against all other runs.
#[derive(Debug)]
pub struct Checkpoint {
    pub(super) files: PartitionFiles,
    versions: Mutex<Versions>,
    metrics: Mutex<Metrics>,
    _lock: CheckpointLock,
}

impl Checkpoint {
    /// Opens or creates the checkpoint in folder `path` for a run that owns it, and removes the files that a crashed
    /// run left.
    ///
    /// # Errors
    /// As [`Checkpoint::open`] and [`Checkpoint::sweep`].
    pub fn open_or_create(path: &Path) -> Result<Self, CheckpointError> {
        let checkpoint = Self::open(path)?;
        checkpoint.sweep()?;
        Ok(checkpoint)
    }

    /// Opens the checkpoint in folder `path`, or creates one. Takes its lock and verifies the manifest and the sizes of
    /// the files. The contents of the files are verified when they are read.
    ///
    /// # Errors
    /// When another run holds the lock, or the checkpoint is damaged or cannot be written.
    pub fn open(path: &Path) -> Result<Self, CheckpointError> {
        files::create_folder(path)?;
        let lock = CheckpointLock::take(path, LockMode::Exclusive)?;
        let committed = read::manifest_if_any(path)?;
        match &committed {
            Some(manifest) => {
                read::check_sizes(path, manifest)?;
                shared::make_current(path, &format!("{MANIFEST}{STAGED_SUFFIX}"), manifest)?;
                first_commit::unmark_uncommitted(path)?;
            }
            None => first_commit::mark_uncommitted(path)?,
        }
        let files = PartitionFiles::new(path, FolderWriter::Single);
        let length = committed.as_ref().map_or(0, |m| m.metrics_length);
        let metrics = Metrics::open(path, length)?;
        Ok(Self {
            files,
            versions: Mutex::new(Versions {
                committed,
                ..Versions::default()
            }),
            metrics: Mutex::new(metrics),
            _lock: lock,
        })
    }

    /// Removes the files that a crashed run left. Several trainers may have left files that only their ledger names, so
    /// the caller must have made sure that the checkpoint belongs to it alone.
    ///
    /// # Errors
    /// When a file cannot be removed.
    pub fn sweep(&self) -> Result<(), CheckpointError> {
        let versions = self.versions();
        Ok(self.files.sweep(versions.committed.as_ref())?)
    }

    /// Returns the checkpoint's folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.files.folder()
    }

    /// Returns the number of the last commit; 0 before the first.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.versions().version()
    }

    /// Returns what the last commit recorded about its run; `None` before the first commit.
    #[must_use]
    pub fn run(&self) -> Option<RunInfo> {
        let versions = self.versions();
        versions.committed.as_ref().map(|m| m.run.clone())
    }

    /// Returns whether a partition was ever written, committed or not.
    #[must_use]
    pub fn has_partition(&self, entity_type: &str, partition: u32) -> bool {
        let key = names::partition(entity_type, partition);
        self.versions().latest(&key).is_some()
    }

    /// Returns whether the commit in progress contains a partition, either rewritten or kept from the last commit.
    #[must_use]
    pub fn commit_has_partition(&self, entity_type: &str, partition: u32) -> bool {
        let key = names::partition(entity_type, partition);
        self.versions().committing_file(&key).is_some()
    }

    /// Reads a partition as it was last written, committed or not; `None` if it was never written.
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

    /// Like [`Checkpoint::read_partition`], but reuses the memory of `data`. Returns false if the partition was never
    /// written.
    ///
    /// # Errors
    /// When its file cannot be read or is damaged; `data` is meaningless then.
    pub fn read_partition_into(
        &self,
        entity_type: &str,
        partition: u32,
        data: &mut PartitionData,
    ) -> Result<bool, CheckpointError> {
        let key = names::partition(entity_type, partition);
        let Some((file, summary)) = self.versions().latest(&key) else {
            return Ok(false);
        };
        self.files.read_partition(&file, summary, data)?;
        Ok(true)
    }

    /// Reads the model parameters as they were last written; empty if they were never written.
    ///
    /// # Errors
    /// When the file cannot be read or is damaged.
    pub fn model(&self) -> Result<Vec<Tensor>, CheckpointError> {
        let Some((file, summary)) = self.versions().latest(names::MODEL) else {
            return Ok(Vec::new());
        };
        self.files.read_model(&file, summary)
    }

    /// Writes a partition: `embeddings` of shape `[rows, dim]` and `row_adagrad` of shape `[rows]`. It belongs to the next commit.
    ///
    /// # Errors
    /// When the file cannot be written. The committed version is kept, and every later commit is refused.
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
        let key = names::partition(entity_type, partition);
        let metadata = partition_metadata(entity_type, partition);
        self.write(&key, TargetCommit::Next, |path| {
            tensors::write(path, &tensors, &metadata)
        })
    }

    /// Writes a partition whose rows other threads may read at the same time, for the commit in progress or the next
    /// one.
    ///
    /// # Errors
    /// As [`Checkpoint::write_partition`].
    pub fn write_rows(
        &self,
        entity_type: &str,
        partition: u32,
        rows: &PartitionRows<'_>,
        belongs: TargetCommit,
    ) -> Result<(), CheckpointError> {
        let key = names::partition(entity_type, partition);
        let metadata = partition_metadata(entity_type, partition);
        self.write(&key, belongs, |path| rows.write(path, &metadata))
    }

    /// Writes all model parameters. They belong to the next commit.
    ///
    /// # Errors
    /// When the file cannot be written. The committed version is kept, and every later commit is refused.
    pub fn write_model(&self, tensors: &[TensorRef<'_>]) -> Result<(), CheckpointError> {
        self.write(names::MODEL, TargetCommit::Next, |path| {
            tensors::write(path, tensors, &[])
        })
    }

    fn write(
        &self,
        key: &str,
        belongs: TargetCommit,
        write: impl FnOnce(&Path) -> Result<FileSummary, FileError>,
    ) -> Result<(), CheckpointError> {
        let version = {
            let versions = self.versions();
            let of_next = belongs == TargetCommit::Next && versions.cut.is_some();
            versions.version() + 1 + u64::from(of_next)
        };
        let written = self.files.write(key, version, write);
        let mut versions = self.versions();
        match written {
            Ok(written) => {
                let Versions { cut, pending, .. } = &mut *versions;
                let files = match (belongs, cut) {
                    (TargetCommit::InProgress, Some(cut)) => &mut cut.files,
                    _ => pending,
                };
                files.insert(key.to_owned(), written);
                Ok(())
            }
            Err(error) => {
                versions.fail(&error);
                Err(error.into())
            }
        }
    }

    /// Returns whether [`Checkpoint::preserve`] kept epoch `epoch`.
    #[must_use]
    pub fn has_preserved(&self, epoch: u32) -> bool {
        recovery::exists(&self.path().join(names::preserved(epoch)))
    }

    /// Keeps the last commit as `epoch_<epoch>`, a checkpoint in its own folder.
    ///
    /// # Errors
    /// When the folder cannot be created. The checkpoint itself is not changed.
    pub fn preserve(&self, epoch: u32) -> Result<(), CheckpointError> {
        self.preserve_as(&names::preserved(epoch))
    }

    /// Keeps the last commit as `best`, a checkpoint in its own folder, and replaces an earlier one.
    ///
    /// # Errors
    /// When the folder cannot be created. The checkpoint itself is not changed.
    pub fn preserve_best(&self) -> Result<(), CheckpointError> {
        self.preserve_as(names::BEST)
    }

    fn preserve_as(&self, name: &str) -> Result<(), CheckpointError> {
        match &self.versions().committed {
            Some(manifest) => preserve::preserve(self.path(), manifest, name),
            None => Ok(()),
        }
    }

    /// Appends a line to `metrics.jsonl`. A crash loses the lines after the last commit, together with the training
    /// that they describe.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn append_metrics(&self, event: &impl Serialize) -> Result<(), CheckpointError> {
        self.metrics().append(event)
    }

    pub(super) fn versions(&self) -> MutexGuard<'_, Versions> {
        self.versions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn metrics(&self) -> MutexGuard<'_, Metrics> {
        self.metrics.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
