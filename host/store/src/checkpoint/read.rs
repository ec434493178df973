//! Reading a checkpoint without the right to change it, even while a run goes on committing.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::manifest::{Manifest, RunInfo};
use super::tensor_file::{self, Tensor, TensorError};
use super::{CheckpointError, PartitionData};
use crate::files::{self, Summary};

/// A commit may delete files between the reading of the manifest and the opening of its files;
/// by then there is a new manifest.
const ATTEMPTS: usize = 5;

/// One committed version, held open: a run may go on and commit without disturbing it.
#[derive(Debug)]
pub struct ReadCheckpoint {
    path: PathBuf,
    manifest: Manifest,
    files: Vec<(String, File)>,
}

impl ReadCheckpoint {
    /// Opens the last committed version in folder `path`.
    ///
    /// # Errors
    /// When there is none, or it is damaged or incomplete.
    pub fn open(path: &Path) -> Result<Self, CheckpointError> {
        let mut attempt = 1;
        loop {
            let Some(manifest) = Manifest::read(path)? else {
                return Err(CheckpointError::Missing {
                    path: path.to_owned(),
                });
            };
            let opened = manifest
                .files()
                .map(|name| Ok((name.to_owned(), files::open(&path.join(name))?)))
                .collect::<Result<Vec<_>, files::FileError>>();
            match opened {
                Ok(files) => {
                    return Ok(Self {
                        path: path.to_owned(),
                        manifest,
                        files,
                    });
                }
                Err(e) if e.is_not_found() && attempt < ATTEMPTS => attempt += 1,
                Err(e) if e.is_not_found() => {
                    return Err(CheckpointError::damaged(&e.path, "it is missing"));
                }
                Err(e) => return Err(e.into()),
            }
        }
    }

    /// The folder.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Version.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.manifest.version
    }

    /// What the run said of itself.
    #[must_use]
    pub fn run(&self) -> &RunInfo {
        &self.manifest.run
    }

    /// A partition; `None` when the checkpoint has none of it.
    ///
    /// # Errors
    /// When it cannot be read or is damaged.
    pub fn read_partition(
        &self,
        entity_type: &str,
        partition: u32,
    ) -> Result<Option<PartitionData>, CheckpointError> {
        let Some(found) = self.manifest.partition(entity_type, partition) else {
            return Ok(None);
        };
        let tensors = self.tensors(&found.file, found.summary)?;
        PartitionData::from_tensors(tensors)
            .map(Some)
            .map_err(|what| CheckpointError::damaged(&self.path.join(&found.file), what))
    }

    /// The model's parameters and their accumulators; none before the first commit of a model.
    ///
    /// # Errors
    /// When they cannot be read or are damaged.
    pub fn model(&self) -> Result<Vec<Tensor>, CheckpointError> {
        match &self.manifest.model {
            Some(model) => self.tensors(&model.file, model.summary),
            None => Ok(Vec::new()),
        }
    }

    fn tensors(&self, name: &str, expected: Summary) -> Result<Vec<Tensor>, CheckpointError> {
        let path = self.path.join(name);
        let opened = self.files.iter().find(|(n, _)| n == name);
        let (_, file) = opened.ok_or_else(|| CheckpointError::damaged(&path, "it is missing"))?;
        read_tensors(file, &path, expected)
    }
}

/// Reads a tensor file, telling damage from failure to read.
pub(super) fn read_tensors(
    file: &File,
    path: &Path,
    expected: Summary,
) -> Result<Vec<Tensor>, CheckpointError> {
    tensor_file::read(file, path, expected).map_err(|error| match error {
        TensorError::File(error) => CheckpointError::File(error),
        TensorError::Damaged(what) => CheckpointError::damaged(path, what),
    })
}
