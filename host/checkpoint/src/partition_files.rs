//! Partition and parameter files in a checkpoint's folder, and the rules about who may write and remove them.
//!
//! A file gets its final name when it is complete, and no writer uses a name twice. So a file with a final name is
//! always complete, whatever other writers do at the same time.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use pbg_ledger::Token;

use super::{CheckpointError, CheckpointManifest, MANIFEST, PartitionData, Tensor, read, tensors};
use super::{first_commit, names};
use pbg_files::{self as files, FileError, FileSummary, STAGED_SUFFIX};

/// Writer of a folder.
#[derive(Debug)]
pub enum FolderWriter {
    /// The only writer: files that its manifest does not name belong to nobody.
    Single,
    /// One of several trainers. The names of its files contain its token and its own file count.
    Trainer {
        /// Token that the trainer drew when it joined.
        token: Token,
        /// Number of files that it has named so far.
        named: AtomicU64,
    },
}

impl FolderWriter {
    /// Returns a trainer that has written no files yet.
    #[must_use]
    pub fn trainer(token: Token) -> Self {
        let named = AtomicU64::new(0);
        Self::Trainer { token, named }
    }

    /// Returns whether this writer may remove files of `owner` that no manifest names.
    fn may_remove(&self, owner: Option<Token>) -> bool {
        match self {
            Self::Single => true,
            Self::Trainer { token, .. } => owner == Some(*token),
        }
    }
}

/// Partition and parameter files of a folder, as seen by one writer.
#[derive(Debug)]
pub struct PartitionFiles {
    folder: PathBuf,
    writer: FolderWriter,
}

impl PartitionFiles {
    /// Creates the view of `writer` on `folder`, which must exist.
    #[must_use]
    pub fn new(folder: &Path, writer: FolderWriter) -> Self {
        let folder = folder.to_owned();
        Self { folder, writer }
    }

    /// Returns the folder.
    pub(super) fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the name of a new file.
    pub(super) fn name(&self, key: &str, version: u64) -> String {
        match &self.writer {
            FolderWriter::Single => names::versioned(key, version, None),
            FolderWriter::Trainer { token, named } => {
                let count = named.fetch_add(1, Ordering::Relaxed);
                names::versioned(key, version, Some((*token, count)))
            }
        }
    }

    /// Writes the content of `key` for a version. Returns the file's name. The file is durable only after
    /// [`PartitionFiles::sync`].
    ///
    /// # Errors
    /// When the file cannot be written. The incomplete file is removed.
    pub(super) fn write(
        &self,
        key: &str,
        version: u64,
        write: impl FnOnce(&Path) -> Result<FileSummary, FileError>,
    ) -> Result<(String, FileSummary), FileError> {
        let name = self.name(key, version);
        let summary = self.write_named(&name, write)?;
        Ok((name, summary))
    }

    /// Writes the file `name`, as [`PartitionFiles::write`] does.
    ///
    /// # Errors
    /// When the file cannot be written. The incomplete file is removed.
    pub(super) fn write_named(
        &self,
        name: &str,
        write: impl FnOnce(&Path) -> Result<FileSummary, FileError>,
    ) -> Result<FileSummary, FileError> {
        let path = self.folder.join(name);
        let staged = files::staged_name(&path);
        let written = write(&staged).and_then(|summary| {
            files::rename(&staged, &path)?;
            Ok(summary)
        });
        // Free the space, which another run's commit may need.
        written.inspect_err(|_| drop(files::remove(&staged)))
    }

    /// Syncs a file to disk.
    ///
    /// # Errors
    /// When the operating system reports an error.
    pub(super) fn sync(&self, name: &str) -> Result<(), FileError> {
        files::sync(&self.folder.join(name))
    }

    /// Reads a partition's file into `data`, whose memory is reused.
    ///
    /// # Errors
    /// When the file cannot be read or does not match `summary`; `data` is meaningless then.
    pub(super) fn read_partition(
        &self,
        name: &str,
        summary: FileSummary,
        data: &mut PartitionData,
    ) -> Result<(), CheckpointError> {
        let path = self.folder.join(name);
        data.read(&files::open(&path)?, &path, summary)
    }

