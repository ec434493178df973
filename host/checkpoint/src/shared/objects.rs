//! Versions, events and metrics of a run whose checkpoint is in an object store.
//!
//! A manifest is created or replaced under a condition, so of several trainers that publish a version at the same time
//! one succeeds. Everything that a manifest names is there before.

use std::io::{self, BufReader, Read};
use std::sync::atomic::{AtomicU64, Ordering};

use pbg_files::remote::{ContentTag, RemoteFile};
use pbg_files::{FileError, sealed_json};
use pbg_ledger::Token;

use crate::event_log::EventReader;
use crate::manifest::FORMAT;
use crate::shared_folder::RunObjects;
use crate::{CheckpointError, CheckpointManifest, MANIFEST, metrics, names};

/// Largest size of a part of a trainer's events. The events of one settlement are a few kilobytes.
const MAX_EVENTS: u64 = 64 << 20;

impl RunObjects {
    /// Returns the newest complete version; `None` before the first.
    pub(crate) fn newest(&self) -> Result<Option<CheckpointManifest>, CheckpointError> {
        let current = self.manifest(MANIFEST)?.map(|(manifest, _)| manifest);
        let version = current.as_ref().map_or(0, |manifest| manifest.version);
        let listed = self.list()?;
        let numbered = listed
            .iter()
            .filter_map(|file| names::parse_numbered(&file.name));
        let mut newer: Vec<u64> = numbered.filter(|number| *number > version).collect();
        newer.sort_unstable_by(|a, b| b.cmp(a));
        for version in newer {
            let found = self.manifest(&names::numbered_manifest(version));
            if let Ok(Some((manifest, _))) = found
                && manifest.version == version
                && is_complete(&manifest, &listed)
            {
                return Ok(Some(manifest));
            }
        }
        Ok(current)
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
        self.attempt("create", &name, || {
            match self.remote.create(&name, &sealed)? {
                Some(_) => Ok(()),
                None => Err(io::ErrorKind::AlreadyExists.into()),
            }
        })?;
        Ok(())
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
                return Ok(());
            }
            // They begin with those of the last version, whose manifest says how many of them belong to it.
            if let Some(staged) = metrics::staged(manifest) {
                self.copy_if_there(&staged, metrics::NAME)?;
            }
            let written = self.attempt("write", MANIFEST, || match &current {
                Some((_, tag)) => self.remote.replace(MANIFEST, &sealed, tag),
                None => self.remote.create(MANIFEST, &sealed),
            })?;
            if written.is_some() {
                break;
            }
        }
        for file in self.list()? {
            let numbered = names::parse_numbered(&file.name);
            let is_replaced = numbered.is_some_and(|version| version < manifest.version);
            let metrics = names::parse_metrics(&file.name);
            if is_replaced || metrics.is_some_and(|version| version <= manifest.version) {
                self.attempt("remove", &file.name, || self.remote.remove(&file.name))?;
            }
        }
        Ok(())
    }

    fn copy_if_there(&self, from: &str, to: &str) -> Result<(), FileError> {
        self.attempt("write", to, || match self.remote.duplicate(from, to) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            copied => copied,
        })
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
        loop {
            // A damaged manifest is replaced.
            let bytes = self.read_manifest(&path)?;
            let held = self.preserved(name).unwrap_or_default();
            for (file, summary) in &manifest.files {
                let is_there = held.as_ref().and_then(|held| held.files.get(file)) == Some(summary);
                if !is_there {
                    let to = format!("{name}/{file}");
                    self.attempt("write", &to, || self.remote.duplicate(file, &to))?;
                }
            }
            let written = self.attempt("write", &path, || match &bytes {
                Some((_, tag)) => self.remote.replace(&path, &sealed, tag),
                None => self.remote.create(&path, &sealed),
            })?;
            if written.is_some() {
                return Ok(self.sweep_preserved(manifest, name)?);
            }
        }
    }

    /// Removes the files of earlier versions from the preserved checkpoint `name`.
    fn sweep_preserved(&self, manifest: &CheckpointManifest, name: &str) -> Result<(), FileError> {
        let listed = self.remote.list();
        let listed = listed.map_err(|cause| FileError::new("list", &self.path_of(name), cause))?;
        for RemoteFile { name: object, .. } in &listed {
            let file = object
                .strip_prefix(name)
                .and_then(|rest| rest.strip_prefix('/'));
            let is_old = file.is_some_and(|file| {
                names::parse(file).is_some() && !manifest.files.contains_key(file)
            });
            if is_old {
                self.attempt("remove", object, || self.remote.remove(object))?;
            }
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

    /// Events that this trainer tells are a new object each time.
    pub(crate) fn append_events(
        &self,
        token: Token,
        told: &AtomicU64,
        lines: &[u8],
    ) -> Result<u64, CheckpointError> {
        let mut from = told.load(Ordering::Relaxed);
        while !lines.is_empty() {
            let name = names::event_part(token, from);
            let written = self.attempt("write", &name, || self.remote.create(&name, lines))?;
            if written.is_some() {
                from += lines.len() as u64;
                break;
            }
            // An earlier attempt arrived, although its answer did not. The ledger does not count it.
            from += self.attempt("open", &name, || Ok(self.remote.look_up(&name)?.size))?;
        }
        told.store(from, Ordering::Relaxed);
        Ok(from)
    }

    /// Returns a reader of the bytes `from..to` of a trainer's events.
    pub(crate) fn read_events(
        &self,
        token: Token,
        from: u64,
        to: u64,
    ) -> Result<EventReader, CheckpointError> {
        let mut parts = self.event_parts(token)?;
        parts.sort_unstable_by_key(|(first, _)| *first);
        let mut bytes = Vec::new();
        let mut end = from;
        for (first, file) in parts {
            let last = (first + file.size).min(to);
            if last <= end {
                continue;
            }
            // A gap loses the lines before it is filled.
            if first > end {
                break;
            }
            let read = self.attempt("read", &file.name, || {
                self.remote.read(&file.name, MAX_EVENTS)
            })?;
            let range = (end - first) as usize..(last - first) as usize;
            bytes.extend_from_slice(read.bytes.get(range).unwrap_or_default());
            end = last;
        }
        let lost = to.saturating_sub(end);
        let source: Box<dyn Read + Send> = Box::new(io::Cursor::new(bytes));
        let path = self.path_of(&names::events(token));
        Ok(EventReader::new(path, Some(BufReader::new(source)), lost))
    }

    /// Removes the events of a trainer.
    pub(crate) fn remove_events(&self, token: Token) -> Result<(), CheckpointError> {
        for (_, file) in self.event_parts(token)? {
            self.attempt("remove", &file.name, || self.remote.remove(&file.name))?;
        }
        Ok(())
    }

    fn event_parts(&self, token: Token) -> Result<Vec<(u64, RemoteFile)>, FileError> {
        let listed = self.list()?.into_iter();
        let parts = listed.filter_map(|file| {
            let (of, first) = names::parse_event_part(&file.name)?;
            (of == token).then_some((first, file))
        });
        Ok(parts.collect())
    }
}

/// Returns whether all files of a manifest are in a listing, with the recorded sizes.
fn is_complete(manifest: &CheckpointManifest, listed: &[RemoteFile]) -> bool {
    manifest.files.iter().all(|(name, summary)| {
        let found = listed.binary_search_by(|file| file.name.as_str().cmp(name));
        found.is_ok_and(|at| listed[at].size == summary.size)
    })
}
