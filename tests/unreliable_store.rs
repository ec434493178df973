//! A real store whose answers get lost, whose listings are old, or that ignores conditions, when a test says so. Each
//! package of tests that needs one includes this file.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use pbg_files::remote::{
    ContentTag, LocalCopy, ObjectStores, Patience, RemoteContent, RemoteFile, RemoteFolder,
    RemoteWriter,
};
use pbg_objects::CopiedFolders;

/// What goes wrong now.
#[derive(Debug, Default)]
pub(crate) struct Troubles {
    /// Whether the first answer to each conditional write is lost, so that it is sent again.
    pub(crate) loses_answers: AtomicBool,
    /// Whether listings are those of the time when this was set.
    pub(crate) lists_late: AtomicBool,
    /// Whether conditions of writes are ignored, as some stores do.
    pub(crate) ignores_conditions: AtomicBool,
    listed: Mutex<Option<Vec<RemoteFile>>>,
}

impl Troubles {
    fn is(flag: &AtomicBool) -> bool {
        flag.load(Ordering::Relaxed)
    }

    /// Lists what `now` lists, unless listings are late.
    fn list(&self, now: io::Result<Vec<RemoteFile>>) -> io::Result<Vec<RemoteFile>> {
        let mut listed = self.listed.lock().unwrap();
        if !Self::is(&self.lists_late) {
            *listed = None;
            return now;
        }
        if listed.is_none() {
            *listed = Some(now?);
        }
        Ok(listed.clone().unwrap_or_default())
    }
}

/// Store of a test, whose folders have `troubles`.
pub(crate) struct UnreliableStore {
    store: CopiedFolders,
    pub(crate) troubles: Arc<Troubles>,
}

impl UnreliableStore {
    /// Creates the store on top of the one that `variables` of the environment name. Its copies are below `folder`.
    pub(crate) fn new(folder: &Path, variables: [(&'static str, String); 4]) -> Self {
        let settings = variables
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value));
        let notice = Box::new(|_: &str| ());
        Self {
            store: CopiedFolders::new(folder.to_owned(), settings.collect(), notice),
            troubles: Arc::default(),
        }
    }
}

impl ObjectStores for UnreliableStore {
    fn open(&self, url: &str, patience: Patience) -> io::Result<Arc<dyn RemoteFolder>> {
        Ok(Arc::new(UnreliableFolder {
            folder: self.store.open(url, patience)?,
            troubles: Arc::clone(&self.troubles),
        }))
    }

    fn copy(&self, url: &str, wanted: &dyn Fn(&str) -> bool) -> io::Result<LocalCopy> {
        self.store.copy(url, wanted)
    }

    fn copy_object(&self, url: &str, name: &str) -> io::Result<LocalCopy> {
        self.store.copy_object(url, name)
    }

    fn outgoing(&self, url: &str) -> io::Result<PathBuf> {
        self.store.outgoing(url)
    }
}

#[derive(Debug)]
struct UnreliableFolder {
    folder: Arc<dyn RemoteFolder>,
    troubles: Arc<Troubles>,
}

impl RemoteFolder for UnreliableFolder {
    fn url(&self) -> &str {
        self.folder.url()
    }

    fn list(&self) -> io::Result<Vec<RemoteFile>> {
        self.folder.list()
    }

    fn list_here(&self) -> io::Result<Vec<RemoteFile>> {
        self.troubles.list(self.folder.list_here())
    }

    fn list_below(&self, folder: &str) -> io::Result<Vec<RemoteFile>> {
        self.folder.list_below(folder)
    }

    fn look_up(&self, name: &str) -> io::Result<RemoteFile> {
        self.folder.look_up(name)
    }

    fn read(&self, name: &str, limit: u64) -> io::Result<RemoteContent> {
        self.folder.read(name, limit)
    }

    fn download(&self, file: &RemoteFile, to: &Path) -> io::Result<()> {
        self.folder.download(file, to)
    }

    fn upload(&self, from: &Path, name: &str) -> io::Result<()> {
        self.folder.upload(from, name)
    }

    fn reader(&self, file: &RemoteFile) -> io::Result<Box<dyn io::Read + Send>> {
        self.folder.reader(file)
    }

    fn writer(&self, name: &str) -> io::Result<Box<dyn RemoteWriter>> {
        self.folder.writer(name)
    }

    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.folder.put(name, bytes)
    }

    fn create(&self, name: &str, bytes: &[u8]) -> io::Result<Option<ContentTag>> {
        if Troubles::is(&self.troubles.ignores_conditions) {
            self.folder.put(name, bytes)?;
            return Ok(Some(self.folder.look_up(name)?.tag));
        }
        if Troubles::is(&self.troubles.loses_answers) {
            self.folder.create(name, bytes)?;
        }
        self.folder.create(name, bytes)
    }

    fn replace(
        &self,
        name: &str,
        bytes: &[u8],
        expected: &ContentTag,
    ) -> io::Result<Option<ContentTag>> {
        if Troubles::is(&self.troubles.loses_answers) {
            self.folder.replace(name, bytes, expected)?;
        }
        self.folder.replace(name, bytes, expected)
    }

    fn duplicate(&self, from: &str, to: &str) -> io::Result<()> {
        self.folder.duplicate(from, to)
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.folder.remove(name)
    }
}
