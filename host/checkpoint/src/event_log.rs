//! Event files of trainers, one per trainer, and their merge into `metrics.jsonl` by a checkpoint.
//!
//! The ledger records how many bytes of each file are valid. A checkpoint writes a new `metrics.jsonl` under a
//! temporary name: the content of the last version, followed by the events recorded since. It replaces the old file
//! together with the manifest.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;

use pbg_ledger::{CheckpointCut, Token};

use super::shared::SharedCheckpoint;
use super::shared_folder::SharedFolder;
use super::{CheckpointError, CheckpointManifest, metrics, names};
use pbg_files::{self as files, ChecksummedFile, FileError};

impl SharedCheckpoint {
    /// Appends lines to this trainer's event file, durably. Returns the new length of the file in bytes.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn append_events(&self, lines: &[u8]) -> Result<u64, CheckpointError> {
        let path = match &*self.folder {
            SharedFolder::Files(folder) => folder.join(names::events(self.token)),
            SharedFolder::Objects(objects) => {
                return objects.append_events(self.token, &self.told, lines);
            }
        };
        let failed = |e| FileError::new("open", &path, e);
        let file = OpenOptions::new().append(true).create(true).open(&path);
        let mut file = file.map_err(failed)?;
        let before = file.metadata().map_err(failed)?.len();
        if !lines.is_empty() {
            files::append(&mut file, &path, lines)?;
            files::sync(&path)?;
            if before == 0 {
                files::sync_folder_of(&path)?;
            }
        }
        Ok(before + lines.len() as u64)
    }

    /// Returns an iterator over the lines in bytes `from..to` of the event file of `token`. A shorter file yields what
    /// it has.
    ///
    /// # Errors
    /// When the file exists and cannot be read.
    pub fn read_events(
        &self,
        token: Token,
        from: u64,
        to: u64,
    ) -> Result<EventReader, CheckpointError> {
        let path = match &*self.folder {
            SharedFolder::Files(folder) => folder.join(names::events(token)),
            SharedFolder::Objects(objects) => return objects.read_events(token, from, to),
        };
        let length = match files::size(&path) {
            Ok(length) => length.min(to),
            Err(error) if error.is_not_found() => 0,
            Err(error) => return Err(error.into()),
        };
        let mut source = None;
        if length > from {
            let mut file = files::open(&path)?;
            let sought = file.seek(SeekFrom::Start(from));
            sought.map_err(|e| FileError::new("read", &path, e))?;
            let range: Box<dyn std::io::Read + Send> = Box::new(file.take(length - from));
            source = Some(BufReader::new(range));
        }
        let lost = to.saturating_sub(length.max(from));
        Ok(EventReader::new(path, source, lost))
    }

    /// Returns the tokens of all trainers that have an event file in the folder.
    ///
    /// # Errors
    /// When the folder cannot be read.
    pub fn event_writers(&self) -> Result<Vec<Token>, CheckpointError> {
        let names = self.folder.names()?;
        let whole = names.iter().filter_map(|name| names::parse_events(name));
        let parts = names
            .iter()
            .filter_map(|name| names::parse_event_part(name));
        let tokens: BTreeSet<Token> = whole.chain(parts.map(|(token, _)| token)).collect();
        Ok(tokens.into_iter().collect())
    }

    /// Removes events that the metrics of a version contain: those before the bytes `told` of each trainer. An event
    /// file keeps them until it is removed as a whole.
    ///
    /// # Errors
    /// When an object cannot be removed.
    pub fn trim_events(&self, told: &BTreeMap<Token, u64>) -> Result<(), CheckpointError> {
        match &*self.folder {
            SharedFolder::Files(_) => Ok(()),
            SharedFolder::Objects(objects) => objects.trim_events(told),
        }
    }

    /// Removes the event file of a trainer that has left, once a checkpoint contains its events.
    ///
    /// # Errors
    /// When the file cannot be removed.
    pub fn remove_events(&self, token: Token) -> Result<(), CheckpointError> {
        match &*self.folder {
            SharedFolder::Files(folder) => Ok(files::remove(&folder.join(names::events(token)))?),
            SharedFolder::Objects(objects) => objects.remove_events(token),
        }
    }

    /// Creates `metrics.jsonl` of the version `cut`, starting with a copy of that of `before`.
    ///
    /// # Errors
    /// When a file cannot be read or written.
    pub fn begin_metrics(
        &self,
        cut: CheckpointCut,
        before: Option<&CheckpointManifest>,
    ) -> Result<MetricsWriter, CheckpointError> {
        let folder = Arc::clone(&self.folder);
        let name = names::metrics_of(cut.version, self.token);
        let mut file = ChecksummedFile::create(&folder.local().join(&name))?;
        if let Some(before) = before {
            metrics::copy_metrics(&folder, before, &mut file)?;
        }
        Ok(MetricsWriter { folder, name, file })
    }
}

/// Greatest length of a line in bytes. A longer one is not of a trainer, and is not kept in memory.
const MAX_LINE: u64 = 1 << 20;

/// Reader of a range of a trainer's event file, line by line.
pub struct EventReader {
    path: PathBuf,
    source: Option<EventSource>,
    line: Vec<u8>,
    lost: u64,
}

/// Open event file or its parts, of which a range of bytes is read.
pub(super) type EventSource = BufReader<Box<dyn std::io::Read + Send>>;

impl EventReader {
    /// Creates the reader of `source`, which lacks `lost` of the requested bytes.
    pub(super) fn new(path: PathBuf, source: Option<EventSource>, lost: u64) -> Self {
        let line = Vec::new();
        Self {
            path,
            source,
            line,
            lost,
        }
    }

    /// Returns the next line with its line feed; `None` after the last complete line. Lines that are too long are left
    /// out.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn next_line(&mut self) -> Result<Option<&[u8]>, CheckpointError> {
        loop {
            let Some(source) = &mut self.source else {
                return Ok(None);
            };
            let failed = |e| FileError::new("read", &self.path, e);
            self.line.clear();
            let mut limited = source.take(MAX_LINE);
            let read = limited.read_until(b'\n', &mut self.line);
            let read = read.map_err(failed)? as u64;
            match self.line.last() {
                Some(b'\n') => return Ok(Some(&self.line)),
                Some(_) if read == MAX_LINE => {
                    let rest = source.skip_until(b'\n').map_err(failed)?;
                    self.lost += read + rest as u64;
                }
                Some(_) => {
                    self.lost += read;
                    self.source = None;
                }
                None => return Ok(None),
            }
        }
    }

    /// Returns the number of requested bytes that the trainer's file does not contain as complete lines.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

/// New `metrics.jsonl` of a version that is being committed.
#[derive(Debug)]
pub struct MetricsWriter {
    folder: Arc<SharedFolder>,
    name: String,
    file: ChecksummedFile,
}

impl MetricsWriter {
    /// Appends lines.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn put(&mut self, lines: &[u8]) -> Result<(), CheckpointError> {
        Ok(self.file.put(lines)?)
    }

    /// Makes the file durable. Returns its length in bytes.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn finish(self) -> Result<u64, CheckpointError> {
        let summary = self.file.finish(true)?;
        self.folder.keep(&self.name)?;
        Ok(summary.size)
    }
}
