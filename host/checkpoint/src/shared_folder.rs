//! Folder that the trainers of a run share: in a file system that all of them reach, or in an object store.
//!
//! Files are written once, under names that nobody uses again, so both are used in the same way: a new file is written
//! locally and then made durable ([`SharedFolder::keep`]), and is opened by its name ([`SharedFolder::open`]). On its way
//! to or from an object store, a file is in a scratch folder of this trainer, which is removed at the end; partitions are
//! sent and received without one.

use std::fs::{self, File};
use std::io::{self, Read, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pbg_files::remote::{self, ContentTag, Patience, RemoteFile, RemoteFolder};
use pbg_files::sealed_json::MAX_BYTES;
use pbg_files::{self as files, FileError};

use super::names;
use super::sent_object::SentObject;

/// Largest object that S3 copies with one request, in bytes.
const MAX_DUPLICATED: u64 = 5 << 30;

/// Folder that the trainers of a run share.
#[derive(Debug)]
pub(super) enum SharedFolder {
    /// In a file system.
    Files(PathBuf),
    /// In an object store.
    Objects(RunObjects),
}

/// Folder in an object store, with a scratch folder of this trainer.
#[derive(Debug)]
pub(super) struct RunObjects {
    pub(super) remote: Arc<dyn RemoteFolder>,
    url: PathBuf,
    scratch: PathBuf,
    /// Number of files that were fetched, which are part of their names in the scratch folder.
    fetched: AtomicU64,
}

impl Drop for RunObjects {
    fn drop(&mut self) {
        // What is left there belongs to nobody.
        let _ = files::remove_folder(&self.scratch);
    }
}

impl SharedFolder {
    /// Opens the folder `path`, creating it if necessary.
    ///
    /// # Errors
    /// When it cannot be created, or its store refuses or does not answer.
    pub(super) fn open(path: &Path) -> Result<Self, FileError> {
        let Some(url) = remote::as_url(path) else {
            files::create_folder(path)?;
            return Ok(Self::Files(path.to_owned()));
        };
        Ok(Self::Objects(RunObjects {
            remote: remote::open_folder(url, Patience::Long)?,
            url: path.to_owned(),
            scratch: remote::outgoing_folder(url)?,
            fetched: AtomicU64::new(0),
        }))
    }

    /// Returns the path or the URL of the folder.
    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Files(path) => path,
            Self::Objects(objects) => &objects.url,
        }
    }

    /// Returns the local folder in which new files are written.
    pub(super) fn local(&self) -> &Path {
        match self {
            Self::Files(path) => path,
            Self::Objects(objects) => &objects.scratch,
        }
    }

    /// Returns the names of the files in the folder itself, sorted.
    pub(super) fn names(&self) -> Result<Vec<String>, FileError> {
        match self {
            Self::Files(path) => names::entries(path),
            Self::Objects(objects) => {
                let listed = objects.list()?;
                Ok(listed.into_iter().map(|file| file.name).collect())
            }
        }
    }

    /// Returns the size of a file in bytes; `None` if there is none.
    pub(super) fn size_if_any(&self, name: &str) -> Result<Option<u64>, FileError> {
        match self {
            Self::Files(path) => match files::size(&path.join(name)) {
                Ok(size) => Ok(Some(size)),
                Err(error) if error.is_not_found() => Ok(None),
                Err(error) => Err(error),
            },
            Self::Objects(objects) => objects.size_if_any(name),
        }
    }

    /// Creates an empty file, durably. An existing file is left unchanged.
    pub(super) fn mark(&self, name: &str) -> Result<(), FileError> {
        match self {
            Self::Files(path) => files::create_marker(&path.join(name)),
            Self::Objects(objects) => objects.attempt("create", name, || {
                objects.remote.create(name, b"").map(drop)
            }),
        }
    }

    /// Removes a file. A missing file is not an error.
    pub(super) fn remove(&self, name: &str) -> Result<(), FileError> {
        match self {
            Self::Files(path) => files::remove(&path.join(name)),
            Self::Objects(objects) => objects.remove(name),
        }
    }

    /// Removes a file unless somebody reads it. Readers of an object store work on copies.
    pub(super) fn remove_unless_read(&self, name: &str) -> Result<(), FileError> {
        match self {
            Self::Files(path) => files::remove_unless_read(&path.join(name)).map(drop),
            Self::Objects(objects) => objects.remove(name),
        }
    }

    /// Makes the file `name`, which was written to the local folder, durable and visible to the other trainers.
    pub(super) fn keep(&self, name: &str) -> Result<(), FileError> {
        match self {
            Self::Files(path) => {
                let path = path.join(name);
                files::sync(&path)?;
                files::sync_folder_of(&path)
            }
            Self::Objects(objects) => {
                let local = objects.scratch.join(name);
                objects.attempt("write", name, || objects.remote.upload(&local, name))?;
                files::remove(&local)
            }
        }
    }

    /// Opens a file for reading.
    pub(super) fn open_file(&self, name: &str) -> Result<File, FileError> {
        match self {
            Self::Files(path) => files::open(&path.join(name)),
            Self::Objects(objects) => objects.fetch(name),
        }
    }
}

