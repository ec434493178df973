//! Partitions of a run with several trainers: in the folder, and between checkpoints on partition servers if the run has
//! any.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use pbg_files::{self as files, FileError, FileSummary};
use pbg_ledger::{FileId, LedgerRecord, PartitionFile, PartitionServer, Token};

use super::{SharedCheckpoint, name_of};
use crate::partition_servers::{Lookup, SilentServer};
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
        let on_servers = self
            .servers
            .as_ref()
            .map(|servers| servers.size(&key, &name));
        match on_servers {
            Some(Lookup::Found(size)) if size == file.size => return Ok(None),
            Some(Lookup::Unknown(_)) => return Ok(None),
            _ => {}
        }
        let size = self.folder.size_if_any(&name)?;
        Ok((size != Some(file.size)).then_some(name))
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
        let mut receive = |source, size, path: PathBuf| {
            // A copy that is damaged or disappears is as good as none.
            data.receive(source, size, &path, summary).ok()
        };
        let servers = self.servers.as_ref();
        let silent = match servers.map(|servers| servers.read(&key, &name, &mut receive)) {
            Some(Lookup::Found(())) => return Ok(()),
            Some(Lookup::Unknown(silent)) => Some(silent),
            Some(Lookup::Absent) | None => None,
        };
        match (self.read_rows(&name, data, summary), silent) {
            (Err(CheckpointError::File(error)), Some(silent)) if error.is_not_found() => {
                let SilentServer { address, cause } = silent;
                Err(CheckpointError::SilentServer {
                    address,
                    name,
                    cause,
                })
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
        let listed = servers.list_of(token).map_err(|silent| {
            let SilentServer { address, cause } = silent;
            let name = "partitions of the run".to_owned();
            CheckpointError::SilentServer {
                address,
                name,
                cause,
            }
        })?;
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
        let mut copy = |source: Box<dyn Read + Send>, _: u64, _: PathBuf| {
            let copied = self.copy_in(source, name);
            let copied = copied.map_err(|error| failure = Some(error)).ok()?;
            (copied == summary).then_some(())
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
            Lookup::Unknown(SilentServer { address, cause }) => {
                let name = name.to_owned();
                Err(CheckpointError::SilentServer {
                    address,
                    name,
                    cause,
                })
            }
        }
    }

    /// Writes `source` to the file `name` of the folder, durably. Returns what was written.
    fn copy_in(
        &self,
        mut source: Box<dyn Read + Send>,
        name: &str,
    ) -> Result<FileSummary, FileError> {
        let mut buffer = vec![0; COPY_BYTES];
        let mut next = |out: &mut dyn FnMut(&[u8]) -> Result<(), FileError>| loop {
            let read = source.read(&mut buffer);
            match read.map_err(|e| FileError::new("read", Path::new(name), e))? {
                0 => return Ok(()),
                read => out(&buffer[..read])?,
            }
        };
        if let SharedFolder::Objects(objects) = &*self.folder {
            let mut object = objects.send(name)?;
            next(&mut |bytes| object.put(bytes))?;
            return object.finish();
        }
        let copied = self.files.write_named(name, |path: &Path| {
            let mut file = files::ChecksummedFile::create(path)?;
            next(&mut |bytes| file.put(bytes))?;
            file.finish(false)
        })?;
        self.folder.keep(name)?;
        Ok(copied)
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