    /// Reads the file of the model parameters.
    ///
    /// # Errors
    /// When the file cannot be read or does not match `summary`.
    pub(super) fn read_model(
        &self,
        name: &str,
        summary: FileSummary,
    ) -> Result<Vec<Tensor>, CheckpointError> {
        let path = self.folder.join(name);
        tensors::read(&files::open(&path)?, &path, summary)
    }

    /// Removes the files that no manifest names and that this writer may remove, also in preserved checkpoints. A
    /// crashed run leaves such files.
    ///
    /// # Errors
    /// When the folder cannot be read or a file cannot be removed.
    pub(super) fn sweep(&self, manifest: Option<&CheckpointManifest>) -> Result<(), FileError> {
        sweep(&self.folder, &self.writer, manifest)
    }
}

/// Sweeps `folder` as [`PartitionFiles::sweep`] does. The writer of a preserved checkpoint's folder is
/// [`FolderWriter::Single`].
pub(super) fn sweep(
    folder: &Path,
    writer: &FolderWriter,
    manifest: Option<&CheckpointManifest>,
) -> Result<(), FileError> {
    for name in names::entries(folder)? {
        let path = folder.join(&name);
        let whole = name.strip_suffix(STAGED_SUFFIX);
        let is_named = manifest.is_some_and(|manifest| manifest.files.contains_key(&name));
        if let Some(file) = names::parse(whole.unwrap_or(&name)) {
            if !is_named && writer.may_remove(file.token()) {
                // A file that is being read is left for the next sweep.
                files::remove_unless_read(&path)?;
            }
        } else if !writer.may_remove(None) {
            // Only the trainer that commits creates manifests and preserved checkpoints.
        } else if names::parse_numbered(&name).is_some()
            || names::staged_by(&name).is_some()
            || names::parse_presence(&name).is_some()
            || names::parse_events(&name).is_some()
            || names::parse_metrics(&name).is_some()
        {
            // A single trainer keeps the same information in its manifest.
            files::remove(&path)?;
        } else if whole.is_some_and(|name| name == MANIFEST || name == first_commit::FIRST) {
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
            let mut file = files::ChecksummedFile::create(path)?;
            file.put(text)?;
            file.finish(false)
        };
        files.write(key, 3, write).unwrap().0
    }

    #[test]
    fn trainers_write_and_remove_their_own_files() {
        let folder = tempfile::tempdir().unwrap();
        let of = |writer| PartitionFiles::new(folder.path(), writer);
        let (one, two) = (
            of(FolderWriter::trainer(Token(1))),
            of(FolderWriter::trainer(Token(2))),
        );
        let key = names::partition("e", 0);
        let old = write(&one, &key, b"1");
        let new = write(&one, &key, b"2");
        let other = write(&two, &key, b"3");
        let alone = write(&of(FolderWriter::Single), &key, b"4");
        assert_eq!(old, "embeddings_e_0.v3.0000000000000001-0.safetensors");
        assert_eq!(new, "embeddings_e_0.v3.0000000000000001-1.safetensors");
        assert_eq!(alone, "embeddings_e_0.v3.safetensors");
        let staged = format!("{new}{STAGED_SUFFIX}");
        std::fs::write(folder.path().join(staged), b"").unwrap();

        let summary = FileSummary { size: 1, crc32: 0 };
        let manifest = CheckpointManifest {
            version: 3,
            files: [(new.clone(), summary)].into(),
            ..CheckpointManifest::default()
        };
        one.sweep(Some(&manifest)).unwrap();
        let left = || names::entries(folder.path()).unwrap();
        let all = [new.clone(), other, alone];
        assert_eq!(left(), all);
        of(FolderWriter::Single).sweep(Some(&manifest)).unwrap();
        assert_eq!(left(), [new]);
    }

    #[test]
    fn what_could_not_be_written_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let files = PartitionFiles::new(folder.path(), FolderWriter::Single);
        let result = files.write("model", 1, |path| {
            files::ChecksummedFile::create(path)?.put(b"half")?;
            let full = std::io::ErrorKind::StorageFull.into();
            Err(FileError::new("write", path, full))
        });
        result.unwrap_err();
        assert!(names::entries(folder.path()).unwrap().is_empty());
    }
}