impl RunObjects {
    /// Returns the URL of the object `name`, for messages.
    pub(super) fn path_of(&self, name: &str) -> PathBuf {
        self.url.join(name)
    }

    /// Does something with the object `name`.
    pub(super) fn attempt<T>(
        &self,
        operation: &'static str,
        name: &str,
        work: impl FnOnce() -> io::Result<T>,
    ) -> Result<T, FileError> {
        work().map_err(|cause| FileError::new(operation, &self.path_of(name), cause))
    }

    /// Begins to send the object `name`.
    pub(super) fn send(&self, name: &str) -> Result<SentObject, FileError> {
        let writer = self.attempt("write", name, || self.remote.writer(name))?;
        Ok(SentObject::new(vec![(self.path_of(name), writer)]))
    }

    /// Begins to read the object `name`. Returns its content and its size.
    pub(super) fn receive(&self, name: &str) -> Result<(Box<dyn Read + Send>, u64), FileError> {
        self.attempt("open", name, || {
            let found = self.remote.look_up(name)?;
            Ok((self.remote.reader(&found)?, found.size))
        })
    }

    /// Lists the objects of the folder itself.
    pub(super) fn list(&self) -> Result<Vec<RemoteFile>, FileError> {
        let listed = self.remote.list_here();
        listed.map_err(|cause| FileError::new("list", &self.url, cause))
    }

    /// Returns the size of an object in bytes; `None` if there is none.
    pub(super) fn size_if_any(&self, name: &str) -> Result<Option<u64>, FileError> {
        self.attempt("open", name, || match self.remote.look_up(name) {
            Ok(found) => Ok(Some(found.size)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        })
    }

    /// Reads a manifest; `None` if there is none.
    pub(super) fn read_manifest(
        &self,
        name: &str,
    ) -> Result<Option<(Vec<u8>, ContentTag)>, FileError> {
        match self.remote.read(name, MAX_BYTES) {
            Ok(content) => Ok(Some((content.bytes, content.tag))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(cause) => Err(FileError::new("read", &self.path_of(name), cause)),
        }
    }

    /// Replaces the object `found` by its content followed by `lines`.
    pub(super) fn extend(&self, found: &RemoteFile, lines: &[u8]) -> Result<(), FileError> {
        self.rewrite(found, &found.name, lines)
    }

    /// Gives the content of the object `from` to the object `to`.
    pub(super) fn duplicate(&self, from: &str, to: &str) -> Result<(), FileError> {
        let found = self.attempt("open", from, || self.remote.look_up(from))?;
        match found.size <= MAX_DUPLICATED {
            true => self.attempt("write", to, || self.remote.duplicate(from, to)),
            false => self.rewrite(&found, to, b""),
        }
    }

    /// Writes the content of the object `found`, followed by `lines`, to the object `to`, by way of a local file.
    fn rewrite(&self, found: &RemoteFile, to: &str, lines: &[u8]) -> Result<(), FileError> {
        let number = self.fetched.fetch_add(1, Ordering::Relaxed);
        let local = self.scratch.join(format!("{number}.rewritten"));
        self.attempt("write", to, || {
            self.remote.download(found, &local)?;
            let mut file = File::options().append(true).open(&local)?;
            file.write_all(lines)?;
            self.remote.upload(&local, to)
        })?;
        files::remove(&local)
    }

    fn remove(&self, name: &str) -> Result<(), FileError> {
        self.attempt("remove", name, || self.remote.remove(name))
    }

    /// Copies an object to a file without a name, and opens it.
    fn fetch(&self, name: &str) -> Result<File, FileError> {
        let number = self.fetched.fetch_add(1, Ordering::Relaxed);
        let local = self.scratch.join(format!("{number}.fetched"));
        self.attempt("read", name, || {
            let found = self.remote.look_up(name)?;
            self.remote.download(&found, &local)
        })?;
        let file = files::open(&local)?;
        let removed = fs::remove_file(&local);
        removed.map_err(|cause| FileError::new("remove", &local, cause))?;
        Ok(file)
    }
}
