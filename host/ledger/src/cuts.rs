//! Checkpoints in the record.

use serde::{Deserialize, Serialize};

use super::Token;

/// Revision that a checkpoint was taken at. It is stored in the manifest, so that a record can recognise the manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CheckpointCut {
    /// Version number of the checkpoint.
    pub version: u64,
    /// Transaction that it began with; none for a single trainer.
    pub begun: Option<CutOrigin>,
}

/// Transaction that a checkpoint began with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CutOrigin {
    /// History of the record.
    pub incarnation: Token,
    /// Revision of the record before the transaction.
    pub revision: u64,
    /// Trainer that writes the checkpoint.
    pub token: Token,
    /// Number of the transaction.
    pub number: u64,
}

/// The checkpoints that a record contains.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Checkpoints {
    /// Newest checkpoint whose manifest is durable.
    pub(super) base: Option<CheckpointCut>,
    /// Checkpoints begun after `base`, the oldest first. The last may be in progress. The others were abandoned when
    /// their trainers were removed, but those trainers may still write their manifest.
    pub(super) cuts: Vec<CheckpointCut>,
    /// Version number of the last checkpoint begun before the current pass; 0 if there is none.
    pub(super) before_pass: u64,
}

impl Checkpoints {
    pub(super) fn after(base: Option<CheckpointCut>) -> Self {
        Self {
            base,
            cuts: Vec::new(),
            // The run is at the position that the manifest describes.
            before_pass: base.map_or(0, |base| base.version.saturating_sub(1)),
        }
    }

    /// Marks all checkpoints so far as belonging to earlier passes.
    pub(super) fn begin_pass(&mut self) {
        self.before_pass = self.newest_version();
    }

    /// Returns the version number of the newest checkpoint if it began in the current pass and no later one is in
    /// progress.
    #[must_use]
    pub fn of_pass(&self) -> Option<u64> {
        let base = self.base.filter(|base| base.version > self.before_pass);
        base.filter(|_| self.cuts.is_empty())
            .map(|base| base.version)
    }

    /// Returns the newest checkpoint whose manifest is durable.
    #[must_use]
    pub const fn base(&self) -> Option<CheckpointCut> {
        self.base
    }

    /// Returns the checkpoints begun after the newest durable one, the oldest first.
    #[must_use]
    pub fn cuts(&self) -> &[CheckpointCut] {
        &self.cuts
    }

    pub(super) fn newest_version(&self) -> u64 {
        let newest = self.cuts.last().or(self.base.as_ref());
        newest.map_or(0, |cut| cut.version)
    }
}

/// Reason for which a record does not match the newest manifest. Such a record is dropped, and a new one is created
/// from the manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StaleRecord {
    /// The record does not contain the cut of the newest manifest.
    #[error("the ledger does not contain checkpoint {}: it is older, or belongs to another history", newest.version)]
    Older {
        /// Cut of the newest manifest.
        newest: CheckpointCut,
    },
    /// The manifest of the record's newest durable checkpoint is missing.
    #[error("the ledger continues from checkpoint {}, whose manifest is missing", base.version)]
    NoManifest {
        /// Newest durable checkpoint of the record.
        base: CheckpointCut,
    },
}
