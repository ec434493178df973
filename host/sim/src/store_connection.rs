//! Connections of simulated processes to the object store of their run.

use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{self, Cursor, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pbg_core::lock::lock;
use pbg_files::remote::{
    self, ContentTag, LocalCopy, ObjectStores, Patience, RemoteContent, RemoteFile, RemoteFolder,
    RemoteWriter,
};

use crate::fault::SimFault;
use crate::store::{Condition, SharedStore, StoredContent};
use crate::world::Process;

/// Time for which requests are repeated that are cheap to repeat.
const BRIEF: Duration = Duration::from_secs(5);
/// Time for which other requests are repeated.
const LONG: Duration = Duration::from_secs(30);

/// Stores of the runs that are simulated now, by the URLs of their checkpoints.
static STORES: Mutex<Stores> = Mutex::new(Stores {
    by_url: BTreeMap::new(),
    opened: 0,
});

struct Stores {
    by_url: BTreeMap<String, Arc<SharedStore>>,
    opened: u64,
}

/// A store that URLs lead to until this is dropped.
pub(crate) struct OpenedStore {
    pub(crate) store: Arc<SharedStore>,
    pub(crate) url: String,
}

impl OpenedStore {
    /// Returns a URL that no other run of this process has had.
    pub(crate) fn new_url() -> String {
        let mut stores = lock(&STORES);
        stores.opened += 1;
        format!("s3://simulated/{}", stores.opened)
    }

    /// Lets `url` lead to `store`.
    pub(crate) fn new(store: SharedStore, url: &str) -> Self {
        remote::register_stores(SimulatedStores);
        let store = Arc::new(store);
        let stores = &mut lock(&STORES).by_url;
        stores.insert(url.to_owned(), Arc::clone(&store));
        Self {
            store,
            url: url.to_owned(),
        }
    }
}

impl Drop for OpenedStore {
    fn drop(&mut self) {
        lock(&STORES).by_url.remove(&self.url);
    }
}

/// What opens the stores of simulations.
struct SimulatedStores;

fn store_of(url: &str) -> io::Result<Arc<SharedStore>> {
    let store = lock(&STORES).by_url.get(url).cloned();
    store.ok_or_else(|| io::ErrorKind::NotFound.into())
}

/// Returns the size of an object at `url` in bytes; 0 if there is none.
pub(crate) fn size_at(url: &str, name: &str) -> u64 {
    let content = store_of(url).ok().and_then(|store| store.content(name));
    content.map_or(0, |content| content.bytes.len() as u64)
}

fn no_copies() -> io::Error {
    io::Error::other("simulated trainers read no copies")
}

impl ObjectStores for SimulatedStores {
    fn open(&self, url: &str, patience: Patience) -> io::Result<Arc<dyn RemoteFolder>> {
        let store = store_of(url)?;
        Ok(Arc::new(StoreConnection {
            url: url.to_owned(),
            process: store.world.current(),
            store,
            patience: match patience {
                Patience::Brief => BRIEF,
                Patience::Long => LONG,
            },
        }))
    }

    fn copy(&self, _: &str, _: &dyn Fn(&str) -> bool) -> io::Result<LocalCopy> {
        Err(no_copies())
    }

    fn copy_object(&self, _: &str, _: &str) -> io::Result<LocalCopy> {
        Err(no_copies())
    }

    fn outgoing(&self, url: &str) -> io::Result<PathBuf> {
        store_of(url)?.outgoing_folder()
    }
}

/// A process's connection to the store.
#[derive(Clone)]
struct StoreConnection {
    url: String,
    store: Arc<SharedStore>,
    process: Process,
    patience: Duration,
}

impl fmt::Debug for StoreConnection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

fn tag_of(number: u64) -> ContentTag {
    ContentTag::new(Some(number.to_string()), None)
}

fn described(name: &str, content: &StoredContent) -> RemoteFile {
    RemoteFile {
        name: name.to_owned(),
        size: content.bytes.len() as u64,
        tag: tag_of(content.tag),
        modified: content.written.as_millis() as i64,
    }
}

/// Whether a request changes something, so that it matters if it is carried out twice.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RequestKind {
    Read,
    Write,
}

impl StoreConnection {
    fn happens(&self, probability: f64, fault: SimFault) -> bool {
        let world = &self.store.world;
        let is_drawn = probability > 0.0 && world.draw(|dice| dice.chance(probability));
        is_drawn && world.inject(fault)
    }

    fn travel(&self, longest: Duration) {
        let longest = longest.max(Duration::from_millis(1));
        pbg_clock::sleep(self.store.world.draw(|dice| dice.duration(longest)));
    }

    fn timed_out<T>(&self) -> io::Result<T> {
        pbg_clock::sleep(self.patience);
        Err(io::ErrorKind::TimedOut.into())
    }

    /// Waits until the store is reached, and fails if that takes too long.
    fn reach(&self) -> io::Result<()> {
        let begun = pbg_clock::now();
        while !self.store.is_reached(self.process) {
            if pbg_clock::elapsed(begun) >= self.patience {
                return Err(io::ErrorKind::TimedOut.into());
            }
            pbg_clock::sleep(Duration::from_secs(1));
        }
        Ok(())
    }

