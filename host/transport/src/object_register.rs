//! A register that is an object, written under a condition: that it does not exist, or that its content has the tag that
//! was read. So of several writers after one revision, one succeeds.
//!
//! The object has a line with the revision number, the length of the value, and a checksum of these and the value, before
//! the value itself. A damaged object counts as a register without a value, which the next write replaces.

use std::io;
use std::sync::{Arc, Mutex};

use pbg_core::lock::lock;
use pbg_files::remote::{ContentTag, RemoteFolder};
use pbg_ledger::MAX_COUNT;
use pbg_ledger::transport::{NoAnswer, RegisterEntry, WriteReply};

use crate::register::{MAX_VALUE, first_sequence};
use crate::secret::random;

/// Name of the object.
const NAME: &str = "ledger/record";
/// First word of its content.
const FORMAT: &str = "pbg-host-ledger-1";
/// Largest size of the line before the value in bytes.
const MAX_HEAD: usize = 256;

/// Register of a run in a folder of an object store.
pub(crate) struct ObjectRegister {
    folder: Arc<dyn RemoteFolder>,
    /// What was last read or written.
    known: Mutex<Option<Known>>,
}

/// Content of the object at some time.
#[derive(Clone)]
struct Known {
    tag: ContentTag,
    /// Its revision; `None` if the content is damaged.
    revision: Option<u64>,
}

impl ObjectRegister {
    pub(crate) fn new(folder: Arc<dyn RemoteFolder>) -> Self {
        let known = Mutex::default();
        Self { folder, known }
    }

    /// Returns the tag of the object's content; `None` if there is no object.
    pub(crate) fn tag(&self) -> io::Result<Option<ContentTag>> {
        match self.folder.look_up(NAME) {
            Ok(found) => Ok(Some(found.tag)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn read(&self) -> Result<Option<RegisterEntry>, NoAnswer> {
        let failed = |error: io::Error| NoAnswer(format!("reading the ledger: {error}"));
        let content = match self.folder.read(NAME, (MAX_HEAD + MAX_VALUE) as u64) {
            Ok(content) => content,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                *lock(&self.known) = None;
                return Ok(None);
            }
            // Too large to be a record: damaged.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let tag = self.tag().map_err(failed)?;
                let revision = None;
                *lock(&self.known) = tag.map(|tag| Known { tag, revision });
                return Ok(None);
            }
            Err(error) => return Err(failed(error)),
        };
        let entry = decode(&content.bytes);
        *lock(&self.known) = Some(Known {
            tag: content.tag,
            revision: entry.as_ref().map(|entry| entry.revision),
        });
        Ok(entry)
    }

    pub(crate) fn write(&self, after: Option<u64>, value: &[u8]) -> Result<WriteReply, NoAnswer> {
        let is_known = |known: &Option<Known>| known.as_ref().and_then(|k| k.revision) == after;
        let mut known = lock(&self.known).clone();
        if !is_known(&known) {
            // The caller has read an older revision, or that of another register.
            self.read()?;
            known = lock(&self.known).clone();
            if !is_known(&known) {
                return Ok(WriteReply::Refused);
            }
        }
        let revision = match after {
            Some(revision) => revision + 1,
            None => first_sequence(random().map_err(|error| NoAnswer(error.to_string()))?),
        };
        let bytes = encode(revision, value);
        let written = match &known {
            Some(known) => self.folder.replace(NAME, &bytes, &known.tag),
            None => self.folder.create(NAME, &bytes),
        };
        match written {
            Ok(Some(tag)) => {
                *lock(&self.known) = Some(Known {
                    tag,
                    revision: Some(revision),
                });
                Ok(WriteReply::Accepted(revision))
            }
            Ok(None) => Ok(WriteReply::Refused),
            Err(error) => Err(NoAnswer(format!("writing the ledger: {error}"))),
        }
    }

    /// Returns the only revision that an object keeps; none before the first.
    pub(crate) fn history(&self) -> Result<Vec<RegisterEntry>, NoAnswer> {
        Ok(self.read()?.into_iter().collect())
    }

    /// Removes the object.
    pub(crate) fn forget(&self) -> Result<(), NoAnswer> {
        let removed = self.folder.remove(NAME);
        removed.map_err(|error| NoAnswer(format!("deleting the ledger: {error}")))
    }
}

fn encode(revision: u64, value: &[u8]) -> Vec<u8> {
    let head = format!("{FORMAT} {revision} {}", value.len());
    let crc32 = checksum(&head, value);
    let mut bytes = format!("{head} {crc32:08x}\n").into_bytes();
    bytes.extend_from_slice(value);
    bytes
}

fn checksum(head: &str, value: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(head.as_bytes());
    hasher.update(value);
    hasher.finalize()
}

/// Returns the value and its revision; `None` if the content is not what was written.
fn decode(bytes: &[u8]) -> Option<RegisterEntry> {
    let end = bytes
        .iter()
        .take(MAX_HEAD)
        .position(|byte| *byte == b'\n')?;
    let head = std::str::from_utf8(&bytes[..end]).ok()?;
    let value = &bytes[end + 1..];
    let (summed, crc32) = head.rsplit_once(' ')?;
    let words: Vec<&str> = summed.split(' ').collect();
    let [FORMAT, revision, length] = words[..] else {
        return None;
    };
    let is_complete =
        length.parse() == Ok(value.len()) && crc32 == format!("{:08x}", checksum(summed, value));
    let revision = revision.parse().ok()?;
    let is_valid = is_complete && revision <= MAX_COUNT;
    is_valid.then_some(RegisterEntry {
        revision,
        value: value.to_vec(),
    })
}
