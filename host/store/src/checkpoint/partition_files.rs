//! The files of partitions and parameters in a checkpoint's folder, and who may write and remove which.
//!
//! A file gets its name when it is whole, and no writer uses a name twice. So a file that can be read under its
//! name is complete, whatever else is written beside it.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use pbg_core::ledger::Token;

use super::names;
use super::{CheckpointError, MANIFEST, Manifest, PartitionData, Tensor, read, tensors};
use crate::files::{self, FileError, STAGED_SUFFIX, Summary};

/// Who writes to a folder.
#[derive(Debug)]
pub enum Writer {
    /// One run, which nobody else writes beside: what its manifest does not name is nobody's.
    Alone,
    /// One of several trainers. Its files have its token and a count of its own in their names.
    Trainer {
        /// Drawn by the trainer when it joined.
        token: Token,
        /// Files that it has named so far.
        named: AtomicU64,
    },
}

impl Writer {
    /// A trainer that has written nothing yet.
    #[must_use]
    pub fn trainer(token: Token) -> Self {
        let named = AtomicU64::new(0);
        Self::Trainer { token, named }
    }

    /// Whether files of `owner`, which no manifest names, are this writer's to remove.
    fn may_remove(&self, owner: Option<Token>) -> bool {
        match self {
            Self::Alone => true,
            Self::Trainer { token, .. } => owner == Some(*token),
        }
    }
}

/// Files of a folder, as one writer sees them.
#[derive(Debug)]
pub struct PartitionFiles {
    folder: PathBuf,
    writer: Writer,
}

impl PartitionFiles {
    /// Those of `folder`, which exists, for `writer`.
    #[must_use]
    pub fn new(folder: &Path, writer: Writer) -> Self {
        let folder = folder.to_owned();
        Self { folder, writer }
    }

    /// The folder.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    fn name(&self, key: &str, version: u64) -> String {
        match &self.writer {
            Writer::Alone => names::versioned(key, version, None),
            Writer::Trainer { token, named } => {
                let count = named.fetch_add(1, Ordering::Relaxed);
                names::versioned(key, version, Some((*token, count)))
            }
        }
    }

    /// Writes what `key` names for a version, and gives the file's name. It is durable only after
    /// [`PartitionFiles::sync`].
    ///
    /// # Errors
    /// When it cannot be written. What was written of it is removed.
    pub(super) fn write(
        &self,
        key: &str,
        version: u64,
        write: impl FnOnce(&Path) -> Result<Summary, FileError>,
    ) -> Result<(String, Summary), FileError> {
        let name = self.name(key, version);
        let path = self.folder.join(&name);
        let staged = files::staged_name(&path);
        let written = write(&staged).and_then(|summary| {
            files::rename(&staged, &path)?;
            Ok((name, summary))
        });
        // Gives the space back that the commit of another run may need.
        written.inspect_err(|_| drop(files::remove(&staged)))
    }

    /// Brings a file to the disk.
    ///
    /// # Errors
    /// When the operating system refuses.
    pub(super) fn sync(&self, name: &str) -> Result<(), FileError> {
        files::sync(&self.folder.join(name))
    }

    /// Reads a partition's file into memory that is used again.
    ///
    /// # Errors
    /// When it cannot be read or is not what `summary` says; `data` is meaningless then.
    pub(super) fn read_partition(
        &self,
        name: &str,
        summary: Summary,
        data: &mut PartitionData,
    ) -> Result<(), CheckpointError> {
        let path = self.folder.join(name);
        data.read(&files::open(&path)?, &path, summary)
    }

    /// Reads the file of the parameters.
    ///
    /// # Errors
    /// When it cannot be read or is not what `summary` says.
    pub(super) fn read_model(
        &self,
        name: &str,
        summary: Summary,
    ) -> Result<Vec<Tensor>, CheckpointError> {
        let path = self.folder.join(name);
        tensors::read(&files::open(&path)?, &path, summary)
    }

    /// Removes the files that no manifest names and that are this writer's to remove, in preserved
    /// checkpoints too: what a crashed run left behind.
    ///
    /// # Errors
    /// When the folder cannot be read or a file cannot be removed.
    pub(super) fn sweep(&self, manifest: Option<&Manifest>) -> Result<(), FileError> {
        sweep(&self.folder, &self.writer, manifest)
    }
}

