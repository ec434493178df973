//! A checkpoint's folder that several trainers of one run write to.
//!
//! Files are durable when they are named to others. A version is written in three steps: its manifest under a name with
//! its number, which nobody can write twice; then the ledger learns of it; then it replaces `manifest.json`. Who finds
//! the first step done finds the version whole ([`SharedCheckpoint::newest`]).

use std::collections::BTreeSet;
use std::fs::{self, File as OpenFile};
use std::io;
use std::path::Path;
use std::sync::atomic::AtomicU64;

use pbg_core::ledger::{File, FileId, Token};

use super::lock::{Lock, With};
use super::{
    CheckpointError, MANIFEST, Manifest, PartitionData, PartitionFiles, PartitionRows, Tensor,
    TensorRef, Writer, about, names, read, tensors, told,
};
use crate::files::{self, FileError, Summary};

/// The folder, as one trainer sees it. A machine alone cannot open it meanwhile.
#[derive(Debug)]
pub struct SharedCheckpoint {
    files: PartitionFiles,
    pub(super) token: Token,
    _lock: Lock,
}

impl SharedCheckpoint {
    /// Opens the folder `path`, which is made if there is none, for the trainer `token`, and leaves a sign there that it
    /// did.
    ///
    /// # Errors
    /// When a machine alone holds it, or it is damaged or cannot be written.
    pub fn open(path: &Path, token: Token) -> Result<Self, CheckpointError> {
        files::create_folder(path)?;
        let lock = Lock::take(path, With::Trainers)?;
        if read::manifest_if_any(path)?.is_none() {
            names::begin_first(path)?;
        }
        let named = AtomicU64::new(1);
        let opened = Self {
            files: PartitionFiles::new(path, Writer::Trainer { token, named }),
            token,
            _lock: lock,
        };
        opened.sign(token)?;
        Ok(opened)
    }

    /// Leaves the sign of `token`, which has opened this folder, once more: it may have been removed before it took part.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn sign(&self, token: Token) -> Result<(), CheckpointError> {
        Ok(files::mark(&self.path().join(names::presence(token)))?)
    }

    /// Trainers that have left a sign.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn signs(&self) -> Result<Vec<Token>, CheckpointError> {
        let names = names::entries(self.path())?;
        let tokens = names.iter().filter_map(|name| names::parse_presence(name));
        Ok(tokens.collect())
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.files.folder()
    }

    /// Whether `token` has opened this very folder: a folder of the same path that is not shared has no sign of it.
    #[must_use]
    pub fn is_seen_by(&self, token: Token) -> bool {
        fs::exists(self.path().join(names::presence(token))).unwrap_or(false)
    }

    /// Removes the sign of a trainer that takes part no more.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn forget(&self, token: Token) -> Result<(), CheckpointError> {
        Ok(files::remove(&self.path().join(names::presence(token)))?)
    }

    /// The newest complete version; none before the first.
    ///
    /// # Errors
    /// When it is damaged.
    pub fn newest(&self) -> Result<Option<Manifest>, CheckpointError> {
        read::manifest_if_any(self.path())
    }

    /// Writes a partition, durably, for the checkpoint `version`.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn write_partition(
        &self,
        entity_type: &str,
        partition: u32,
        version: u64,
        rows: &PartitionRows<'_>,
    ) -> Result<File, CheckpointError> {
        let key = names::partition(entity_type, partition);
        let metadata = about(entity_type, partition);
        let write = |path: &Path| rows.write(path, &metadata);
        let (name, Summary { size, crc32 }) = self.write(&key, version, write)?;
        let writer = names::parse(&name).and_then(|name| name.writer);
        let id = FileId { version, writer };
        Ok(File { id, size, crc32 })
    }

    /// Writes the parameters, durably, for the checkpoint `version`. Gives the name of the file, and what it is.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn write_model(
        &self,
        version: u64,
        parameters: &[TensorRef<'_>],
    ) -> Result<(String, Summary), CheckpointError> {
        let write = |path: &Path| tensors::write(path, parameters, &[]);
        self.write(names::MODEL, version, write)
    }

    fn write(
        &self,
        key: &str,
        version: u64,
        write: impl FnOnce(&Path) -> Result<Summary, FileError>,
    ) -> Result<(String, Summary), CheckpointError> {
        let (name, summary) = self.files.write(key, version, write)?;
        self.files.sync(&name)?;
        files::sync_folder_of(&self.path().join(&name))?;
        Ok((name, summary))
    }

    /// The name of a partition's file that the ledger names, if it is not there in its size.
    #[must_use]
    pub fn missing(&self, entity_type: &str, partition: u32, file: &File) -> Option<String> {
        let name = name_of(entity_type, partition, file.id);
        let size = files::size(&self.path().join(&name));
        (size.ok() != Some(file.size)).then_some(name)
    }

    /// Reads a partition from a file that the ledger names, into memory that is used again.
    ///
    /// # Errors
    /// When it cannot be read or is not what the ledger says; `data` is meaningless then.
    pub fn read_partition_into(
        &self,
        entity_type: &str,
        partition: u32,
        file: &File,
        data: &mut PartitionData,
    ) -> Result<(), CheckpointError> {
        let name = name_of(entity_type, partition, file.id);
        let &File { size, crc32, .. } = file;
        self.files
            .read_partition(&name, Summary { size, crc32 }, data)
    }

    /// The parameters of a version; none if it has none.
    ///
    /// # Errors
    /// When they cannot be read or are damaged.
    pub fn read_model(&self, manifest: &Manifest) -> Result<Vec<Tensor>, CheckpointError> {
        match manifest.find(names::MODEL) {
            Some((name, summary)) => self.files.read_model(name, summary),
            None => Ok(Vec::new()),
        }
    }

    /// Writes a version's manifest under its number, durably. Its files are durable already.
    ///
    /// # Errors
    /// When there is one of this number, or it cannot be written.
    pub fn publish(&self, manifest: &Manifest) -> Result<(), CheckpointError> {
        let path = self.path().join(names::numbered_manifest(manifest.version));
        let sealed = manifest.seal();
        let sealed = sealed.map_err(|e| CheckpointError::manifest(&path, e))?;
        let staged = self.path().join(names::staged_manifest(self.token));
        let written = files::write(&staged, &sealed).and_then(|()| name(&staged, &path));
        files::remove(&staged)?;
        written?;
        Ok(files::sync_folder_of(&path)?)
    }

    /// Adds what is known only once `manifest` is current to `metrics.jsonl`. It is no part of that version.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn append_metrics(&self, manifest: &Manifest, lines: &[u8]) -> Result<(), CheckpointError> {
        Ok(told::append_metrics(self.path(), manifest, lines)?)
    }

    /// Has a version that was published replace `manifest.json`, unless a newer one has.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn make_current(&self, manifest: &Manifest) -> Result<(), CheckpointError> {
        make_current(self.path(), &names::staged_manifest(self.token), manifest)
    }

    /// Names of the files of partitions and parameters in the folder now.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn list(&self) -> Result<Vec<String>, CheckpointError> {
        let mut names = names::entries(self.path())?;
        names.retain(|name| names::is_ours(name));
        Ok(names)
    }

    /// Removes those of `listed` that `is_garbage` (entity type, partition and name of a partition's file), and old
    /// parameters; what `kept`, the manifest that was just published and the one before it, names stays.
    ///
    /// # Errors
    /// When a file cannot be removed.
    pub fn remove_garbage(
        &self,
        listed: &[String],
        kept: &[&Manifest],
        is_garbage: impl Fn(&str, u32, FileId) -> bool,
    ) -> Result<(), CheckpointError> {
        let newest = kept.iter().map(|manifest| manifest.version).max();
        let named: BTreeSet<&String> = kept.iter().flat_map(|m| m.files.keys()).collect();
        for name in listed.iter().filter(|name| !named.contains(name)) {
            let Some(parsed) = names::parse(name) else {
                continue;
            };
            let (version, writer) = (parsed.version, parsed.writer);
            let goes = match names::parse_partition(name) {
                Some((entity_type, partition)) => {
                    is_garbage(&entity_type, partition, FileId { version, writer })
                }
                None => newest.is_some_and(|newest| version < newest),
            };
            if goes {
                // One that is being read is listed again by the next checkpoint.
                files::remove_unread(&self.path().join(name))?;
            }
        }
        Ok(())
    }
}

