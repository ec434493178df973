//! A folder in an object store: listings, small objects, conditional writes.

use std::fmt;
use std::io::{self, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt, TryStreamExt};
use object_store::path::Path as Key;
use object_store::{
    Error, GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutOptions, PutPayload,
    PutResult, UpdateVersion,
};
use pbg_files::remote::{
    ContentTag, Patience, RemoteContent, RemoteFile, RemoteFolder, RemoteWriter,
};

use crate::connection::{StoreSettings, block, block_within, connect, pause};
use crate::error::{io_error, is_passing};
use crate::streams::{ObjectReader, ObjectWriter, OpenObject};
use crate::transfer;
use crate::url::ObjectUrl;

/// Largest number of objects in a folder. A larger listing is not of a dataset or a checkpoint.
const MAX_OBJECTS: usize = 1 << 20;
/// Longest time for a listing, whose pages a hostile store need not end.
const LISTED_WITHIN: Duration = Duration::from_secs(600);

/// Pauses before repetitions of writes and removals whose answer was lost.
const PAUSES: [Duration; 4] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(4),
    Duration::from_secs(8),
];

/// Folder in an object store.
pub(crate) struct ObjectFolder {
    url: ObjectUrl,
    name: String,
    store: Arc<dyn ObjectStore>,
    /// Pauses before repetitions of requests that the client does not repeat.
    pauses: &'static [Duration],
}

impl fmt::Debug for ObjectFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ObjectFolder").field(&self.name).finish()
    }
}

impl ObjectFolder {
    /// Opens the folder, and asks the store for its first object, so that a wrong address, bucket or account is
    /// reported now.
    ///
    /// # Errors
    /// When the store refuses or does not answer.
    pub(crate) fn open(
        url: ObjectUrl,
        settings: &StoreSettings,
        patience: Patience,
    ) -> io::Result<Self> {
        let first = Self {
            name: url.to_string(),
            store: connect(&url, settings, Patience::Brief)?,
            pauses: match patience {
                Patience::Brief => &[],
                Patience::Long => &PAUSES,
            },
            url,
        };
        let prefix = first.prefix()?;
        let asked = async {
            let mut listed = first.store.list(prefix.as_ref());
            listed.try_next().await.map_err(|e| first.failed(e))
        };
        block(asked).map_err(
            |error| match settings.credentials_advice(first.url.provider) {
                Some(advice) if error.kind() == io::ErrorKind::Other => {
                    io::Error::other(format!("{error}; {advice}"))
                }
                _ => error,
            },
        )?;
        let store = connect(&first.url, settings, patience)?;
        Ok(Self { store, ..first })
    }

    /// Creates the folder of an opened store, whose requests are not repeated for long.
    pub(crate) fn of_store(url: ObjectUrl, store: Arc<dyn ObjectStore>) -> Self {
        Self {
            name: url.to_string(),
            store,
            pauses: &[],
            url,
        }
    }

    fn prefix(&self) -> io::Result<Option<Key>> {
        let folder = &self.url.folder;
        match folder.is_empty() {
            true => Ok(None),
            false => parsed(folder).map(Some),
        }
    }

    fn key(&self, name: &str) -> io::Result<Key> {
        parsed(&self.url.key(name))
    }

    fn object(&self, name: &str) -> io::Result<OpenObject> {
        Ok(OpenObject {
            store: Arc::clone(&self.store),
            key: self.key(name)?,
            url: self.url.clone(),
        })
    }

    fn failed(&self, error: Error) -> io::Error {
        io_error(error, &self.url)
    }

    /// Writes a small object under the condition `mode`. Returns `None` if the condition does not hold.
    fn put_if(&self, name: &str, bytes: &[u8], mode: PutMode) -> io::Result<Option<ContentTag>> {
        let key = self.key(name)?;
        let options = PutOptions {
            mode,
            ..PutOptions::default()
        };
        let payload = PutPayload::from(bytes.to_vec());
        self.repeated(|| async {
            let put = self.store.put_opts(&key, payload.clone(), options.clone());
            match put.await {
                Ok(put) => Ok(Some(tag_of_put(put))),
                Err(Error::AlreadyExists { .. } | Error::Precondition { .. }) => Ok(None),
                Err(error) => Err(error),
            }
        })
    }

    /// Makes a request that the client does not repeat after a lost connection, because the first one may have been
    /// carried out. Callers allow for that.
    fn repeated<T, F: Future<Output = Result<T, Error>>>(
        &self,
        request: impl Fn() -> F,
    ) -> io::Result<T> {
        block(async {
            let mut pauses = self.pauses.iter();
            loop {
                let ended = request().await;
                let time = match &ended {
                    Err(error) if is_passing(error) => pauses.next(),
                    _ => None,
                };
                match time {
                    Some(time) => pause(*time).await,
                    None => return ended.map_err(|e| self.failed(e)),
                }
            }
        })
    }

    /// Lists the objects of the folder `prefix`, without those of folders below it.
    fn list_folder(&self, prefix: Option<Key>) -> io::Result<Vec<RemoteFile>> {
        let listed = block_within(LISTED_WITHIN, async {
            let listed = self.store.list_with_delimiter(prefix.as_ref()).await;
            listed.map_err(|e| self.failed(e))
        })?;
        check_count(listed.objects.len())?;
        let files = listed.objects.into_iter();
        let mut files: Vec<RemoteFile> =
            files.filter_map(|object| self.described(object)).collect();
        files.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(files)
    }

