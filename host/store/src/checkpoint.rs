//! Checkpoints: folders that always hold one complete, verifiable version of a training run.
//!
//! New files are written under new names; a commit syncs them, replaces `manifest.json`, and only
//! then deletes what the old version alone used. Whatever ends the process, the manifest names
//! files that are complete. Partitions that leave the buffer between commits are written here
//! too, and belong to no version until the next commit.

use std::collections::{BTreeMap, HashMap};
use std::fs::{File, OpenOptions};
use std::io::{Seek, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::files::{self, FileError};
use crate::sealed::{self, SealError};

pub mod manifest;
mod read;
mod tensor_file;

use manifest::{FORMAT, MANIFEST, Manifest, ModelFile, PartitionFile, RunInfo};
pub use read::ReadCheckpoint;
pub use tensor_file::{Tensor, TensorRef};

/// Name of the metrics in their folder.
pub const METRICS: &str = "metrics.jsonl";
/// Name of the effective configuration in its folder.
pub const CONFIG: &str = "config.toml";
const LOCK: &str = ".lock";

/// What is wrong with a checkpoint.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    /// The folder is none.
    #[error("{} is no checkpoint: it has no {MANIFEST}; `pbg-host train` makes one", path.display())]
    Missing {
        /// The folder.
        path: PathBuf,
    },
    /// The folder holds something else.
    #[error("{} is no checkpoint, and not empty; choose another `checkpoint_path`", path.display())]
    Foreign {
        /// The folder.
        path: PathBuf,
    },
    /// Another process trains into it.
    #[error("another run{holder} trains into {}; wait for it, or choose another `checkpoint_path`", path.display())]
    Locked {
        /// The folder.
        path: PathBuf,
        /// ` (process N)` where it is known.
        holder: String,
    },
    /// It was made by another version of this program.
    #[error("{error}")]
    Format {
        /// What was found and what was expected.
        error: SealError,
    },
    /// A file is not as it was written.
    #[error(
        "{} is damaged: {what}; go on from a preserved epoch (`epoch_<n>`), or delete the checkpoint folder and train again",
        path.display()
    )]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A write failed before; what is in memory can no longer become a version.
    #[error("{} had a failed write; its last version stays as it is", path.display())]
    Failed {
        /// The folder.
        path: PathBuf,
    },
    /// A file cannot be read or written.
    #[error(transparent)]
    File(#[from] FileError),
}

impl CheckpointError {
    pub(crate) fn damaged(path: &Path, what: impl Into<String>) -> Self {
        Self::Damaged {
            path: path.to_owned(),
            what: what.into(),
        }
    }

    /// Whether another run holds the folder.
    #[must_use]
    pub fn is_locked(&self) -> bool {
        matches!(self, Self::Locked { .. })
    }

    /// Whether the operating system refused a read or write.
    #[must_use]
    pub fn is_io(&self) -> bool {
        matches!(self, Self::File(_) | Self::Failed { .. })
    }
}

/// One partition of one entity type.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PartitionData {
    /// Rows.
    pub rows: usize,
    /// Floats per row.
    pub dim: usize,
    /// Embeddings, `[rows, dim]`.
    pub embeddings: Vec<f32>,
    /// Accumulated squared gradients of row-Adagrad, `[rows]`.
    pub row_adagrad: Vec<f32>,
}

impl PartitionData {
    fn from_tensors(tensors: Vec<Tensor>) -> Result<Self, String> {
        let mut data = Self::default();
        for tensor in tensors {
            match (tensor.name.as_str(), tensor.shape.as_slice()) {
                ("embeddings", &[rows, dim]) => {
                    (data.rows, data.dim, data.embeddings) = (rows, dim, tensor.values);
                }
                ("row_adagrad", &[_]) => data.row_adagrad = tensor.values,
                (name, shape) => {
                    return Err(format!("it has a tensor `{name}` of shape {shape:?}"));
                }
            }
        }
        if data.row_adagrad.len() == data.rows {
            Ok(data)
        } else {
            Err("it has not one `row_adagrad` per row of `embeddings`".to_owned())
        }
    }
}

/// A checkpoint that this process alone may change.
#[derive(Debug)]
pub struct Checkpoint {
    path: PathBuf,
    _lock: File,
    committed: Option<Manifest>,
    /// Partitions written since the last commit.
    pending: HashMap<(String, u32), PartitionFile>,
    pending_model: Option<ModelFile>,
    metrics: File,
    failed: bool,
}

