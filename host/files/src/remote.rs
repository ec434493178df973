//! Folders in object stores: the interfaces through which datasets and checkpoints use them.
//!
//! A path that begins with `s3://`, `gs://` or `az://` names such a folder. Readers work on a local copy of it
//! ([`copy_folder`]), and the trainers of a distributed run write to it ([`open_folder`]). The program registers once
//! what opens them ([`register_stores`]); until then, such a path is an error.
//!
//! Names are those of objects relative to the folder, with `/` between parts. Objects that were written once are never
//! changed, except for the few that are replaced under a condition.

use std::fmt::Debug;
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

use super::FileError;

/// Beginnings of paths that name a folder in an object store.
pub const SCHEMES: [&str; 3] = ["s3://", "gs://", "az://"];

/// File of a local copy that records which contents its files have.
pub const COPY_RECORD: &str = ".copied.json";

/// An object of a folder, as a listing describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteFile {
    /// Name relative to the folder.
    pub name: String,
    /// Size in bytes.
    pub size: u64,
    /// Tag of the content, which changes when the object is replaced.
    pub tag: ContentTag,
    /// Time at which it was written, in milliseconds since 1970, by the clock of the store.
    pub modified: i64,
}

/// Tag that a store gives to the content of an object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContentTag {
    /// The `ETag` of HTTP without quotes, which some listings lack; empty if the store gives none.
    pub etag: String,
    /// Number of the version, where the store compares that instead.
    pub version: Option<String>,
}

impl ContentTag {
    /// Creates the tag from what a store answers.
    #[must_use]
    pub fn new(etag: Option<String>, version: Option<String>) -> Self {
        let etag = etag.as_deref().map_or("", Self::trimmed).to_owned();
        Self { etag, version }
    }

    /// Returns an `ETag` without its quotes.
    #[must_use]
    pub fn trimmed(etag: &str) -> &str {
        let inner = etag
            .strip_prefix('"')
            .and_then(|etag| etag.strip_suffix('"'));
        inner.unwrap_or(etag)
    }

    /// Returns the `ETag` as a condition of a request; `None` if there is none, or a weak one, which can be none.
    #[must_use]
    pub fn strong(&self) -> Option<String> {
        let is_strong = !self.etag.is_empty() && !self.etag.starts_with("W/");
        is_strong.then(|| format!("\"{}\"", self.etag))
    }
}

/// Local copy of a folder. Nobody changes it while it is held.
#[derive(Debug)]
pub struct LocalCopy {
    /// Folder of the copy.
    pub folder: PathBuf,
    /// Open file whose lock keeps others from changing the copy.
    pub lock: File,
}

/// Content of a small object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteContent {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Tag of this content.
    pub tag: ContentTag,
}

/// Folder in an object store. All methods block, and repeat requests that fail for a passing reason. An object that does
/// not exist is an error of kind [`io::ErrorKind::NotFound`].
pub trait RemoteFolder: Debug + Send + Sync {
    /// Returns the URL of the folder, without a slash at its end.
    fn url(&self) -> &str;

    /// Returns the objects of the folder and of those below it, sorted by name.
    ///
    /// # Errors
    /// When the store refuses or does not answer.
    fn list(&self) -> io::Result<Vec<RemoteFile>>;

    /// Returns the objects of the folder itself, sorted by name.
    ///
    /// # Errors
    /// When the store refuses or does not answer.
    fn list_here(&self) -> io::Result<Vec<RemoteFile>>;

    /// Returns the objects whose names begin with `folder`, which ends with a slash, sorted by name.
    ///
    /// # Errors
    /// When the store refuses or does not answer.
    fn list_below(&self, folder: &str) -> io::Result<Vec<RemoteFile>>;

    /// Returns what a listing would say about the object `name`.
    ///
    /// # Errors
    /// When the object does not exist, or the store refuses or does not answer.
    fn look_up(&self, name: &str) -> io::Result<RemoteFile>;

    /// Reads an object of at most `limit` bytes.
    ///
    /// # Errors
    /// When it does not exist or is larger, or the store refuses or does not answer.
    fn read(&self, name: &str, limit: u64) -> io::Result<RemoteContent>;

