//! Checkpoint folder that several trainers of one run write to, in a file system or in an object store.
//!
//! Files are durable before the ledger or a manifest names them. A version is published in three steps: a manifest is
//! created under a name with the version's number, which fails if it exists; the ledger records it; it replaces
//! `manifest.json`. After the first step the version is complete, and [`SharedCheckpoint::newest`] finds it.

mod objects;
mod partitions;

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use pbg_ledger::{FileId, PartitionFile, Token};

use super::event_log::EventReader;
use super::lock::{CheckpointLock, LockMode};
use super::partition_servers::PartitionServers;
use super::shared_folder::SharedFolder;
use super::{
    CheckpointError, CheckpointManifest, FolderWriter, MANIFEST, PartitionFiles, Tensor, TensorRef,
    first_commit, metrics, names, read, tensors,
};
use pbg_files::{self as files, FileError, FileSummary, STAGED_SUFFIX};

/// Shared checkpoint folder, as seen by one trainer. A single trainer cannot open the folder at the same time.
#[derive(Debug)]
pub struct SharedCheckpoint {
    files: PartitionFiles,
    pub(super) folder: Arc<SharedFolder>,
    pub(super) token: Token,
    /// Servers that keep partitions between checkpoints; `None` if they are kept in the folder.
    servers: Option<Arc<PartitionServers>>,
    /// Bytes of events that this trainer has written to an object store.
    pub(super) told: AtomicU64,
    _lock: Option<CheckpointLock>,
}

impl SharedCheckpoint {
    /// Opens the folder `path`, creating it if necessary, for the trainer `token`, and creates the trainer's presence
    /// file in it.
    ///
    /// # Errors
    /// When a single trainer holds the folder, or the checkpoint is damaged or cannot be written.
    pub fn open(path: &Path, token: Token) -> Result<Self, CheckpointError> {
        let folder = SharedFolder::open(path)?;
        let lock = match &folder {
            SharedFolder::Files(path) => {
                let lock = CheckpointLock::take(path, LockMode::Shared)?;
                if read::manifest_if_any(path)?.is_none() {
                    first_commit::mark_uncommitted(path)?;
                }
                Some(lock)
            }
            // The ledger keeps other trainers out.
            SharedFolder::Objects(_) => None,
        };
        let named = AtomicU64::new(1);
        let opened = Self {
            files: PartitionFiles::new(folder.local(), FolderWriter::Trainer { token, named }),
            folder: Arc::new(folder),
            token,
            servers: None,
            told: AtomicU64::new(0),
            _lock: lock,
        };
        opened.create_presence(token)?;
        Ok(opened)
    }

    /// Keeps partitions on `servers` between checkpoints.
    #[must_use]
    pub fn with_servers(mut self, servers: Option<Arc<PartitionServers>>) -> Self {
        self.servers = servers;
        self
    }

