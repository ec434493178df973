//! Versions, events and metrics of a run whose checkpoint is in an object store.
//!
//! A manifest is created or replaced under a condition, so of several trainers that publish a version at the same time
//! one succeeds. Everything that a manifest names is there before.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io::{self, BufReader, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pbg_files::remote::{ContentTag, RemoteFile, RemoteFolder};
use pbg_files::sealed_json::MAX_BYTES;
use pbg_files::{FileError, sealed_json};
use pbg_ledger::Token;

use crate::event_log::EventReader;
use crate::manifest::FORMAT;
use crate::shared_folder::RunObjects;
use crate::{CheckpointError, CheckpointManifest, MANIFEST, metrics, names};

/// Largest size of a part of a trainer's events. The events of one settlement are a few kilobytes.
const MAX_EVENTS: u64 = 64 << 20;
/// How many versions may be missing from a listing because it is older than they are.
const LISTED_LATE: u64 = 2;

impl RunObjects {
    /// Returns the newest complete version; `None` before the first.
    pub(crate) fn newest(&self) -> Result<Option<CheckpointManifest>, CheckpointError> {
        loop {
            let current = self.manifest(MANIFEST)?;
            let tag = current.as_ref().map(|(_, tag)| tag.clone());
            let current = current.map(|(manifest, _)| manifest);
            if let Some(newer) = self.newer_than(current.as_ref())? {
                return Ok(Some(newer));
            }
            // Meanwhile others may have made versions current, and removed those that were looked for.
            let now = self.manifest(MANIFEST)?.map(|(_, tag)| tag);
            if now == tag {
                return Ok(current);
            }
        }
    }

    /// Returns the newest complete version after the current one.
    fn newer_than(
        &self,
        current: Option<&CheckpointManifest>,
    ) -> Result<Option<CheckpointManifest>, CheckpointError> {
        let version = current.map_or(0, |manifest| manifest.version);
        let listed = self.list()?;
        let numbered = listed
            .iter()
            .filter_map(|file| names::parse_numbered(&file.name));
        // A listing may be older than the next version.
        let next = (1..=LISTED_LATE).map(|later| version.saturating_add(later));
        let newer: BTreeSet<u64> = numbered
            .filter(|number| *number > version)
            .chain(next)
            .collect();
        for version in newer.into_iter().rev() {
            let found = match self.manifest(&names::numbered_manifest(version)) {
                // One that is too large was not written by a trainer.
                Err(CheckpointError::File(error)) if !error.is_damage() => {
                    return Err(error.into());
                }
                found => found.ok().flatten(),
            };
            if let Some((manifest, _)) = found
                && manifest.version == version
                && self.is_complete(&manifest, &listed)?
            {
                return Ok(Some(manifest));
            }
        }
        Ok(None)
    }

