//! The files of a server and the memory that they take.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use pbg_core::lock::lock;

/// Time after which parts of an upload that was not completed are dropped when memory is needed.
const ABANDONED: Duration = Duration::from_secs(600);
/// Largest number of uploads that are not completed.
const MAX_UPLOADS: usize = 4096;
/// Largest number of objects and of parts of uploads, whose names take memory, too: four versions of the partitions of the
/// largest grid, for all tables.
const MAX_ENTRIES: usize = 1 << 18;
/// Greatest length of a name in bytes, as in S3.
pub(crate) const MAX_NAME: usize = 1024;
/// Largest number of a part, as in S3.
const MAX_PARTS: u32 = 10_000;

/// Reason for which a content is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotTaken {
    #[error("the memory of this server is full: {wanted} bytes are wanted, {free} are free")]
    Full { wanted: u64, free: u64 },
    #[error("this server has {MAX_ENTRIES} objects and parts, and takes no more")]
    TooManyEntries,
    #[error("the name of an object has more than {MAX_NAME} bytes")]
    Name,
    #[error("there is no such upload")]
    NoUpload,
    #[error("too many uploads are not completed")]
    TooManyUploads,
    #[error("the number of a part is not from 1 to {MAX_PARTS}")]
    PartNumber,
    #[error("there is an object of this name")]
    Exists,
}

/// A file.
#[derive(Clone, Debug)]
pub(crate) struct StoredObject {
    /// Its content, in the pieces in which it arrived.
    pub(crate) pieces: Arc<Vec<Bytes>>,
    /// Size in bytes.
    pub(crate) size: u64,
    /// Number of this content, unlike that of any other of this server.
    pub(crate) tag: u64,
    /// Time at which it was complete, since 1970.
    pub(crate) written: Duration,
}

impl StoredObject {
    /// Returns the bytes of `range`, which must lie within the object, without copying them.
    pub(crate) fn slice(&self, range: &Range<u64>) -> Vec<Bytes> {
        let (mut start, mut slices) = (0, Vec::new());
        for piece in &*self.pieces {
            let end = start + piece.len() as u64;
            let (from, to) = (range.start.max(start), range.end.min(end));
            if from < to {
                slices.push(piece.slice((from - start) as usize..(to - start) as usize));
            }
            start = end;
        }
        slices
    }
}

/// Upload of an object in parts.
struct Upload {
    name: String,
    parts: BTreeMap<u32, Bytes>,
    touched: Instant,
}

#[derive(Default)]
struct Contents {
    objects: BTreeMap<String, StoredObject>,
    uploads: BTreeMap<u64, Upload>,
    /// Number of parts of all uploads.
    parts: usize,
    /// Bytes of objects, of parts, and of contents under way.
    held: u64,
    numbers: u64,
}

impl Contents {
    fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    fn drop_upload(&mut self, upload: u64) -> Option<Upload> {
        let upload = self.uploads.remove(&upload)?;
        self.parts -= upload.parts.len();
        self.held -= upload
            .parts
            .values()
            .map(|part| part.len() as u64)
            .sum::<u64>();
        Some(upload)
    }

    /// Whether there is no place for another name, once abandoned uploads are gone.
    fn is_full(&mut self) -> bool {
        if self.objects.len() + self.parts >= MAX_ENTRIES {
            self.drop_abandoned();
        }
        self.objects.len() + self.parts >= MAX_ENTRIES
    }

    fn drop_abandoned(&mut self) {
        let is_old = |upload: &Upload| pbg_clock::elapsed(upload.touched) > ABANDONED;
        let old = self.uploads.iter().filter(|(_, upload)| is_old(upload));
        for upload in old.map(|(id, _)| *id).collect::<Vec<u64>>() {
            self.drop_upload(upload);
        }
    }
}

/// Files in memory, of a bounded size together.
pub(crate) struct ObjectMemory {
    limit: u64,
    contents: Mutex<Contents>,
}

/// Memory for a content that has not arrived yet. Dropping it gives the memory back.
pub(crate) struct Reservation<'m> {
    memory: &'m ObjectMemory,
    bytes: u64,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        lock(&self.memory.contents).held -= self.bytes;
    }
}

impl ObjectMemory {
    pub(crate) fn new(limit: u64) -> Self {
        Self {
            limit,
            contents: Mutex::default(),
        }
    }

    /// Returns the number of bytes that are taken.
    pub(crate) fn held(&self) -> u64 {
        lock(&self.contents).held
    }