    /// Creates the presence file of `token` again. It may have been removed before the trainer joined the run.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn create_presence(&self, token: Token) -> Result<(), CheckpointError> {
        Ok(self.folder.mark(&names::presence(token))?)
    }

    /// Returns the tokens of all trainers that have a presence file.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn present_trainers(&self) -> Result<Vec<Token>, CheckpointError> {
        let names = self.folder.names()?;
        let tokens = names.iter().filter_map(|name| names::parse_presence(name));
        Ok(tokens.collect())
    }

    /// Returns the path or the URL of the folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Returns whether `token` has opened this same folder. A folder of the same path on a disk that is not shared
    /// lacks its presence file.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn has_presence(&self, token: Token) -> Result<bool, CheckpointError> {
        let size = self.folder.size_if_any(&names::presence(token))?;
        Ok(size.is_some())
    }

    /// Removes the presence file of a trainer that has left the run.
    ///
    /// # Errors
    /// When the file cannot be removed.
    pub fn remove_presence(&self, token: Token) -> Result<(), CheckpointError> {
        Ok(self.folder.remove(&names::presence(token))?)
    }

    /// Returns the newest complete version; `None` before the first.
    ///
    /// # Errors
    /// When the manifest is damaged.
    pub fn newest(&self) -> Result<Option<CheckpointManifest>, CheckpointError> {
        match &*self.folder {
            SharedFolder::Files(path) => read::manifest_if_any(path),
            SharedFolder::Objects(objects) => objects.newest(),
        }
    }

    /// Writes the model parameters, durably, for checkpoint version `version`. Returns name and summary of the file.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write_model(
        &self,
        version: u64,
        parameters: &[TensorRef<'_>],
    ) -> Result<(String, FileSummary), CheckpointError> {
        let write = |path: &Path| tensors::write(path, parameters, &[]);
        self.write(names::MODEL, version, write)
    }

    fn write(
        &self,
        key: &str,
        version: u64,
        write: impl FnOnce(&Path) -> Result<FileSummary, FileError>,
    ) -> Result<(String, FileSummary), CheckpointError> {
        let (name, summary) = self.files.write(key, version, write)?;
        self.folder.keep(&name)?;
        Ok((name, summary))
    }

    /// Reads the model parameters of a version, which have at most `most` bytes; empty if it has none.
    ///
    /// # Errors
    /// When the file is larger, cannot be read or is damaged.
    pub fn read_model(
        &self,
        manifest: &CheckpointManifest,
        most: u64,
    ) -> Result<Vec<Tensor>, CheckpointError> {
        let Some((name, summary)) = manifest.find(names::MODEL) else {
            return Ok(Vec::new());
        };
        let path = self.path().join(name);
        if summary.size > most {
            let size = summary.size;
            let what =
                format!("it has {size} bytes, but parameters of this run have at most {most}");
            return Err(CheckpointError::damaged(&path, what));
        }
        tensors::read(&self.folder.open_file(name)?, &path, summary)
    }

    /// Writes a version's manifest under its number, durably. The version's files must already be durable.
    ///
    /// # Errors
    /// When a manifest of this number exists, or it cannot be written.
    pub fn publish(&self, manifest: &CheckpointManifest) -> Result<(), CheckpointError> {
        let path = match &*self.folder {
            SharedFolder::Files(folder) => folder.join(names::numbered_manifest(manifest.version)),
            SharedFolder::Objects(objects) => return objects.publish(manifest),
        };
        let sealed = manifest.seal(&path)?;
        let staged = self.path().join(names::staged_manifest(self.token));
        let written = files::write(&staged, &sealed).and_then(|()| name(&staged, &path));
        files::remove(&staged)?;
        written?;
        Ok(files::sync_folder_of(&path)?)
    }

    /// Opens `metrics.jsonl`, the events that checkpoints have merged.
    ///
    /// # Errors
    /// When the file is missing or cannot be read.
    pub fn read_metrics(&self) -> Result<EventReader, FileError> {
        let file: Box<dyn Read + Send> = Box::new(self.folder.open_file(metrics::NAME)?);
        let path = self.path().join(metrics::NAME);
        Ok(EventReader::new(path, Some(BufReader::new(file)), 0))
    }

    /// Appends lines that are known only after `manifest` became current to `metrics.jsonl`. They are not part of that
    /// version.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn append_metrics(
        &self,
        manifest: &CheckpointManifest,
        lines: &[u8],
    ) -> Result<(), CheckpointError> {
        match &*self.folder {
            SharedFolder::Files(path) => Ok(metrics::append_metrics(path, manifest, lines)?),
            SharedFolder::Objects(objects) => objects.append_metrics(manifest, lines),
        }
    }

    /// Replaces `manifest.json` with a published version, unless it already is as new or newer.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn make_current(&self, manifest: &CheckpointManifest) -> Result<(), CheckpointError> {
        match &*self.folder {
            SharedFolder::Files(path) => {
                make_current(path, &names::staged_manifest(self.token), manifest)
            }
            SharedFolder::Objects(objects) => objects.make_current(manifest),
        }
    }

    /// Returns the names of the partition and parameter files that are in the folder or on a server now, and of
    /// incomplete files.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn list(&self) -> Result<Vec<String>, CheckpointError> {
        let mut names = self.folder.names()?;
        names.extend(self.servers.iter().flat_map(|servers| servers.list()));
        names.sort_unstable();
        names.dedup();
        let is_own = |name: &str| {
            names::parse(complete_name(name)).is_some() || names::staged_by(name).is_some()
        };
        names.retain(|name| is_own(name));
        Ok(names)
    }

    /// Removes the partition files of `listed` for which `is_garbage` (entity type, partition, file id) is true, and
    /// old parameter files. Files that a manifest in `kept` names are not removed. Incomplete manifests are removed if
    /// their writer `is_gone`.
    ///
    /// # Errors
    /// When a file cannot be removed.
    pub fn remove_garbage(
        &self,
        listed: &[String],
        kept: &[&CheckpointManifest],
        is_garbage: impl Fn(&str, u32, FileId) -> bool,
        is_gone: impl Fn(Token) -> bool,
    ) -> Result<(), CheckpointError> {
        let newest = kept.iter().map(|manifest| manifest.version).max();
        let named: BTreeSet<&String> = kept.iter().flat_map(|m| m.files.keys()).collect();
        for name in listed.iter().filter(|name| !named.contains(name)) {
            if names::staged_by(name).is_some_and(&is_gone) {
                self.folder.remove(name)?;
            }
            let name_when_complete = complete_name(name);
            let Some(parsed) = names::parse(name_when_complete) else {
                continue;
            };
            let goes = match names::parse_partition(name_when_complete) {
                Some((entity_type, partition)) => is_garbage(&entity_type, partition, parsed.id()),
                // Attempts at one version that failed are of its number.
                None => newest.is_some_and(|newest| parsed.version <= newest),
            };
            if goes {
                // A file that is being read is listed again by the next checkpoint.
                self.folder.remove_unless_read(name)?;
                if let Some(servers) = &self.servers {
                    servers.remove(name);
                }
            }
        }
        Ok(())
    }
}