    /// Copies the object `file` to the local file `to`, which appears under this name when it is complete. A copy that
    /// was interrupted is continued.
    ///
    /// # Errors
    /// As for [`RemoteFolder::read`], when the object was replaced after it was listed, and when the file cannot be
    /// written.
    fn download(&self, file: &RemoteFile, to: &Path) -> io::Result<()>;

    /// Writes the local file `from` to the object `name`, durably. An object of that name is replaced.
    ///
    /// # Errors
    /// When the file cannot be read, or the store refuses or does not answer.
    fn upload(&self, from: &Path, name: &str) -> io::Result<()>;

    /// Reads the object `file` from beginning to end, in parts of bounded memory.
    ///
    /// # Errors
    /// As for [`RemoteFolder::read`]; reading fails when the object was replaced after it was listed.
    fn reader(&self, file: &RemoteFile) -> io::Result<Box<dyn Read + Send>>;

    /// Begins to write the object `name`, in parts of bounded memory. The object exists, or replaces another, only after
    /// [`RemoteWriter::finish`].
    ///
    /// # Errors
    /// When the store refuses or does not answer.
    fn writer(&self, name: &str) -> io::Result<Box<dyn RemoteWriter>>;

    /// Writes the object `name`, durably. An object of that name is replaced.
    ///
    /// # Errors
    /// When the store refuses or does not answer.
    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()>;

    /// Creates the object `name`, durably. Returns `None` if there is one already.
    ///
    /// # Errors
    /// When the store refuses for another reason or does not answer; the object may exist then.
    fn create(&self, name: &str, bytes: &[u8]) -> io::Result<Option<ContentTag>>;

    /// Replaces the object `name`, durably, if its content has the tag `expected`. Returns `None` if it has another.
    ///
    /// # Errors
    /// When the store refuses for another reason or does not answer; the object may be replaced then.
    fn replace(
        &self,
        name: &str,
        bytes: &[u8],
        expected: &ContentTag,
    ) -> io::Result<Option<ContentTag>>;

    /// Gives the content of the object `from` to the object `to`, durably, without sending it.
    ///
    /// # Errors
    /// When there is no object `from`, or the store refuses or does not answer.
    fn duplicate(&self, from: &str, to: &str) -> io::Result<()>;

    /// Removes an object. A missing object is not an error.
    ///
    /// # Errors
    /// When the store refuses or does not answer.
    fn remove(&self, name: &str) -> io::Result<()>;
}

/// An object that is being written. If it is dropped before it is finished, there is no object.
pub trait RemoteWriter: Write + Send {
    /// Sends what remains, and makes the object durable.
    ///
    /// # Errors
    /// When the store refuses or does not answer.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

/// How long a request that fails for a passing reason is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Some seconds: the caller decides what to do then.
    Brief,
    /// Minutes, for transfers that are expensive to repeat.
    Long,
}

/// What opens folders in object stores and copies them.
pub trait ObjectStores: Send + Sync {
    /// Opens the folder that `url` names, which may be empty, with requests that are repeated with `patience`.
    ///
    /// # Errors
    /// When the URL is wrong, or the store refuses or does not answer.
    fn open(&self, url: &str, patience: Patience) -> io::Result<Arc<dyn RemoteFolder>>;

    /// Returns an up-to-date copy of the folder `url`. It contains the objects of the folder, and of those below it, whose
    /// names are `wanted`. An empty folder gives an empty copy.
    ///
    /// # Errors
    /// As for [`ObjectStores::open`], and when the copy cannot be written.
    fn copy(&self, url: &str, wanted: &dyn Fn(&str) -> bool) -> io::Result<LocalCopy>;

    /// Returns an up-to-date copy with the object `name` of the folder `url` only.
    ///
    /// # Errors
    /// As for [`ObjectStores::copy`], and when there is no such object.
    fn copy_object(&self, url: &str, name: &str) -> io::Result<LocalCopy>;

    /// Returns a local folder for files on their way to or from the folder `url`. Each call gives another, empty folder.
    ///
    /// # Errors
    /// When it cannot be created.
    fn outgoing(&self, url: &str) -> io::Result<PathBuf>;
}

