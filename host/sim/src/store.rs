//! An object store that answers late, twice, never or wrongly, and whose listings may be old. It never loses what it has
//! confirmed, and conditions of writes hold.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pbg_core::lock::lock;

use crate::register::{RegisterWrite, WriteObserver};
use crate::world::{Process, SimWorld};

/// Name of the object with the record of the run.
const RECORD: &str = "ledger/record";

/// Probabilities of faults, for each request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct StoreFaults {
    /// The request does not arrive, however often it is sent.
    pub(crate) lost_request: f64,
    /// The request is carried out, but no answer to it arrives.
    pub(crate) lost_answer: f64,
    /// A write is carried out only after the client has given up.
    pub(crate) late: f64,
    /// A write is carried out, its answer is lost, and it is sent again.
    pub(crate) twice: f64,
    /// A listing is old.
    pub(crate) old_listing: f64,
    /// Greatest age of a listing.
    pub(crate) oldest: Duration,
    /// Longest duration of the way to the store, and of the way back.
    pub(crate) latency: Duration,
}

/// Content of an object.
#[derive(Clone, Debug)]
pub(crate) struct StoredContent {
    pub(crate) bytes: Arc<Vec<u8>>,
    /// Number of this content, unlike that of any other.
    pub(crate) tag: u64,
    pub(crate) written: Duration,
}

/// Condition of a write.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Condition {
    Always,
    /// There is no object.
    Absent,
    /// The object's content has this tag.
    Tag(u64),
}

#[derive(Default)]
struct Contents {
    objects: BTreeMap<String, StoredContent>,
    /// All changes, with the time of each, for old listings.
    changes: Vec<(Duration, String, Option<StoredContent>)>,
    last_tag: u64,
    faults: StoreFaults,
    /// Processes that do not reach the store.
    cut_off: BTreeSet<Process>,
    /// Time until which the store does not answer.
    down_until: Duration,
}

/// The store of a simulation.
pub(crate) struct SharedStore {
    pub(crate) world: Arc<SimWorld>,
    contents: Mutex<Contents>,
    observer: Box<dyn WriteObserver>,
    /// Folder of this run, for files on their way to and from the store.
    folder: PathBuf,
    /// Number of folders for such files.
    outgoing: Mutex<u64>,
}

impl SharedStore {
    /// Creates an empty store. `observer` sees each record that is written to it; files on their way to and from it are
    /// below `folder`.
    pub(crate) fn new(
        world: &Arc<SimWorld>,
        observer: impl WriteObserver + 'static,
        folder: &Path,
    ) -> Self {
        Self {
            world: Arc::clone(world),
            contents: Mutex::default(),
            observer: Box::new(observer),
            folder: folder.to_owned(),
            outgoing: Mutex::default(),
        }
    }

    /// Sets the probabilities of faults.
    pub(crate) fn set_faults(&self, faults: StoreFaults) {
        lock(&self.contents).faults = faults;
    }

    pub(crate) fn faults(&self) -> StoreFaults {
        lock(&self.contents).faults
    }

    /// Cuts a process off from the store, or restores its connection.
    pub(crate) fn cut_off(&self, process: Process, is_cut: bool) {
        let mut contents = lock(&self.contents);
        match is_cut {
            true => contents.cut_off.insert(process),
            false => contents.cut_off.remove(&process),
        };
    }

    /// Makes the store silent until a moment.
    pub(crate) fn stop_until(&self, time: Duration) {
        lock(&self.contents).down_until = time;
    }

    /// Ends all faults.
    pub(crate) fn restore(&self) {
        let mut contents = lock(&self.contents);
        contents.faults = StoreFaults::default();
        contents.cut_off.clear();
        contents.down_until = Duration::ZERO;
    }

    /// Whether a process reaches the store now.
    pub(crate) fn is_reached(&self, process: Process) -> bool {
        let contents = lock(&self.contents);
        !contents.cut_off.contains(&process) && contents.down_until <= self.world.time()
    }

    /// Returns an empty local folder.
    pub(crate) fn outgoing_folder(&self) -> io::Result<PathBuf> {
        let mut number = lock(&self.outgoing);
        *number += 1;
        let folder = self.folder.join(format!("outgoing.{number}"));
        fs::create_dir_all(&folder)?;
        Ok(folder)
    }

    /// Returns the content of an object.
    pub(crate) fn content(&self, name: &str) -> Option<StoredContent> {
        lock(&self.contents).objects.get(name).cloned()
    }

    /// Writes an object if `condition` holds. Returns the tag of its new content.
    pub(crate) fn write(&self, name: &str, bytes: &[u8], condition: Condition) -> Option<u64> {
        let (before, tag) = {
            let mut contents = lock(&self.contents);
            let before = contents.objects.get(name).cloned();
            let holds = match condition {
                Condition::Always => true,
                Condition::Absent => before.is_none(),
                Condition::Tag(tag) => before.as_ref().is_some_and(|before| before.tag == tag),
            };
            if !holds {
                return None;
            }
            contents.last_tag += 1;
            let (tag, written) = (contents.last_tag, self.world.time());
            let bytes = Arc::new(bytes.to_owned());
            contents.change(
                name,
                Some(StoredContent {
                    bytes,
                    tag,
                    written,
                }),
                written,
            );
            (before, tag)
        };
        if name == RECORD {
            let before = before.as_ref().map(|before| record(&before.bytes));
            self.observer.written(&RegisterWrite {
                before,
                value: record(bytes),
                revision: tag,
                has_lost: false,
            });
        }
        Some(tag)
    }

    /// Removes an object.
    pub(crate) fn remove(&self, name: &str) {
        let now = self.world.time();
        lock(&self.contents).change(name, None, now);
    }

    /// Returns the objects as they were at `time`.
    pub(crate) fn list(&self, time: Duration) -> BTreeMap<String, StoredContent> {
        let contents = lock(&self.contents);
        if contents
            .changes
            .last()
            .is_none_or(|(last, ..)| *last <= time)
        {
            return contents.objects.clone();
        }
        let mut listed = BTreeMap::new();
        for (_, name, content) in contents.changes.iter().take_while(|(at, ..)| *at <= time) {
            match content {
                Some(content) => listed.insert(name.clone(), content.clone()),
                None => listed.remove(name),
            };
        }
        listed
    }

    /// Writes all objects to files below `folder`.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub(crate) fn write_all(&self, folder: &Path) -> io::Result<()> {
        for (name, content) in &lock(&self.contents).objects {
            let path = folder.join(name);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent)?;
            }
            fs::write(path, &*content.bytes)?;
        }
        Ok(())
    }
}

impl Contents {
    fn change(&mut self, name: &str, content: Option<StoredContent>, now: Duration) {
        match &content {
            Some(content) => self.objects.insert(name.to_owned(), content.clone()),
            None => self.objects.remove(name),
        };
        self.changes.push((now, name.to_owned(), content));
    }
}

/// Returns the record in the content of its object, which follows a line about it.
fn record(content: &[u8]) -> &[u8] {
    let end = content.iter().position(|byte| *byte == b'\n');
    end.map_or(content, |end| &content[end + 1..])
}
