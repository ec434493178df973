//! `metrics.jsonl`: the events of a run, one JSON object per line.

use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use pbg_ledger::CutOrigin;
use serde::Serialize;

use super::shared_folder::SharedFolder;
use super::{CheckpointError, CheckpointManifest, names};
use pbg_files::{self as files, ChecksummedFile, FileError};

pub(super) const NAME: &str = "metrics.jsonl";

/// Size of the copy buffer, in bytes.
const PIECE: usize = 256 << 10;

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
        let metadata = file.metadata().map_err(|e| failed("open", e))?;
        let length = metadata.len().min(committed);
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

/// Appends lines to `metrics.jsonl` after those that belong to `manifest`, unless other lines follow those already. The
/// next version contains these lines itself; a single trainer that resumes truncates them, like its own uncommitted
/// lines.
pub(super) fn append_metrics(
    folder: &Path,
    manifest: &CheckpointManifest,
    lines: &[u8],
) -> Result<(), FileError> {
    let path = folder.join(NAME);
    let failed = |e| FileError::new("open", &path, e);
    let mut file = match OpenOptions::new().append(true).open(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        opened => opened.map_err(failed)?,
    };
    if file.metadata().map_err(failed)?.len() != manifest.metrics_length {
        return Ok(());
    }
    files::append(&mut file, &path, lines)
}

/// Copies the metrics lines that belong to a version.
pub(super) fn copy_metrics(
    folder: &SharedFolder,
    manifest: &CheckpointManifest,
    to: &mut ChecksummedFile,
) -> Result<(), FileError> {
    let staged = match staged(manifest) {
        Some(name) => folder.size_if_any(&name)?.map(|_| name),
        None => None,
    };
    let name = staged.as_deref().unwrap_or(NAME);
    let path = folder.path().join(name);
    let mut file = match folder.open_file(name) {
        Ok(file) => file.take(manifest.metrics_length),
        Err(error) if error.is_not_found() => return Ok(()),
        Err(error) => return Err(error),
    };
    let mut piece = vec![0; PIECE];
    loop {
        let read = file.read(&mut piece);
        match read.map_err(|e| FileError::new("read", &path, e))? {
            0 => return Ok(()),
            read => to.put(&piece[..read])?,
        }
    }
}

/// Replaces the metrics of the last version with those of `manifest`.
pub(super) fn make_current(folder: &Path, manifest: &CheckpointManifest) -> Result<(), FileError> {
    let Some(staged) = staged(manifest).map(|name| folder.join(name)) else {
        return Ok(());
    };
    // Another trainer may have done so already.
    match files::rename(&staged, &folder.join(NAME)) {
        Err(error) if error.is_not_found() => Ok(()),
        renamed => renamed,
    }
}

/// Returns the temporary name of a version's metrics file; `None` for a version that a single trainer wrote.
pub(super) fn staged(manifest: &CheckpointManifest) -> Option<String> {
    let CutOrigin { token, .. } = manifest.cut?.begun?;
    Some(names::metrics_of(manifest.version, token))
}