/// As [`PartitionFiles::sweep`], for the folder of a preserved checkpoint, which one run alone writes.
pub(super) fn sweep_preserved(folder: &Path, manifest: &Manifest) -> Result<(), FileError> {
    sweep(folder, &Writer::Alone, Some(manifest))
}

fn sweep(folder: &Path, writer: &Writer, manifest: Option<&Manifest>) -> Result<(), FileError> {
    for name in names::entries(folder)? {
        let path = folder.join(&name);
        let whole = name.strip_suffix(STAGED_SUFFIX);
        let is_named = manifest.is_some_and(|manifest| manifest.files.contains_key(&name));
        if let Some(file) = names::parse(whole.unwrap_or(&name)) {
            if !is_named && writer.may_remove(file.token()) {
                // One that is being read stays for the next sweep.
                files::remove_unread(&path)?;
            }
        } else if !writer.may_remove(None) {
            // Manifests and preserved checkpoints are made by the trainer that commits.
        } else if names::parse_numbered(&name).is_some()
            || names::is_staged_manifest(&name)
            || names::is_presence(&name)
            || names::parse_events(&name).is_some()
            || names::parse_metrics(&name).is_some()
        {
            // What it says is in the manifest of who goes on alone.
            files::remove(&path)?;
        } else if whole.is_some_and(|name| name == MANIFEST || name == names::FIRST) {
            files::remove(&path)?;
        } else if whole.is_some_and(names::is_preserved) && path.is_dir() {
            files::remove_folder(&path)?;
        } else if names::is_preserved(&name)
            && let Ok(Some(held)) = read::manifest_if_any(&path)
        {
            sweep(&path, writer, Some(&held))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(files: &PartitionFiles, key: &str, text: &[u8]) -> String {
        let write = |path: &Path| {
            let mut file = files::SummedFile::create(path)?;
            file.put(text)?;
            file.finish(false)
        };
        files.write(key, 3, write).unwrap().0
    }

    #[test]
    fn trainers_write_and_remove_their_own_files() {
        let folder = tempfile::tempdir().unwrap();
        let of = |writer| PartitionFiles::new(folder.path(), writer);
        let (one, two) = (of(Writer::trainer(Token(1))), of(Writer::trainer(Token(2))));
        let key = names::partition("e", 0);
        let old = write(&one, &key, b"1");
        let new = write(&one, &key, b"2");
        let other = write(&two, &key, b"3");
        let alone = write(&of(Writer::Alone), &key, b"4");
        assert_eq!(old, "embeddings_e_0.v3.0000000000000001-0.safetensors");
        assert_eq!(new, "embeddings_e_0.v3.0000000000000001-1.safetensors");
        assert_eq!(alone, "embeddings_e_0.v3.safetensors");
        let staged = format!("{new}{STAGED_SUFFIX}");
        std::fs::write(folder.path().join(staged), b"").unwrap();

        let summary = Summary { size: 1, crc32: 0 };
        let manifest = Manifest {
            version: 3,
            files: [(new.clone(), summary)].into(),
            ..Manifest::default()
        };
        one.sweep(Some(&manifest)).unwrap();
        let left = || names::entries(folder.path()).unwrap();
        let all = [new.clone(), other, alone];
        assert_eq!(left(), all);
        of(Writer::Alone).sweep(Some(&manifest)).unwrap();
        assert_eq!(left(), [new]);
    }

    #[test]
    fn what_could_not_be_written_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let files = PartitionFiles::new(folder.path(), Writer::Alone);
        let result = files.write("model", 1, |path| {
            files::SummedFile::create(path)?.put(b"half")?;
            let full = std::io::ErrorKind::StorageFull.into();
            Err(FileError::new("write", path, full))
        });
        result.unwrap_err();
        assert!(names::entries(folder.path()).unwrap().is_empty());
    }
}
