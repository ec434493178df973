//! Partitions of a run with several trainers: in the folder, and between checkpoints on partition servers if the run has
//! any.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use pbg_files::{self as files, FileError, FileSummary};
use pbg_ledger::{FileId, LedgerRecord, PartitionFile, PartitionServer, Token};

use super::{SharedCheckpoint, name_of};
use crate::partition_servers::{CopyUse, Lookup};
use crate::shared_folder::SharedFolder;
use crate::tensors::{TensorOutput as _, partition_metadata};
use crate::{CheckpointError, CheckpointManifest, PartitionData, PartitionRows, names};

/// Size in bytes of the buffer through which files are copied.
const COPY_BYTES: usize = 256 << 10;

impl SharedCheckpoint {
    /// Writes a partition to the folder, durably, for checkpoint version `version`.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write_partition(
        &self,
        entity_type: &str,
        partition: u32,
        version: u64,
        rows: &PartitionRows<'_>,
    ) -> Result<PartitionFile, CheckpointError> {
        let key = names::partition(entity_type, partition);
        let name = self.files.name(&key, version);
        let summary = self.write_rows(&name, entity_type, partition, rows)?;
        Ok(described(&name, version, summary))
    }

    /// Writes a partition to the servers, or durably to the folder if there are none or no server takes it. Returns the
    /// servers as well.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn keep_partition(
        &self,
        entity_type: &str,
        partition: u32,
        version: u64,
        rows: &PartitionRows<'_>,
    ) -> Result<(PartitionFile, BTreeSet<Token>), CheckpointError> {
        let key = names::partition(entity_type, partition);
        let name = self.files.name(&key, version);
        let metadata = partition_metadata(entity_type, partition);
        let kept = match &self.servers {
            Some(servers) => servers.write(&key, &name, &|object| rows.put(object, &metadata)),
            None => None,
        };
        let (summary, servers) = match kept {
            Some(kept) => kept,
            None => {
                let summary = self.write_rows(&name, entity_type, partition, rows)?;
                (summary, BTreeSet::new())
            }
        };
        Ok((described(&name, version, summary), servers))
    }

    /// Writes the file `name` of a partition to the folder, durably.
    fn write_rows(
        &self,
        name: &str,
        entity_type: &str,
        partition: u32,
        rows: &PartitionRows<'_>,
    ) -> Result<FileSummary, CheckpointError> {
        let metadata = partition_metadata(entity_type, partition);
        if let SharedFolder::Objects(objects) = &*self.folder {
            let mut object = objects.send(name)?;
            rows.put(&mut object, &metadata)?;
            return Ok(object.finish()?);
        }
        let write = |path: &Path| rows.write(path, &metadata);
        let summary = self.files.write_named(name, write)?;
        self.folder.keep(name)?;
        Ok(summary)
    }

    /// Returns the name of a partition's file if it is missing or does not have the size that the ledger records. A file
    /// that may be on a server that does not answer is not missing.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn missing(
        &self,
        entity_type: &str,
        partition: u32,
        file: &PartitionFile,
    ) -> Result<Option<String>, CheckpointError> {
        let (key, name) = key_and_name(entity_type, partition, file.id);
        if self.folder.size_if_any(&name)? == Some(file.size) {
            return Ok(None);
        }
        let servers = self.servers.as_ref();
        Ok(match servers.map(|servers| servers.size(&key, &name)) {
            Some(Lookup::Found(size)) if size == file.size => None,
            Some(Lookup::Unknown(_)) => None,
            _ => Some(name),
        })
    }

    /// Reads a partition from a file that the ledger names into `data`, whose memory is reused.
    ///
    /// # Errors
    /// When the file cannot be read or does not match the ledger; `data` is meaningless then.
    pub fn read_partition_into(
        &self,
        entity_type: &str,
        partition: u32,
        file: &PartitionFile,
        data: &mut PartitionData,
    ) -> Result<(), CheckpointError> {
        let (key, name) = key_and_name(entity_type, partition, file.id);
        let &PartitionFile { size, crc32, .. } = file;
        let summary = FileSummary { size, crc32 };
        let mut receive =
            |source, size, path: PathBuf| match data.receive(source, size, &path, summary) {
                Ok(()) => CopyUse::Done(()),
                Err(CheckpointError::File(error)) => CopyUse::Failed(error.cause),
                Err(_) => CopyUse::Damaged,
            };
        let servers = self.servers.as_ref();
        let silent = match servers.map(|servers| servers.read(&key, &name, &mut receive)) {
            Some(Lookup::Found(())) => return Ok(()),
            Some(Lookup::Unknown(silent)) => Some(silent),
            Some(Lookup::Absent) | None => None,
        };
        match (self.read_rows(&name, data, summary), silent) {
            (Err(CheckpointError::File(error)), Some(silent)) if error.is_not_found() => {
                Err(silent.with(&name))
            }
            (read, _) => read,
        }
    }

    /// Reads the file `name` of a partition from the folder.
    fn read_rows(
        &self,
        name: &str,
        data: &mut PartitionData,
        summary: FileSummary,
    ) -> Result<(), CheckpointError> {
        let path = self.path().join(name);
        match &*self.folder {
            SharedFolder::Files(_) => data.read(&self.folder.open_file(name)?, &path, summary),
            SharedFolder::Objects(objects) => {
                let (source, size) = objects.receive(name)?;
                data.receive(source, size, &path, summary)
            }
        }
    }

    /// Copies the partitions of a version that are only on servers to the folder, durably.
    ///
    /// # Errors
    /// When one is on no server that answers, or the folder cannot be written.
    pub fn store_partitions(&self, manifest: &CheckpointManifest) -> Result<(), CheckpointError> {
        for (name, summary) in &manifest.files {
            if let Some((entity_type, partition)) = names::parse_partition(name) {
                let key = names::partition(&entity_type, partition);
                self.store(&key, name, *summary)?;
            }
        }
        Ok(())
    }

    /// Copies the files of the server `token` that `record` names to the folder, before the server ends.
    ///
    /// # Errors
    /// When the server does not answer, or the folder cannot be written.
    pub fn store_files_of(
        &self,
        token: Token,
        record: &LedgerRecord,
    ) -> Result<(), CheckpointError> {
        let Some(servers) = &self.servers else {
            return Ok(());
        };
        let listed = servers.list_of(token);
        let listed = listed.map_err(|silent| silent.with("partitions of the run"))?;
        let grid = record.grid();
        for group in grid.groups() {
            let files = record
                .partition(group)
                .map_or(&[][..], |found| &found.files);
            for (file, table) in files.iter().zip(&grid.tables[group.0 as usize]) {
                let (key, name) = key_and_name(table, group.1, file.id);
                if listed.contains(&name) {
                    let &PartitionFile { size, crc32, .. } = file;
                    self.store(&key, &name, FileSummary { size, crc32 })?;
                }
            }
        }
        Ok(())
    }

    /// Copies a file from a server to the folder, durably, unless it is there.
    fn store(&self, key: &str, name: &str, summary: FileSummary) -> Result<(), CheckpointError> {
        let Some(servers) = &self.servers else {
            return Ok(());
        };
        if self.folder.size_if_any(name)? == Some(summary.size) {
            return Ok(());
        }
        let mut failure = None;
        let mut copy = |source: Box<dyn Read + Send>, _: u64, _: PathBuf| match self
            .copy_in(source, key, name, summary)
        {
            Ok(true) => CopyUse::Done(()),
            Ok(false) => CopyUse::Damaged,
            Err(CopyFailure::Source(cause)) => CopyUse::Failed(cause),
            Err(CopyFailure::Folder(error)) => {
                failure = Some(error);
                CopyUse::Useless
            }
        };
        let looked = servers.read(key, name, &mut copy);
        if let Some(failure) = failure {
            return Err(failure.into());
        }
        match looked {
            Lookup::Found(()) => Ok(()),
            Lookup::Absent => {
                let path = self.path().join(name);
                Err(FileError::new("open", &path, io::ErrorKind::NotFound.into()).into())
            }
            Lookup::Unknown(silent) => Err(silent.with(name)),
        }
    }

    /// Writes `source` to the file `name` of the folder, durably, if it has the content that `expected` describes. Returns
    /// whether it has.
    fn copy_in(
        &self,
        mut source: Box<dyn Read + Send>,
        key: &str,
        name: &str,
        expected: FileSummary,
    ) -> Result<bool, CopyFailure> {
        if let SharedFolder::Objects(objects) = &*self.folder {
            let mut object = objects.send(name)?;
            pump(&mut source, &mut |bytes| object.put(bytes))?;
            let is_whole = object.summary() == expected;
            if is_whole {
                object.finish()?;
            }
            return Ok(is_whole);
        }
        // Others may copy the same file at the same time, so it is first written under a name of this trainer.
        let version = names::parse(name).map_or(0, |parsed| parsed.version);
        let folder = self.files.folder();
        let staged = files::staged_name(&folder.join(self.files.name(key, version)));
        let written = self.copy_to(&mut source, &staged, expected);
        match written {
            Ok(true) => {
                files::rename(&staged, &folder.join(name))?;
                self.folder.keep(name)?;
            }
            _ => files::remove(&staged)?,
        }
        written
    }

    fn copy_to(
        &self,
        source: &mut dyn Read,
        path: &Path,
        expected: FileSummary,
    ) -> Result<bool, CopyFailure> {
        let mut file = files::ChecksummedFile::create(path)?;
        pump(source, &mut |bytes| file.put(bytes))?;
        Ok(file.finish(false)? == expected)
    }

    /// Whether the folder has the file `name`.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn has_file(&self, name: &str) -> Result<bool, CheckpointError> {
        Ok(self.folder.size_if_any(name)?.is_some())
    }

    /// Uses the servers that the newest record names.
    pub fn use_servers(&self, named: &BTreeMap<Token, PartitionServer>) {
        if let Some(servers) = &self.servers {
            servers.update(named);
        }
    }

    /// Removes a partition's file from the servers; the folder may still have it.
    pub fn drop_from_servers(&self, entity_type: &str, partition: u32, id: FileId) {
        if let Some(servers) = &self.servers {
            servers.remove(&name_of(entity_type, partition, id));
        }
    }
}

