//! Versions of a checkpoint that is being written.

use std::collections::{BTreeMap, BTreeSet};

use super::CheckpointManifest;
use super::manifest::RunInfo;
use pbg_files::FileSummary;

/// Versions of a checkpoint, from oldest to newest.
#[derive(Debug, Default)]
pub(super) struct Versions {
    /// The version that a crash would leave.
    pub(super) committed: Option<CheckpointManifest>,
    /// The next version, if its commit has begun.
    pub(super) cut: Option<PendingCommit>,
    /// Files written since the last commit began.
    pub(super) pending: Files,
    /// Names of replaced files that could not be removed because they were being read.
    pub(super) unremoved: BTreeSet<String>,
    /// Message of the first failed write. All later commits are refused.
    pub(super) failure: Option<String>,
}

/// File name and summary, by key of the content.
pub(super) type Files = BTreeMap<String, (String, FileSummary)>;

/// Version that is being committed.
#[derive(Debug)]
pub(super) struct PendingCommit {
    pub(super) run: RunInfo,
    pub(super) metrics_length: u64,
    pub(super) files: Files,
    /// Names of the files that are already synced to disk.
    pub(super) synced: BTreeSet<String>,
}

/// Commit that a write belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TargetCommit {
    /// The commit in progress, begun by [`crate::Checkpoint::begin`].
    InProgress,
    /// The commit after the one in progress, or the next commit if none has begun.
    Next,
}

impl Versions {
    pub(super) fn version(&self) -> u64 {
        let committed = self.committed.as_ref();
        committed.map_or(0, |manifest| manifest.version)
    }

    /// Returns the file of `key` in the version that is being committed or, if it has none, in the last version.
    pub(super) fn committing_file(&self, key: &str) -> Option<(String, FileSummary)> {
        if let Some(found) = self.cut.as_ref().and_then(|cut| cut.files.get(key)) {
            return Some(found.clone());
        }
        let manifest = self.committed.as_ref()?;
        let (name, summary) = manifest.find(key)?;
        Some((name.to_owned(), summary))
    }

    /// Returns the file of `key` as it was last written.
    pub(super) fn latest(&self, key: &str) -> Option<(String, FileSummary)> {
        let pending = self.pending.get(key).cloned();
        pending.or_else(|| self.committing_file(key))
    }

    pub(super) fn fail(&mut self, error: &impl ToString) {
        self.failure.get_or_insert_with(|| error.to_string());
    }
}