    /// Makes a request, which may be carried out twice, or not be answered.
    fn request<T>(&self, kind: RequestKind, carry_out: impl Fn() -> T) -> io::Result<T> {
        let faults = self.store.faults();
        self.travel(faults.latency);
        self.reach()?;
        if self.happens(faults.lost_request, SimFault::LostRequest) {
            return self.timed_out();
        }
        let mut answer = carry_out();
        if kind == RequestKind::Write && self.happens(faults.twice, SimFault::RepeatedWrite) {
            self.travel(faults.latency);
            answer = carry_out();
        }
        self.travel(faults.latency);
        self.reach()?;
        match self.happens(faults.lost_answer, SimFault::LostAnswer) {
            true => self.timed_out(),
            false => Ok(answer),
        }
    }

    /// Writes an object, perhaps only after this process has given up.
    fn write(&self, name: &str, bytes: &[u8], condition: Condition) -> io::Result<Option<u64>> {
        if self.happens(self.store.faults().late, SimFault::LateWrite) {
            let (store, name, bytes) = (Arc::clone(&self.store), name.to_owned(), bytes.to_owned());
            let delay = self
                .store
                .world
                .draw(|dice| dice.duration(4 * self.patience));
            let write = move || {
                pbg_clock::sleep(delay);
                store.write(&name, &bytes, condition);
            };
            // The packet is on its way even if the process that has sent it dies.
            let _packet = self.store.world.start_process(Default::default(), write);
            return self.timed_out();
        }
        self.request(RequestKind::Write, || {
            self.store.write(name, bytes, condition)
        })
    }

    fn content(&self, name: &str) -> io::Result<StoredContent> {
        let content = self.request(RequestKind::Read, || self.store.content(name))?;
        content.ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn list_some(&self, is_wanted: impl Fn(&str) -> bool) -> io::Result<Vec<RemoteFile>> {
        let faults = self.store.faults();
        let mut age = Duration::ZERO;
        if self.happens(faults.old_listing, SimFault::OldListing) {
            age = self.store.world.draw(|dice| dice.duration(faults.oldest));
        }
        let listed = self.request(RequestKind::Read, || {
            let time = self.store.world.time().saturating_sub(age);
            self.store.list(time)
        })?;
        let wanted = listed.iter().filter(|(name, _)| is_wanted(name));
        Ok(wanted
            .map(|(name, content)| described(name, content))
            .collect())
    }
}

impl RemoteFolder for StoreConnection {
    fn url(&self) -> &str {
        &self.url
    }

    fn list(&self) -> io::Result<Vec<RemoteFile>> {
        self.list_some(|_| true)
    }

    fn list_here(&self) -> io::Result<Vec<RemoteFile>> {
        self.list_some(|name| !name.contains('/'))
    }

    fn list_below(&self, folder: &str) -> io::Result<Vec<RemoteFile>> {
        self.list_some(|name| name.starts_with(folder))
    }

    fn look_up(&self, name: &str) -> io::Result<RemoteFile> {
        Ok(described(name, &self.content(name)?))
    }

    fn read(&self, name: &str, limit: u64) -> io::Result<RemoteContent> {
        let content = self.content(name)?;
        if content.bytes.len() as u64 > limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(RemoteContent {
            bytes: content.bytes.to_vec(),
            tag: tag_of(content.tag),
        })
    }

    fn download(&self, file: &RemoteFile, to: &Path) -> io::Result<()> {
        let content = self.content(&file.name)?;
        match tag_of(content.tag) == file.tag {
            true => fs::write(to, &*content.bytes),
            false => Err(io::Error::other("the object was replaced")),
        }
    }

    fn upload(&self, from: &Path, name: &str) -> io::Result<()> {
        let bytes = fs::read(from)?;
        self.write(name, &bytes, Condition::Always).map(drop)
    }

    fn reader(&self, file: &RemoteFile) -> io::Result<Box<dyn Read + Send>> {
        let content = self.content(&file.name)?;
        match tag_of(content.tag) == file.tag {
            true => Ok(Box::new(Cursor::new(content.bytes.to_vec()))),
            false => Err(io::Error::other("the object was replaced")),
        }
    }

    fn writer(&self, name: &str) -> io::Result<Box<dyn RemoteWriter>> {
        Ok(Box::new(ObjectBeingWritten {
            connection: self.clone(),
            name: name.to_owned(),
            bytes: Vec::new(),
        }))
    }

    fn put(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        self.write(name, bytes, Condition::Always).map(drop)
    }

    fn create(&self, name: &str, bytes: &[u8]) -> io::Result<Option<ContentTag>> {
        Ok(self.write(name, bytes, Condition::Absent)?.map(tag_of))
    }

    fn replace(
        &self,
        name: &str,
        bytes: &[u8],
        expected: &ContentTag,
    ) -> io::Result<Option<ContentTag>> {
        let expected = expected.etag.parse().unwrap_or(0);
        let written = self.write(name, bytes, Condition::Tag(expected))?;
        Ok(written.map(tag_of))
    }

    fn duplicate(&self, from: &str, to: &str) -> io::Result<()> {
        let copied = self.request(RequestKind::Write, || {
            let content = self.store.content(from)?;
            self.store.write(to, &content.bytes, Condition::Always)
        })?;
        copied
            .map(drop)
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        self.request(RequestKind::Write, || self.store.remove(name))
    }
}

/// Object that a simulated trainer is writing.
struct ObjectBeingWritten {
    connection: StoreConnection,
    name: String,
    bytes: Vec<u8>,
}

impl Write for ObjectBeingWritten {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl RemoteWriter for ObjectBeingWritten {
    fn finish(self: Box<Self>) -> io::Result<()> {
        self.connection.put(&self.name, &self.bytes)
    }
}