/// Returns the description of a partition's file for the ledger.
fn described(name: &str, version: u64, summary: FileSummary) -> PartitionFile {
    let writer = names::parse(name).and_then(|name| name.writer);
    let FileSummary { size, crc32 } = summary;
    let id = FileId { version, writer };
    PartitionFile { id, size, crc32 }
}

/// Returns the key of a partition, and the name of its file.
fn key_and_name(entity_type: &str, partition: u32, id: FileId) -> (String, String) {
    let key = names::partition(entity_type, partition);
    (key, name_of(entity_type, partition, id))
}

/// Reason for which a file is not copied.
enum CopyFailure {
    /// It did not arrive.
    Source(io::Error),
    /// It could not be written.
    Folder(FileError),
}

impl From<FileError> for CopyFailure {
    fn from(error: FileError) -> Self {
        Self::Folder(error)
    }
}

/// Passes all bytes of `source` to `put`.
fn pump(
    source: &mut dyn Read,
    put: &mut dyn FnMut(&[u8]) -> Result<(), FileError>,
) -> Result<(), CopyFailure> {
    let mut buffer = vec![0; COPY_BYTES];
    loop {
        match source.read(&mut buffer) {
            Ok(0) => return Ok(()),
            Ok(read) => put(&buffer[..read])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(CopyFailure::Source(error)),
        }
    }
}