    fn described(&self, object: ObjectMeta) -> Option<RemoteFile> {
        let path: &str = object.location.as_ref();
        let name = match self.url.folder.is_empty() {
            true => path,
            false => path.strip_prefix(&self.url.folder)?.strip_prefix('/')?,
        };
        Some(RemoteFile {
            name: name.to_owned(),
            size: object.size,
            modified: object.last_modified.timestamp_millis(),
            tag: ContentTag::new(object.e_tag, object.version),
        })
    }
}

impl RemoteFolder for ObjectFolder {
    fn url(&self) -> &str {
        &self.name
    }

    fn list(&self) -> io::Result<Vec<RemoteFile>> {
        let prefix = self.prefix()?;
        let mut files = block_within(LISTED_WITHIN, async {
            let mut listed = self.store.list(prefix.as_ref());
            let (mut files, mut objects) = (Vec::new(), 0);
            while let Some(object) = listed.next().await {
                files.extend(self.described(object.map_err(|e| self.failed(e))?));
                objects += 1;
                check_count(objects)?;
            }
            Ok(files)
        })?;
        files.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(files)
    }

    fn list_here(&self) -> io::Result<Vec<RemoteFile>> {
        self.list_folder(self.prefix()?)
    }

    fn list_below(&self, folder: &str) -> io::Result<Vec<RemoteFile>> {
        self.list_folder(Some(self.key(folder.trim_end_matches('/'))?))
    }

    fn look_up(&self, name: &str) -> io::Result<RemoteFile> {
        let key = self.key(name)?;
        let object = block(async { self.store.head(&key).await.map_err(|e| self.failed(e)) })?;
        let described = self.described(object);
        described.ok_or_else(|| io::Error::other("the store answers for another object"))
    }

    fn read(&self, name: &str, limit: u64) -> io::Result<RemoteContent> {
        let key = self.key(name)?;
        block(async {
            let got = self.store.get_opts(&key, GetOptions::default()).await;
            let got = got.map_err(|e| self.failed(e))?;
            let tag = ContentTag::new(got.meta.e_tag.clone(), got.meta.version.clone());
            let mut bytes = Vec::new();
            let mut parts = got.into_stream();
            while let Some(part) = parts.next().await {
                bytes.extend_from_slice(&part.map_err(|e| self.failed(e))?);
                if bytes.len() as u64 > limit {
                    let what = format!("it is larger than the limit of {limit} bytes");
                    return Err(io::Error::new(io::ErrorKind::InvalidData, what));
                }
            }
            Ok(RemoteContent { bytes, tag })
        })
    }

    fn download(&self, file: &RemoteFile, to: &Path) -> io::Result<()> {
        let key = self.key(&file.name)?;
        transfer::download(&*self.store, &key, file, to, |e| self.failed(e))
    }

    fn upload(&self, from: &Path, name: &str) -> io::Result<()> {
        let key = self.key(name)?;
        transfer::upload(&*self.store, &key, from, |e| self.failed(e))
    }

    fn reader(&self, file: &RemoteFile) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(ObjectReader::new(&self.object(&file.name)?, file)))
    }

    fn writer(&self, name: &str) -> io::Result<Box<dyn RemoteWriter>> {
        Ok(Box::new(ObjectWriter::new(self.object(name)?)))
    }

    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.put_if(name, bytes, PutMode::Overwrite).map(drop)
    }

    fn create(&self, name: &str, bytes: &[u8]) -> io::Result<Option<ContentTag>> {
        self.put_if(name, bytes, PutMode::Create)
    }

    fn replace(
        &self,
        name: &str,
        bytes: &[u8],
        expected: &ContentTag,
    ) -> io::Result<Option<ContentTag>> {
        let version = UpdateVersion {
            e_tag: expected.strong(),
            version: expected.version.clone(),
        };
        self.put_if(name, bytes, PutMode::Update(version))
    }

    fn duplicate(&self, from: &str, to: &str) -> io::Result<()> {
        let (from, to) = (self.key(from)?, self.key(to)?);
        block(async {
            self.store
                .copy(&from, &to)
                .await
                .map_err(|e| self.failed(e))
        })
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        let key = self.key(name)?;
        self.repeated(|| async {
            match self.store.delete(&key).await {
                Ok(()) | Err(Error::NotFound { .. }) => Ok(()),
                Err(error) => Err(error),
            }
        })
    }
}

/// Checks that a folder has no more objects than a dataset or a checkpoint.
fn check_count(objects: usize) -> io::Result<()> {
    match objects <= MAX_OBJECTS {
        true => Ok(()),
        false => {
            let what = format!("it has more than {MAX_OBJECTS} objects");
            Err(io::Error::new(io::ErrorKind::InvalidData, what))
        }
    }
}

fn parsed(key: &str) -> io::Result<Key> {
    Key::parse(key).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))
}

fn tag_of_put(put: PutResult) -> ContentTag {
    ContentTag::new(put.e_tag, put.version)
}