    /// Reserves memory for a content.
    ///
    /// # Errors
    /// When there is not enough.
    pub(crate) fn reserve(&self, bytes: u64) -> Result<Reservation<'_>, NotTaken> {
        let mut contents = lock(&self.contents);
        if bytes > self.limit - contents.held {
            contents.drop_abandoned();
        }
        let free = self.limit - contents.held;
        if bytes > free {
            return Err(NotTaken::Full {
                wanted: bytes,
                free,
            });
        }
        contents.held += bytes;
        Ok(Reservation {
            memory: self,
            bytes,
        })
    }

    /// Keeps a content as the object `name`, which it replaces unless `must_be_new` is set. Returns its tag.
    ///
    /// # Errors
    /// When there is such an object and there must be none, or there are too many.
    pub(crate) fn put(
        &self,
        name: &str,
        content: Bytes,
        reserved: Reservation<'_>,
        must_be_new: bool,
    ) -> Result<u64, NotTaken> {
        let mut contents = lock(&self.contents);
        let exists = contents.objects.contains_key(name);
        let refusal = match exists {
            true => must_be_new.then_some(NotTaken::Exists),
            false => contents.is_full().then_some(NotTaken::TooManyEntries),
        };
        if let Some(refusal) = refusal {
            drop(contents);
            return Err(refusal);
        }
        let tag = keep(&mut contents, name, vec![content]);
        drop(contents);
        std::mem::forget(reserved);
        Ok(tag)
    }

    /// Begins the upload of an object in parts. Returns its number.
    ///
    /// # Errors
    /// When there are too many uploads.
    pub(crate) fn begin_upload(&self, name: &str) -> Result<u64, NotTaken> {
        let mut contents = lock(&self.contents);
        if contents.uploads.len() >= MAX_UPLOADS {
            contents.drop_abandoned();
        }
        if contents.uploads.len() >= MAX_UPLOADS {
            return Err(NotTaken::TooManyUploads);
        }
        let number = contents.number();
        let upload = Upload {
            name: name.to_owned(),
            parts: BTreeMap::new(),
            touched: pbg_clock::now(),
        };
        contents.uploads.insert(number, upload);
        Ok(number)
    }

    /// Keeps a part of an upload.
    ///
    /// # Errors
    /// When there is no such upload, or the number is not allowed.
    pub(crate) fn put_part(
        &self,
        (upload, part): (u64, u32),
        content: Bytes,
        reserved: Reservation<'_>,
    ) -> Result<(), NotTaken> {
        if !(1..=MAX_PARTS).contains(&part) {
            return Err(NotTaken::PartNumber);
        }
        let mut contents = lock(&self.contents);
        let is_full = contents.is_full();
        let found = contents.uploads.get_mut(&upload);
        let refusal = match &found {
            None => Some(NotTaken::NoUpload),
            Some(found) if is_full && !found.parts.contains_key(&part) => {
                Some(NotTaken::TooManyEntries)
            }
            Some(_) => None,
        };
        let (Some(found), None) = (found, refusal) else {
            drop(contents);
            return Err(refusal.unwrap_or(NotTaken::NoUpload));
        };
        found.touched = pbg_clock::now();
        // A part that is sent again replaces the first.
        match found.parts.insert(part, content) {
            Some(replaced) => contents.held -= replaced.len() as u64,
            None => contents.parts += 1,
        }
        drop(contents);
        std::mem::forget(reserved);
        Ok(())
    }

    /// Makes an object of the parts of an upload. Returns its tag.
    ///
    /// # Errors
    /// When there is no such upload of this name.
    pub(crate) fn complete_upload(&self, name: &str, upload: u64) -> Result<u64, NotTaken> {
        let mut contents = lock(&self.contents);
        match contents.uploads.remove(&upload) {
            Some(found) if found.name == name => {
                contents.parts -= found.parts.len();
                let pieces = found.parts.into_values().collect();
                Ok(keep(&mut contents, name, pieces))
            }
            Some(other) => {
                contents.uploads.insert(upload, other);
                Err(NotTaken::NoUpload)
            }
            None => Err(NotTaken::NoUpload),
        }
    }

    /// Drops an upload.
    pub(crate) fn abort_upload(&self, upload: u64) {
        lock(&self.contents).drop_upload(upload);
    }

    /// Returns the object `name`.
    pub(crate) fn get(&self, name: &str) -> Option<StoredObject> {
        lock(&self.contents).objects.get(name).cloned()
    }

    /// Removes the object `name`, if there is one.
    pub(crate) fn remove(&self, name: &str) {
        let mut contents = lock(&self.contents);
        if let Some(removed) = contents.objects.remove(name) {
            contents.held -= removed.size;
        }
    }

    /// Returns at most `limit` objects whose names begin with `prefix` and come after `after`, sorted by name.
    pub(crate) fn list(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
    ) -> Vec<(String, StoredObject)> {
        let contents = lock(&self.contents);
        let first = prefix.max(after).to_owned();
        let found = contents.objects.range(first..);
        let found = found.filter(|(name, _)| after.is_empty() || name.as_str() > after);
        let found = found.take_while(|(name, _)| name.starts_with(prefix));
        found
            .take(limit)
            .map(|(name, object)| (name.clone(), object.clone()))
            .collect()
    }
}