impl Checkpoint {
    /// Opens or makes the checkpoint in folder `path` and locks it. What a crashed run left
    /// uncommitted is deleted.
    ///
    /// # Errors
    /// When another run holds it, it is damaged, the folder holds something else, or a file
    /// cannot be read or written.
    pub fn open_or_create(path: &Path) -> Result<Self, CheckpointError> {
        files::create_folder(path)?;
        let committed = Manifest::read(path)?;
        if committed.is_none() && !is_ours(path)? {
            return Err(CheckpointError::Foreign {
                path: path.to_owned(),
            });
        }
        let lock = lock(path)?;
        // Between the first look and the lock another run may have committed.
        let committed = Manifest::read(path)?;
        sweep(path, committed.as_ref())?;
        let metrics = open_metrics(path, committed.as_ref().map_or(0, |m| m.metrics_bytes))?;
        Ok(Self {
            path: path.to_owned(),
            _lock: lock,
            committed,
            pending: HashMap::new(),
            pending_model: None,
            metrics,
            failed: false,
        })
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The last committed version; 0 before the first.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.committed.as_ref().map_or(0, |m| m.version)
    }

    /// What the run said of itself at the last commit.
    #[must_use]
    pub fn run(&self) -> Option<&RunInfo> {
        self.committed.as_ref().map(|m| &m.run)
    }

    /// Whether a partition was ever written.
    #[must_use]
    pub fn has_partition(&self, entity_type: &str, partition: u32) -> bool {
        self.entry(entity_type, partition).is_some()
    }

    fn entry(&self, entity_type: &str, partition: u32) -> Option<&PartitionFile> {
        let pending = self.pending.get(&(entity_type.to_owned(), partition));
        pending.or_else(|| self.committed.as_ref()?.partition(entity_type, partition))
    }

    /// The partition as it was last written, committed or not; `None` when it never was.
    ///
    /// # Errors
    /// When it cannot be read or is damaged.
    pub fn read_partition(
        &self,
        entity_type: &str,
        partition: u32,
    ) -> Result<Option<PartitionData>, CheckpointError> {
        let Some(entry) = self.entry(entity_type, partition) else {
            return Ok(None);
        };
        let path = self.path.join(&entry.file);
        let file = open_listed(&path)?;
        let tensors = read::read_tensors(&file, &path, entry.summary)?;
        let data = PartitionData::from_tensors(tensors);
        data.map(Some)
            .map_err(|what| CheckpointError::damaged(&path, what))
    }

    /// The committed parameters and accumulators of the model.
    ///
    /// # Errors
    /// When they cannot be read or are damaged.
    pub fn model(&self) -> Result<Vec<Tensor>, CheckpointError> {
        let Some(model) = self.committed.as_ref().and_then(|m| m.model.as_ref()) else {
            return Ok(Vec::new());
        };
        let path = self.path.join(&model.file);
        read::read_tensors(&open_listed(&path)?, &path, model.summary)
    }

    /// Writes a partition: `embeddings` `[rows, dim]`, `row_adagrad` `[rows]`. It becomes part of
    /// the checkpoint with the next commit, and of [`Self::read_partition`] at once.
    ///
    /// # Errors
    /// When it cannot be written. The checkpoint refuses to commit then; its last version stays.
    pub fn write_partition(
        &mut self,
        entity_type: &str,
        partition: u32,
        dim: usize,
        embeddings: &[f32],
        row_adagrad: &[f32],
    ) -> Result<(), CheckpointError> {
        let file = format!(
            "embeddings_{entity_type}_{partition}.v{}.safetensors",
            self.version() + 1
        );
        let (rows, path) = (row_adagrad.len(), self.path.join(&file));
        let tensors = [
            TensorRef {
                name: "embeddings",
                shape: &[rows, dim],
                values: embeddings,
            },
            TensorRef {
                name: "row_adagrad",
                shape: &[rows],
                values: row_adagrad,
            },
        ];
        let metadata = BTreeMap::from([
            ("entity_type", entity_type.to_owned()),
            ("partition", partition.to_string()),
        ]);
        let summary = self.guard(|_| tensor_file::write(&path, &tensors, &metadata))?;
        let entry = PartitionFile {
            entity_type: entity_type.to_owned(),
            partition,
            file,
            summary,
        };
        self.pending
            .insert((entity_type.to_owned(), partition), entry);
        Ok(())
    }

