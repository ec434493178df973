//! Tensors that are sent to object stores or partition servers while they are made, so that no file is needed.

use std::io;
use std::path::PathBuf;

use pbg_files::remote::RemoteWriter;
use pbg_files::{FileError, FileSummary};

use super::tensors::TensorOutput;

/// Object that is being sent to one store, or the same to several.
pub(super) struct SentObject {
    /// Where it is sent, with the path for messages.
    copies: Vec<(PathBuf, Box<dyn RemoteWriter>)>,
    hasher: crc32fast::Hasher,
    size: u64,
}

impl SentObject {
    pub(super) fn new(copies: Vec<(PathBuf, Box<dyn RemoteWriter>)>) -> Self {
        Self {
            copies,
            hasher: crc32fast::Hasher::new(),
            size: 0,
        }
    }

    /// Returns size and checksum of what was put so far.
    pub(super) fn summary(&self) -> FileSummary {
        FileSummary {
            size: self.size,
            crc32: self.hasher.clone().finalize(),
        }
    }

    /// Sends what remains. Returns size and checksum of the object.
    pub(super) fn finish(self) -> Result<FileSummary, FileError> {
        for (path, copy) in self.copies {
            copy.finish()
                .map_err(|e| FileError::new("write", &path, e))?;
        }
        Ok(FileSummary {
            size: self.size,
            crc32: self.hasher.finalize(),
        })
    }
}

impl TensorOutput for SentObject {
    fn put(&mut self, bytes: &[u8]) -> Result<(), FileError> {
        for (path, copy) in &mut self.copies {
            let sent = copy.write_all(bytes);
            sent.map_err(|e| FileError::new("write", path, e))?;
        }
        self.hasher.update(bytes);
        self.size += bytes.len() as u64;
        Ok(())
    }

    fn refuse(&self, what: String) -> FileError {
        let path = self.copies.first().map(|(path, _)| path.clone());
        FileError::new("write", &path.unwrap_or_default(), io::Error::other(what))
    }
}