    /// Returns whether all files of a manifest exist with the recorded sizes. What `listed` lacks is looked up.
    fn is_complete(
        &self,
        manifest: &CheckpointManifest,
        listed: &[RemoteFile],
    ) -> Result<bool, FileError> {
        for (name, summary) in &manifest.files {
            let found = listed.binary_search_by(|file| file.name.as_str().cmp(name));
            let size = match found {
                Ok(at) => Some(listed[at].size),
                Err(_) => self.size_if_any(name)?,
            };
            if size != Some(summary.size) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns the manifest of the version that was preserved as `name`.
    pub(crate) fn preserved(
        &self,
        name: &str,
    ) -> Result<Option<CheckpointManifest>, CheckpointError> {
        let found = self.manifest(&format!("{name}/{MANIFEST}"))?;
        Ok(found.map(|(manifest, _)| manifest))
    }

    fn manifest(
        &self,
        name: &str,
    ) -> Result<Option<(CheckpointManifest, ContentTag)>, CheckpointError> {
        let Some((bytes, tag)) = self.read_manifest(name)? else {
            return Ok(None);
        };
        let path = self.path_of(name);
        let manifest: CheckpointManifest = sealed_json::unseal(&bytes, &path, FORMAT)?.body;
        let checked = manifest.check();
        checked.map_err(|what| CheckpointError::damaged(&path, what))?;
        Ok(Some((manifest, tag)))
    }

    /// Creates the manifest of a version under its number.
    pub(crate) fn publish(&self, manifest: &CheckpointManifest) -> Result<(), CheckpointError> {
        let name = names::numbered_manifest(manifest.version);
        let sealed = manifest.seal(&self.path_of(&name))?;
        match self.create_once(&name, &sealed)? {
            true => Ok(()),
            false => {
                let cause = io::ErrorKind::AlreadyExists.into();
                Err(FileError::new("create", &self.path_of(&name), cause).into())
            }
        }
    }

    /// Creates an object with a content that no other trainer writes. Returns false if there is another object of this
    /// name. If the store says so because an earlier attempt arrived whose answer was lost, the content is this one.
    fn create_once(&self, name: &str, bytes: &[u8]) -> Result<bool, FileError> {
        let written = self.attempt("create", name, || self.remote.create(name, bytes))?;
        if written.is_some() {
            return Ok(true);
        }
        let found = self.attempt("read", name, || self.remote.read(name, MAX_BYTES))?;
        Ok(found.bytes == bytes)
    }

    /// Replaces `manifest.json` with a published version, unless it already is as new or newer.
    pub(crate) fn make_current(
        &self,
        manifest: &CheckpointManifest,
    ) -> Result<(), CheckpointError> {
        let sealed = manifest.seal(&self.path_of(MANIFEST))?;
        loop {
            let current = self.manifest(MANIFEST)?;
            if let Some((current, _)) = &current
                && current.version >= manifest.version
            {
                return self.show_metrics(current);
            }
            let written = self.attempt("write", MANIFEST, || match &current {
                Some((_, tag)) => self.remote.replace(MANIFEST, &sealed, tag),
                None => self.remote.create(MANIFEST, &sealed),
            })?;
            if written.is_some() {
                break;
            }
        }
        self.show_metrics(manifest)?;
        for file in self.list()? {
            let numbered = names::parse_numbered(&file.name);
            let metrics = names::parse_metrics(&file.name);
            // The metrics of this version stay: the next version begins with them.
            if numbered
                .or(metrics)
                .is_some_and(|version| version < manifest.version)
            {
                self.attempt("remove", &file.name, || self.remote.remove(&file.name))?;
            }
        }
        Ok(())
    }

    /// Copies the metrics of the current version to `metrics.jsonl`, for readers.
    fn show_metrics(&self, current: &CheckpointManifest) -> Result<(), CheckpointError> {
        let Some(staged) = metrics::staged(current) else {
            return Ok(());
        };
        let to = metrics::NAME;
        // Lines that are known only later may follow.
        let shown = self.size_if_any(to)?.unwrap_or(0);
        if shown >= current.metrics_length && shown > 0 {
            return Ok(());
        }
        match self.duplicate(&staged, to) {
            // A newer version became current meanwhile.
            Err(error) if error.is_not_found() => Ok(()),
            copied => Ok(copied?),
        }
    }

    /// Keeps the version of `manifest` as the checkpoint `name`. Its previous content stays complete until its manifest is
    /// replaced.
    pub(crate) fn preserve(
        &self,
        manifest: &CheckpointManifest,
        name: &str,
    ) -> Result<(), CheckpointError> {
        let path = format!("{name}/{MANIFEST}");
        let sealed = manifest.seal(&self.path_of(&path))?;
        let newest = self.newest()?.map_or(0, |newest| newest.version);
        loop {
            // A damaged manifest is replaced.
            let bytes = self.read_manifest(&path)?;
            let held = self.preserved(name).unwrap_or_default();
            // Another trainer has preserved a later version of this run. One that is newer than all belongs to another
            // run.
            let later = manifest.version + 1..=newest;
            if held
                .as_ref()
                .is_some_and(|held| later.contains(&held.version))
            {
                return Ok(());
            }
            for (file, summary) in &manifest.files {
                let is_there = held.as_ref().and_then(|held| held.files.get(file)) == Some(summary);
                if !is_there {
                    self.duplicate(file, &format!("{name}/{file}"))?;
                }
            }
            let written = self.attempt("write", &path, || match &bytes {
                Some((_, tag)) => self.remote.replace(&path, &sealed, tag),
                None => self.remote.create(&path, &sealed),
            })?;
            if let Some(tag) = written {
                return self.sweep_preserved(held.as_ref(), manifest, name, &tag);
            }
        }
    }

    /// Removes the files of the version `before` from the preserved checkpoint `name`, whose manifest has the tag `tag`
    /// unless another trainer has replaced it.
    fn sweep_preserved(
        &self,
        before: Option<&CheckpointManifest>,
        manifest: &CheckpointManifest,
        name: &str,
        tag: &ContentTag,
    ) -> Result<(), CheckpointError> {
        let files = before.iter().flat_map(|before| before.files.keys());
        for file in files.filter(|file| !manifest.files.contains_key(*file)) {
            // Another trainer may preserve a version that has this file.
            let found = self.read_manifest(&format!("{name}/{MANIFEST}"))?;
            if found.is_none_or(|(_, now)| now != *tag) {
                return Ok(());
            }
            let object = format!("{name}/{file}");
            self.attempt("remove", &object, || self.remote.remove(&object))?;
        }
        Ok(())
    }

    /// Appends lines that are known only after `manifest` became current to `metrics.jsonl`.
    pub(crate) fn append_metrics(
        &self,
        manifest: &CheckpointManifest,
        lines: &[u8],
    ) -> Result<(), CheckpointError> {
        let name = metrics::NAME;
        let found = match self.remote.look_up(name) {
            Ok(found) => found,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(cause) => return Err(FileError::new("open", &self.path_of(name), cause).into()),
        };
        if found.size != manifest.metrics_length {
            return Ok(());
        }
        self.extend(&found, lines)?;
        Ok(())
    }

    /// Writes events of a trainer as a new object. Returns how many bytes of events it has written until now.
    pub(crate) fn append_events(
        &self,
        token: Token,
        told: &AtomicU64,
        lines: &[u8],
    ) -> Result<u64, CheckpointError> {
        let mut from = told.load(Ordering::Relaxed);
        while !lines.is_empty() {
            let name = names::event_part(token, from);
            if self.create_once(&name, lines)? {
                from += lines.len() as u64;
                break;
            }
            // An earlier call failed, although its object arrived.
            from += self.attempt("open", &name, || match self.remote.look_up(&name)?.size {
                0 => Err(io::ErrorKind::AlreadyExists.into()),
                size => Ok(size),
            })?;
        }
        told.store(from, Ordering::Relaxed);
        Ok(from)
    }

    /// Returns a reader of the bytes `from..to` of a trainer's events. `from` is where one of its objects begins, as
    /// every number is that the ledger records.
    pub(crate) fn read_events(
        &self,
        token: Token,
        from: u64,
        to: u64,
    ) -> Result<EventReader, CheckpointError> {
        let listed: HashMap<u64, u64> = self.event_parts(token)?.into_iter().collect();
        let mut parts = Vec::new();
        let mut end = from;
        while end < to {
            let name = names::event_part(token, end);
            // A listing may be older than the object.
            let size = match listed.get(&end) {
                Some(size) => Some(*size),
                None => self.size_if_any(&name)?,
            };
            let next = size.filter(|size| *size > 0);
            let Some(next) = next.and_then(|size| end.checked_add(size)) else {
                break;
            };
            end = next;
            parts.push(name);
        }
        let remote = Arc::clone(&self.remote);
        let unread = parts.into_iter().rev().collect();
        let parts = EventParts {
            remote,
            unread,
            part: io::Cursor::default(),
        };
        let source: Box<dyn Read + Send> = Box::new(parts.take(end.min(to).saturating_sub(from)));
        let path = self.path_of(&names::events(token));
        let lost = to.saturating_sub(end);
        Ok(EventReader::new(path, Some(BufReader::new(source)), lost))
    }

    /// Removes the events of a trainer.
    pub(crate) fn remove_events(&self, token: Token) -> Result<(), CheckpointError> {
        for (first, _) in self.event_parts(token)? {
            let name = names::event_part(token, first);
            self.attempt("remove", &name, || self.remote.remove(&name))?;
        }
        Ok(())
    }

    /// Removes the objects whose events end before the bytes `told` of each trainer.
    pub(crate) fn trim_events(&self, told: &BTreeMap<Token, u64>) -> Result<(), CheckpointError> {
        for file in self.list()? {
            let part = names::parse_event_part(&file.name);
            let is_told = part.is_some_and(|(token, first)| {
                let end = first.saturating_add(file.size);
                told.get(&token).is_some_and(|told| end <= *told)
            });
            if is_told {
                self.attempt("remove", &file.name, || self.remote.remove(&file.name))?;
            }
        }
        Ok(())
    }

    /// Lists the objects with events of a trainer: the first byte and the size of each.
    fn event_parts(&self, token: Token) -> Result<Vec<(u64, u64)>, FileError> {
        let listed = self.list()?.into_iter();
        let parts = listed.filter_map(|file| {
            let (of, first) = names::parse_event_part(&file.name)?;
            (of == token).then_some((first, file.size))
        });
        Ok(parts.collect())
    }
}

/// Reader of a trainer's events, which are in several objects, one of them in memory.
struct EventParts {
    remote: Arc<dyn RemoteFolder>,
    /// Names of the objects that are not read yet, the last one first.
    unread: Vec<String>,
    part: io::Cursor<Vec<u8>>,
}

impl Read for EventParts {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.part.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            let Some(name) = self.unread.pop() else {
                return Ok(0);
            };
            self.part = io::Cursor::new(self.remote.read(&name, MAX_EVENTS)?.bytes);
        }
    }
}