/// Replaces the manifest of `folder` with `manifest`, if it is newer. It is first written under the name `staged`.
pub(super) fn make_current(
    folder: &Path,
    staged: &str,
    manifest: &CheckpointManifest,
) -> Result<(), CheckpointError> {
    let path = folder.join(MANIFEST);
    let current = read::manifest_at(&path)?;
    if current.is_some_and(|current| current.version >= manifest.version) {
        return Ok(());
    }
    // The metrics of the new version begin with those of the last.
    metrics::make_current(folder, manifest)?;
    let staged = folder.join(staged);
    files::write(&staged, &manifest.seal(&path)?)?;
    files::rename(&staged, &path)?;
    files::sync_folder_of(&path)?;
    first_commit::unmark_uncommitted(folder)?;
    for name in names::entries(folder)? {
        let version = names::parse_numbered(&name).or(names::parse_metrics(&name));
        if version.is_some_and(|version| version < manifest.version) {
            files::remove(&folder.join(name))?;
        }
    }
    Ok(())
}

/// Returns the name that a file gets when it is complete.
fn complete_name(name: &str) -> &str {
    name.strip_suffix(STAGED_SUFFIX).unwrap_or(name)
}

/// Returns the name of a partition's file.
#[must_use]
pub(super) fn name_of(entity_type: &str, partition: u32, id: FileId) -> String {
    let key = names::partition(entity_type, partition);
    names::versioned(&key, id.version, id.writer)
}

/// Returns the name and summary of a partition's file, as a manifest records them.
#[must_use]
pub fn manifest_entry(
    entity_type: &str,
    partition: u32,
    file: &PartitionFile,
) -> (String, FileSummary) {
    let &PartitionFile { id, size, crc32 } = file;
    let name = name_of(entity_type, partition, id);
    (name, FileSummary { size, crc32 })
}

/// Returns the file of a partition in a manifest, as the ledger describes it.
#[must_use]
pub fn ledger_file(
    manifest: &CheckpointManifest,
    entity_type: &str,
    partition: u32,
) -> Option<PartitionFile> {
    let key = names::partition(entity_type, partition);
    let (name, FileSummary { size, crc32 }) = manifest.find(&key)?;
    let id = names::parse(name)?.id();
    Some(PartitionFile { id, size, crc32 })
}

/// Gives the file `staged` the name `path`, or fails if `path` exists; a rename would replace it. Some file systems
/// have no hard links. There, `path` is created and then filled, so a reader may see half a manifest, which it ignores.
fn name(staged: &Path, path: &Path) -> Result<(), FileError> {
    let failed = |e| FileError::new("create", path, e);
    match fs::hard_link(staged, path) {
        Err(error) if has_no_links(&error) => copy_to_new(staged, path),
        linked => linked.map_err(failed),
    }
}

fn has_no_links(error: &io::Error) -> bool {
    use io::ErrorKind::{PermissionDenied, TooManyLinks, Unsupported};
    matches!(error.kind(), PermissionDenied | TooManyLinks | Unsupported)
}

fn copy_to_new(staged: &Path, path: &Path) -> Result<(), FileError> {
    let failed = |e| FileError::new("create", path, e);
    let bytes = fs::read(staged).map_err(failed)?;
    let made = fs::File::options().write(true).create_new(true).open(path);
    let mut file = made.map_err(failed)?;
    files::append(&mut file, path, &bytes)?;
    files::sync(path)
}

#[cfg(test)]
mod tests;