/// Has `manifest` replace the one of `folder`, if it is newer; it is written as `staged` before.
pub(super) fn make_current(
    folder: &Path,
    staged: &str,
    manifest: &Manifest,
) -> Result<(), CheckpointError> {
    let path = folder.join(MANIFEST);
    let current = read::manifest_at(&path)?;
    if current.is_some_and(|current| current.version >= manifest.version) {
        return Ok(());
    }
    // The events of the last version are the beginning of those of the new one.
    told::make_current(folder, manifest)?;
    let sealed = manifest.seal();
    let sealed = sealed.map_err(|e| CheckpointError::manifest(&path, e))?;
    let staged = folder.join(staged);
    files::write(&staged, &sealed)?;
    files::rename(&staged, &path)?;
    files::sync_folder_of(&path)?;
    names::end_first(folder)?;
    for name in names::entries(folder)? {
        let version = names::parse_numbered(&name).or(names::parse_metrics(&name));
        if version.is_some_and(|version| version < manifest.version) {
            files::remove(&folder.join(name))?;
        }
    }
    Ok(())
}

/// Name of a partition's file.
#[must_use]
pub(super) fn name_of(entity_type: &str, partition: u32, id: FileId) -> String {
    let key = names::partition(entity_type, partition);
    names::versioned(&key, id.version, id.writer)
}

/// Name and summary of a partition's file as a manifest has them.
#[must_use]
pub fn in_manifest(entity_type: &str, partition: u32, file: &File) -> (String, Summary) {
    let &File { id, size, crc32 } = file;
    (name_of(entity_type, partition, id), Summary { size, crc32 })
}

/// The file of a partition that a manifest names, as the ledger has it.
#[must_use]
pub fn from_manifest(manifest: &Manifest, entity_type: &str, partition: u32) -> Option<File> {
    let (name, Summary { size, crc32 }) =
        manifest.find(&names::partition(entity_type, partition))?;
    let names::Name {
        version, writer, ..
    } = names::parse(name)?;
    let id = FileId { version, writer };
    Some(File { id, size, crc32 })
}

/// Gives the file `staged` the name `path`, unless that is taken: a rename would replace what has it. Folders of some
/// systems have no links; there the name is taken first, and who reads meanwhile finds half a manifest, which counts for
/// nothing.
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
    let made = OpenFile::options().write(true).create_new(true).open(path);
    let mut file = made.map_err(failed)?;
    files::append(&mut file, path, &bytes)?;
    files::sync(path)
}

#[cfg(test)]
mod tests;