    /// Writes the model's parameters; they become part of the checkpoint with the next commit.
    ///
    /// # Errors
    /// As [`Self::write_partition`].
    pub fn write_model(&mut self, tensors: &[TensorRef<'_>]) -> Result<(), CheckpointError> {
        let file = format!("model.v{}.safetensors", self.version() + 1);
        let path = self.path.join(&file);
        let summary = self.guard(|_| tensor_file::write(&path, tensors, &BTreeMap::new()))?;
        self.pending_model = Some(ModelFile { file, summary });
        Ok(())
    }

    /// Appends one line to `metrics.jsonl`. Lines behind the last commit are dropped when a crashed
    /// run is resumed, so that none appears twice.
    ///
    /// # Errors
    /// As [`Self::write_partition`].
    pub fn append_metrics(&mut self, line: &impl Serialize) -> Result<(), CheckpointError> {
        let path = self.path.join(METRICS);
        self.guard(|checkpoint| {
            let refused = |e| FileError::new("write", &path, e);
            let mut text = serde_json::to_vec(line).map_err(|e| refused(e.into()))?;
            text.push(b'\n');
            checkpoint.metrics.write_all(&text).map_err(refused)
        })
    }

    /// Makes everything written so far the new version.
    ///
    /// # Errors
    /// When a file cannot be written; the last version stays then.
    pub fn commit(&mut self, run: RunInfo) -> Result<u64, CheckpointError> {
        self.guard(|checkpoint| {
            let manifest = checkpoint.next_manifest(run)?;
            let path = &checkpoint.path;
            let new = checkpoint.pending.values().map(|p| &p.file);
            for name in new.chain(checkpoint.pending_model.iter().map(|m| &m.file)) {
                files::sync(&path.join(name))?;
            }
            files::sync(&path.join(METRICS))?;
            let text = sealed::seal(FORMAT, &manifest)
                .map_err(|e| FileError::new("write", &path.join(MANIFEST), e.into()))?;
            files::sync(path)?;
            files::replace(&path.join(MANIFEST), &text)?;
            let old = checkpoint.committed.replace(manifest);
            checkpoint.pending.clear();
            checkpoint.pending_model = None;
            checkpoint.drop_unused(old)
        })?;
        self.write_config()?;
        Ok(self.version())
    }

    fn next_manifest(&self, run: RunInfo) -> Result<Manifest, FileError> {
        let metrics = self.path.join(METRICS);
        let old = self.committed.as_ref();
        let mut partitions: Vec<PartitionFile> =
            old.map_or_else(Vec::new, |m| m.partitions.clone());
        partitions.retain(|p| {
            !self
                .pending
                .contains_key(&(p.entity_type.clone(), p.partition))
        });
        partitions.extend(self.pending.values().cloned());
        partitions
            .sort_by(|a, b| (&a.entity_type, a.partition).cmp(&(&b.entity_type, b.partition)));
        Ok(Manifest {
            version: self.version() + 1,
            run,
            metrics_bytes: files::size(&metrics)?,
            model: self
                .pending_model
                .clone()
                .or_else(|| old.and_then(|m| m.model.clone())),
            partitions,
        })
    }

    fn drop_unused(&self, old: Option<Manifest>) -> Result<(), FileError> {
        let used: Vec<&str> = self.committed.iter().flat_map(Manifest::files).collect();
        if let Some(manifest) = old {
            for name in manifest.files().filter(|name| !used.contains(name)) {
                files::remove(&self.path.join(name))?;
            }
        }
        Ok(())
    }

    /// The configuration beside the manifest, for people and tools; the manifest's copy counts.
    fn write_config(&self) -> Result<(), CheckpointError> {
        let path = self.path.join(CONFIG);
        let text = self.run().map_or("", |run| &run.config);
        if std::fs::read(&path).ok().as_deref() != Some(text.as_bytes()) {
            files::replace(&path, text.as_bytes())?;
        }
        Ok(())
    }

    /// Keeps the committed version under `epoch_<epoch>`, sharing its files where the file system
    /// can. A copy of the same epoch is replaced.
    ///
    /// # Errors
    /// When the copy cannot be written.
    pub fn preserve(&mut self, epoch: u32) -> Result<(), CheckpointError> {
        let Some(manifest) = &self.committed else {
            return Ok(());
        };
        let target = self.path.join(format!("epoch_{epoch}"));
        let staged = files::staged_name(&target);
        remove_folder(&staged)?;
        files::create_folder(&staged)?;
        for name in manifest.files().chain([MANIFEST, CONFIG, METRICS]) {
            let copy = staged.join(name);
            if name == METRICS {
                // It goes on growing, so it cannot be shared.
                let text = files::read(&self.path.join(name), u64::MAX)?;
                files::replace(&copy, &text)?;
            } else {
                files::link_or_copy(&self.path.join(name), &copy)?;
            }
        }
        files::sync(&staged)?;
        remove_folder(&target)?;
        files::rename(&staged, &target)?;
        files::sync(&self.path)?;
        Ok(())
    }

    /// Runs a write; after one that failed nothing is written any more.
    fn guard<T>(
        &mut self,
        write: impl FnOnce(&mut Self) -> Result<T, FileError>,
    ) -> Result<T, CheckpointError> {
        if self.failed {
            return Err(CheckpointError::Failed {
                path: self.path.clone(),
            });
        }
        let result = write(self);
        self.failed = result.is_err();
        Ok(result?)
    }
}

fn open_listed(path: &Path) -> Result<File, CheckpointError> {
    files::open(path).map_err(|e| {
        if e.is_not_found() {
            CheckpointError::damaged(path, "it is missing")
        } else {
            e.into()
        }
    })
}

fn lock(path: &Path) -> Result<File, CheckpointError> {
    let lock_path = path.join(LOCK);
    let refused = |e| FileError::new("lock", &lock_path, e);
    let options = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(&lock_path);
    let mut file = options.map_err(refused)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(std::fs::TryLockError::WouldBlock) => {
            let holder = files::read(&lock_path, 64)
                .ok()
                .and_then(|b| String::from_utf8(b).ok());
            let holder = holder.filter(|h| !h.trim().is_empty());
            return Err(CheckpointError::Locked {
                path: path.to_owned(),
                holder: holder.map_or_else(String::new, |pid| format!(" (process {})", pid.trim())),
            });
        }
        Err(std::fs::TryLockError::Error(e)) => return Err(refused(e).into()),
    }
    file.set_len(0)
        .and_then(|()| file.rewind())
        .and_then(|()| writeln!(file, "{}", std::process::id()))
        .map_err(refused)?;
    Ok(file)
}

