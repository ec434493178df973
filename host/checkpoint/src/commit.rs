//! Commits: the steps that make the next version durable.

use std::collections::BTreeSet;

use super::manifest::RunInfo;
use super::versions::PendingCommit;
use super::{Checkpoint, CheckpointError, CheckpointManifest, MANIFEST, first_commit, names};
use pbg_files as files;

impl Checkpoint {
    /// Returns the current length of `metrics.jsonl` in bytes, which a commit that begins now covers.
    #[must_use]
    pub fn metrics_length(&self) -> u64 {
        self.metrics().length()
    }

    /// Commits everything written so far, together with the files of the last commit that were not rewritten, as a new
    /// version. Returns its number.
    ///
    /// # Errors
    /// As [`Checkpoint::begin`] and [`Checkpoint::commit_step`].
    pub fn commit(&self, run: RunInfo) -> Result<u64, CheckpointError> {
        self.begin(run, self.metrics_length())?;
        loop {
            if let Some(version) = self.commit_step()? {
                return Ok(version);
            }
        }
    }

    /// Begins a commit of everything written so far, together with the files of the last commit that were not
    /// rewritten, and the first `metrics_length` bytes of `metrics.jsonl`.
    ///
    /// # Errors
    /// When an earlier write failed, or another commit is in progress.
    pub fn begin(&self, run: RunInfo, metrics_length: u64) -> Result<(), CheckpointError> {
        let mut versions = self.versions();
        let under_way = || "the previous commit is not complete".to_owned();
        let reason = versions.failure.clone();
        if let Some(failure) = reason.or_else(|| versions.cut.is_some().then(under_way)) {
            let path = self.path().to_owned();
            return Err(CheckpointError::Refused { path, failure });
        }
        let files = std::mem::take(&mut versions.pending);
        versions.cut = Some(PendingCommit {
            run,
            metrics_length,
            files,
            synced: BTreeSet::new(),
        });
        Ok(())
    }

    /// Syncs one more file of the commit in progress to disk. Once all are synced, replaces the manifest and returns
    /// the number of the version.
    ///
    /// # Errors
    /// When the operating system reports an error. A complete version is kept: the last one or, if only its
    /// confirmation failed, this one. All later commits are refused.
    pub fn commit_step(&self) -> Result<Option<u64>, CheckpointError> {
        let next = self.versions().cut.as_ref().and_then(|cut| {
            let mut names = cut.files.values().map(|(name, _)| name);
            names.find(|name| !cut.synced.contains(*name)).cloned()
        });
        let result = match next {
            Some(name) => self.sync(name),
            None => self.finish(),
        };
        result.inspect_err(|error| self.versions().fail(error))
    }

    /// Syncs a file of the commit in progress.
    fn sync(&self, name: String) -> Result<Option<u64>, CheckpointError> {
        self.files.sync(&name)?;
        if let Some(cut) = &mut self.versions().cut {
            cut.synced.insert(name);
        }
        Ok(None)
    }

    /// Replaces the manifest with that of the commit in progress, whose files are synced.
    fn finish(&self) -> Result<Option<u64>, CheckpointError> {
        let (manifest, replaced) = {
            let versions = self.versions();
            let Some(cut) = &versions.cut else {
                return Ok(None);
            };
            let committed = versions.committed.as_ref();
            let mut kept = committed.map(|m| m.files.clone()).unwrap_or_default();
            let is_replaced = |name: &String| cut.files.contains_key(names::key_of(name));
            let replaced: Vec<String> = kept.keys().filter(|n| is_replaced(n)).cloned().collect();
            kept.retain(|name, _| !is_replaced(name));
            kept.extend(cut.files.values().cloned());
            let manifest = CheckpointManifest {
                version: versions.version() + 1,
                run: cut.run.clone(),
                metrics_length: cut.metrics_length,
                files: kept,
                cut: None,
                told: Default::default(),
            };
            (manifest, replaced)
        };
        self.metrics().sync()?;
        let manifest_path = self.path().join(MANIFEST);
        files::sync_folder_of(&manifest_path)?;
        files::replace(&manifest_path, &manifest.seal(&manifest_path)?)?;

        let version = manifest.version;
        let mut versions = self.versions();
        versions.committed = Some(manifest);
        versions.cut = None;
        drop(versions);
        if version == 1 {
            // A leftover marker is harmless if there is a manifest; the next run removes it.
            let _ = first_commit::unmark_uncommitted(self.path());
        }
        self.remove_replaced(replaced);
        Ok(Some(version))
    }

    /// Removes files that the last commit does not name. Files that are being read are kept; the next commit tries
    /// again to remove them.
    fn remove_replaced(&self, names: Vec<String>) {
        let mut held = std::mem::take(&mut self.versions().unremoved);
        held.extend(names);
        // A leftover file is harmless; the next run removes it.
        let remove = |name: &String| files::remove_unless_read(&self.path().join(name));
        held.retain(|name| matches!(remove(name), Ok(false)));
        self.versions().unremoved = held;
    }
}