/// Keeps an object whose bytes are counted already. Returns its tag.
fn keep(contents: &mut Contents, name: &str, pieces: Vec<Bytes>) -> u64 {
    let tag = contents.number();
    let object = StoredObject {
        size: pieces.iter().map(|piece| piece.len() as u64).sum(),
        pieces: Arc::new(pieces),
        tag,
        written: pbg_clock::unix_time(),
    };
    if let Some(replaced) = contents.objects.insert(name.to_owned(), object) {
        contents.held -= replaced.size;
    }
    tag
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn content(bytes: &[u8]) -> Bytes {
        Bytes::copy_from_slice(bytes)
    }

    fn put(memory: &ObjectMemory, name: &str, bytes: &[u8]) -> Result<u64, NotTaken> {
        let reserved = memory.reserve(bytes.len() as u64)?;
        memory.put(name, content(bytes), reserved, false)
    }

    #[test]
    fn memory_is_bounded_and_given_back() {
        let memory = ObjectMemory::new(10);
        put(&memory, "a", b"12345").unwrap();
        let reserved = memory.reserve(5).unwrap();
        let full = NotTaken::Full { wanted: 1, free: 0 };
        assert_eq!(put(&memory, "b", b"1"), Err(full));
        drop(reserved);
        assert_eq!(memory.held(), 5);
        // A replacement is there before the first is dropped.
        put(&memory, "a", b"123").unwrap();
        assert_eq!(memory.held(), 3);
        let reserved = memory.reserve(2).unwrap();
        assert_eq!(
            memory.put("a", content(b"12"), reserved, true),
            Err(NotTaken::Exists)
        );
        memory.remove("a");
        memory.remove("a");
        assert_eq!(memory.held(), 0);
    }

    #[test]
    fn an_upload_is_complete_or_absent() {
        let memory = ObjectMemory::new(10);
        let upload = memory.begin_upload("a").unwrap();
        let part = |number, bytes: &[u8]| {
            let reserved = memory.reserve(bytes.len() as u64).unwrap();
            memory.put_part((upload, number), content(bytes), reserved)
        };
        part(2, b"45").unwrap();
        part(1, b"12").unwrap();
        part(1, b"123").unwrap();
        assert_eq!(part(0, b"1"), Err(NotTaken::PartNumber));
        assert_eq!(memory.held(), 5);
        assert!(memory.get("a").is_none());
        assert_eq!(memory.complete_upload("b", upload), Err(NotTaken::NoUpload));
        memory.complete_upload("a", upload).unwrap();
        assert_eq!(memory.complete_upload("a", upload), Err(NotTaken::NoUpload));
        assert_eq!(memory.get("a").unwrap().slice(&(1..4)).concat(), b"234");
        let other = memory.begin_upload("b").unwrap();
        let reserved = memory.reserve(5).unwrap();
        memory
            .put_part((other, 1), content(b"12345"), reserved)
            .unwrap();
        memory.abort_upload(other);
        assert_eq!(memory.held(), 5);
    }

    #[test]
    fn as_many_objects_and_parts_as_their_names_have_room_for() {
        let memory = ObjectMemory::new(10);
        let upload = memory.begin_upload("a").unwrap();
        let part = |number| {
            let reserved = memory.reserve(0).unwrap();
            memory.put_part((upload, number), Bytes::new(), reserved)
        };
        for number in 1..=MAX_PARTS {
            part(number).unwrap();
        }
        for number in 0..MAX_ENTRIES - MAX_PARTS as usize {
            put(&memory, &number.to_string(), b"").unwrap();
        }
        assert_eq!(put(&memory, "b", b""), Err(NotTaken::TooManyEntries));
        // What is there can be replaced.
        put(&memory, "0", b"12").unwrap();
        part(1).unwrap();
        memory.remove("0");
        put(&memory, "b", b"").unwrap();
        memory.abort_upload(upload);
        put(&memory, "c", b"").unwrap();
    }

    proptest! {
        #[test]
        fn a_listing_has_every_object_once(
            names in proptest::collection::btree_set("[ab]{1,4}", 0..20),
            prefix in "[ab]{0,2}",
            limit in 1_usize..5,
        ) {
            let memory = ObjectMemory::new(1000);
            for name in &names {
                put(&memory, name, b"1").unwrap();
            }
            let (mut listed, mut after) = (Vec::new(), String::new());
            loop {
                let page = memory.list(&prefix, &after, limit);
                let Some((last, _)) = page.last() else { break };
                after.clone_from(last);
                listed.extend(page.into_iter().map(|(name, _)| name));
            }
            let wanted = names.into_iter().filter(|name| name.starts_with(&prefix));
            prop_assert_eq!(listed, wanted.collect::<Vec<_>>());
        }
    }
}
