//! What several trainers tell, each in a file of its own, and what a checkpoint takes over of it into `metrics.jsonl`.
//!
//! The ledger says how far each file counts. A checkpoint writes `metrics.jsonl` anew, as the last version left it and
//! with what was told since behind it, under a name of its own; it replaces the last one together with the manifest.

use std::fs::{self, OpenOptions};
use std::io::{self, Read as _};
use std::path::Path;

use pbg_core::ledger::{Begun, Cut, Token};

use super::shared::SharedCheckpoint;
use super::{CheckpointError, Manifest, metrics, names};
use crate::files::{self, FileError};

/// Most bytes that are taken over from one file at once. What a trainer tells of a bucket are some hundred.
const MOST: u64 = 64 << 20;

impl SharedCheckpoint {
    /// Adds lines to this trainer's file of events, durably. Gives how long it is then.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn tell(&self, lines: &[u8]) -> Result<u64, CheckpointError> {
        let path = self.path().join(names::events(self.token));
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

    /// The lines in bytes `from..to` of the file of events of `token`. Lines that are not there are lost to reports, and
    /// to nothing else.
    ///
    /// # Errors
    /// When the file is there and cannot be read.
    pub fn told(&self, token: Token, from: u64, to: u64) -> Result<Vec<u8>, CheckpointError> {
        let path = self.path().join(names::events(token));
        let length = match files::size(&path) {
            Ok(length) => length.min(to),
            Err(error) if error.is_not_found() => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let count = length.saturating_sub(from).min(MOST);
        let mut lines = vec![0; count as usize];
        files::read_exact_at(&files::open(&path)?, &path, &mut lines, from)?;
        let whole = lines.iter().rposition(|byte| *byte == b'\n');
        lines.truncate(whole.map_or(0, |at| at + 1));
        Ok(lines)
    }

    /// Trainers whose files of events are in the folder.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn tellers(&self) -> Result<Vec<Token>, CheckpointError> {
        let names = names::entries(self.path())?;
        let tokens = names.iter().filter_map(|name| names::parse_events(name));
        Ok(tokens.collect())
    }

    /// Removes the file of events of a trainer that is gone, once a checkpoint has what it told.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn forget_told(&self, token: Token) -> Result<(), CheckpointError> {
        Ok(files::remove(&self.path().join(names::events(token)))?)
    }

    /// Writes `metrics.jsonl` of the version `cut`, durably: that of `before`, and `lines`. Gives its length.
    ///
    /// # Errors
    /// When it cannot be read or written.
    pub fn write_metrics(
        &self,
        cut: Cut,
        before: Option<&Manifest>,
        lines: &[u8],
    ) -> Result<u64, CheckpointError> {
        let path = self.path().join(names::metrics_of(cut.version, self.token));
        let mut bytes = match before {
            Some(before) => read_metrics(self.path(), before)?,
            None => Vec::new(),
        };
        bytes.extend_from_slice(lines);
        files::write(&path, &bytes)?;
        files::sync_folder_of(&path)?;
        Ok(bytes.len() as u64)
    }
}

/// Adds lines to the events of `manifest`, behind those that belong to it, if they are the newest still: the next
/// version has them in their place, and who goes on alone cuts them off as it does with its own.
pub(super) fn append_metrics(
    folder: &Path,
    manifest: &Manifest,
    lines: &[u8],
) -> Result<(), FileError> {
    let path = folder.join(metrics::NAME);
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

/// The events that belong to a version.
fn read_metrics(folder: &Path, manifest: &Manifest) -> Result<Vec<u8>, FileError> {
    let staged = staged(manifest).map(|name| folder.join(name));
    let staged = staged.filter(|path| fs::exists(path).unwrap_or(false));
    let path = staged.unwrap_or_else(|| folder.join(metrics::NAME));
    let mut bytes = Vec::new();
    match files::open(&path) {
        Ok(file) => {
            let read = file.take(manifest.metrics_length).read_to_end(&mut bytes);
            read.map_err(|e| FileError::new("read", &path, e))?;
            Ok(bytes)
        }
        Err(error) if error.is_not_found() => Ok(bytes),
        Err(error) => Err(error),
    }
}

/// Has the events of a version replace those of the last.
pub(super) fn make_current(folder: &Path, manifest: &Manifest) -> Result<(), FileError> {
    let Some(staged) = staged(manifest).map(|name| folder.join(name)) else {
        return Ok(());
    };
    match fs::exists(&staged).unwrap_or(false) {
        true => files::rename(&staged, &folder.join(metrics::NAME)),
        false => Ok(()),
    }
}

/// The name of the events of a version before they replace the last; none of one that a machine alone wrote.
fn staged(manifest: &Manifest) -> Option<String> {
    let Begun { token, .. } = manifest.cut?.begun?;
    Some(names::metrics_of(manifest.version, token))
}