static STORES: OnceLock<Box<dyn ObjectStores>> = OnceLock::new();

/// Registers what opens URLs from now on. Only the first registration counts.
pub fn register_stores(stores: impl ObjectStores + 'static) {
    let _ = STORES.set(Box::new(stores));
}

/// Returns `path` as a URL if it names a folder in an object store.
#[must_use]
pub fn as_url(path: &Path) -> Option<&str> {
    let text = path.to_str()?;
    SCHEMES
        .iter()
        .any(|scheme| text.starts_with(scheme))
        .then_some(text)
}

/// Returns whether `path` looks like a URL, of whatever scheme, that would become a folder here.
#[must_use]
pub fn is_any_url(path: &Path) -> bool {
    let scheme = path.to_str().and_then(|text| text.split_once(":/"));
    scheme.is_some_and(|(scheme, _)| {
        let is_one = |c: char| c.is_ascii_alphanumeric() || ['+', '-', '.'].contains(&c);
        scheme.starts_with(|c: char| c.is_ascii_alphabetic()) && scheme.chars().all(is_one)
    })
}

fn stores() -> io::Result<&'static dyn ObjectStores> {
    let stores = STORES.get().map(Box::as_ref);
    stores.ok_or_else(|| io::Error::other("this program opens no object stores"))
}

/// Opens the folder in an object store that `url` names, with requests that are repeated with `patience`.
///
/// # Errors
/// When the URL is wrong, or the store refuses or does not answer.
pub fn open_folder(url: &str, patience: Patience) -> Result<Arc<dyn RemoteFolder>, FileError> {
    let opened = stores().and_then(|stores| stores.open(url, patience));
    opened.map_err(|cause| FileError::new("open", Path::new(url), cause))
}

/// Returns an up-to-date copy of the folder in an object store that `url` names, with the objects whose names are
/// `wanted`.
///
/// # Errors
/// When the folder cannot be copied.
pub fn copy_folder(url: &str, wanted: &dyn Fn(&str) -> bool) -> Result<LocalCopy, FileError> {
    let copied = stores().and_then(|stores| stores.copy(url, wanted));
    copied.map_err(|cause| FileError::new("copy", Path::new(url), cause))
}

/// Returns an up-to-date copy with the object `name` of the folder in an object store that `url` names.
///
/// # Errors
/// When there is no such object, or it cannot be copied.
pub fn copy_object(url: &str, name: &str) -> Result<LocalCopy, FileError> {
    let copied = stores().and_then(|stores| stores.copy_object(url, name));
    copied.map_err(|cause| FileError::new("copy", &Path::new(url).join(name), cause))
}

/// Returns advice about damaged files in `folder` if it is a local copy.
#[must_use]
pub fn copy_advice(folder: &Path) -> Option<String> {
    folder.join(COPY_RECORD).is_file().then(|| {
        format!(
            "this is a local copy: remove {} and run the command again, which copies it anew; if that one is damaged too, \
             so is the original",
            folder.display()
        )
    })
}

/// Returns an empty local folder for files on their way to or from the folder `url`.
///
/// # Errors
/// When it cannot be created.
pub fn outgoing_folder(url: &str) -> Result<PathBuf, FileError> {
    let made = stores().and_then(|stores| stores.outgoing(url));
    made.map_err(|cause| FileError::new("create a folder for", Path::new(url), cause))
}

/// Splits the URL of an object into that of its folder and its name. Returns `None` for a bucket.
#[must_use]
pub fn split_name(url: &str) -> Option<(&str, &str)> {
    let (folder, name) = url.strip_suffix('/').unwrap_or(url).rsplit_once('/')?;
    // The slashes of the scheme separate nothing.
    (!folder.ends_with('/')).then_some((folder, name))
}

/// Returns whether the object `name` exists in the folder in an object store that `url` names.
///
/// # Errors
/// When the URL is wrong, or the store refuses or does not answer.
pub fn has_object(url: &str, name: &str) -> Result<bool, FileError> {
    match open_folder(url, Patience::Long)?.look_up(name) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(cause) => Err(FileError::new(
            "look for",
            &Path::new(url).join(name),
            cause,
        )),
    }
}