/// Whether a folder without manifest may become a checkpoint: it holds nothing, or what a run
/// leaves that ended before its first commit.
fn is_ours(path: &Path) -> Result<bool, CheckpointError> {
    for name in entries(path)? {
        let ours = is_data(&name)
            || name.ends_with(files::STAGED_SUFFIX)
            || name == LOCK
            || name == METRICS;
        if !ours {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Deletes what no version names.
fn sweep(path: &Path, committed: Option<&Manifest>) -> Result<(), CheckpointError> {
    let used: Vec<&str> = committed.into_iter().flat_map(Manifest::files).collect();
    for name in entries(path)? {
        let stale = is_data(&name) && !used.contains(&name.as_str());
        let target = path.join(&name);
        if name.ends_with(files::STAGED_SUFFIX) && target.is_dir() {
            remove_folder(&target)?;
        } else if stale || name.ends_with(files::STAGED_SUFFIX) {
            files::remove(&target)?;
        }
    }
    Ok(())
}

fn is_data(name: &str) -> bool {
    (name.starts_with("embeddings_") || name.starts_with("model.v"))
        && name.ends_with(".safetensors")
}

fn entries(path: &Path) -> Result<Vec<String>, FileError> {
    let refused = |e| FileError::new("list", path, e);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(path).map_err(refused)? {
        names.push(
            entry
                .map_err(refused)?
                .file_name()
                .to_string_lossy()
                .into_owned(),
        );
    }
    Ok(names)
}

fn remove_folder(path: &Path) -> Result<(), FileError> {
    match std::fs::remove_dir_all(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(FileError::new("remove", path, e))
        }
        _ => Ok(()),
    }
}

/// Opens the metrics for appending, cut to what the last commit knew of.
fn open_metrics(path: &Path, committed: u64) -> Result<File, CheckpointError> {
    let path = path.join(METRICS);
    let refused = |e| FileError::new("open", &path, e);
    let options = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(false)
        .open(&path);
    let mut file = options.map_err(refused)?;
    let length = file.metadata().map_err(refused)?.len();
    file.set_len(length.min(committed)).map_err(refused)?;
    file.seek(std::io::SeekFrom::End(0)).map_err(refused)?;
    Ok(file)
}
