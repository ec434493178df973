//! `metrics.jsonl`: the events of a run, one JSON object per line.

use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::CheckpointError;
use pbg_files::{self as files, FileError};

pub(super) const NAME: &str = "metrics.jsonl";

#[derive(Debug)]
pub(super) struct Metrics {
    path: PathBuf,
    file: File,
    length: u64,
}

impl Metrics {
    /// Opens the file and truncates it to `committed` bytes: the lines after them describe training that a crash undid.
    /// A file that is shorter than that is accepted.
    pub(super) fn open(folder: &Path, committed: u64) -> Result<Self, FileError> {
        let path = folder.join(NAME);
        let failed = |operation, e| FileError::new(operation, &path, e);
        // Opening a pipe would block.
        match files::size(&path) {
            Err(error) if !error.is_not_found() => return Err(error),
            _ => {}
        }
        let file = OpenOptions::new().append(true).create(true).open(&path);
        let file = file.map_err(|e| failed("open", e))?;
        let length = file
            .metadata()
            .map_err(|e| failed("open", e))?
            .len()
            .min(committed);
        file.set_len(length).map_err(|e| failed("truncate", e))?;
        Ok(Self { path, file, length })
    }

    pub(super) fn append(&mut self, event: &impl Serialize) -> Result<(), CheckpointError> {
        let line = serde_json::to_vec(event);
        let mut line = line.map_err(|e| CheckpointError::manifest(&self.path, e))?;
        line.push(b'\n');
        files::append(&mut self.file, &self.path, &line)?;
        self.length += line.len() as u64;
        Ok(())
    }

    /// Returns the length of all lines in bytes.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Syncs all lines to disk.
    pub(super) fn sync(&self) -> Result<(), FileError> {
        files::sync(&self.path)
    }
}
