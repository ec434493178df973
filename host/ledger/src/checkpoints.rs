//! Checkpoints: where one begins, which is the newest, whether a record matches it, and which files can be deleted.

use pbg_core::graph::SidePartition;
use pbg_core::schedule::PassId;
use serde::{Deserialize, Serialize};

use super::{FileId, LedgerRecord, Phase, Token, TransactionError};

/// Most checkpoints begun after the newest durable one. Older ones are forgotten. A manifest that one of them still
/// writes is then treated as belonging to another history: the work since that manifest is lost, the manifest's own is
/// not.
pub const MAX_CUTS: usize = 16;

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

impl CheckpointCut {
    /// Whether `record` is the result of the transaction that the checkpoint began with.
    #[must_use]
    pub fn is_of(&self, record: &LedgerRecord) -> bool {
        self.begun.is_some_and(|begun| {
            begun.incarnation == record.incarnation && begun.revision + 1 == record.revision
        })
    }
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

impl LedgerRecord {
    /// Returns the checkpoint in progress and the trainer that writes it.
    #[must_use]
    pub fn checkpoint_in_progress(&self) -> Option<(Token, CheckpointCut)> {
        let cut = *self.checkpoints.cuts.last()?;
        let token = cut.begun?.token;
        self.trainers.contains_key(&token).then_some((token, cut))
    }

    /// Whether the newest durable checkpoint contains everything that is trained.
    #[must_use]
    pub fn is_saved(&self) -> bool {
        let begun = self.checkpoints.base.and_then(|base| base.begun);
        let begun = begun.filter(|begun| begun.incarnation == self.incarnation);
        // The record before the transaction that begins a checkpoint has the same work as the record after it.
        begun.map_or(0, |begun| begun.revision) >= self.changed
    }

    /// Checks that this record matches the newest manifest, whose cut is `newest`.
    ///
    /// # Errors
    /// Returns the reason for which the record must be dropped.
    pub fn matches_manifest(&self, newest: Option<CheckpointCut>) -> Result<(), StaleRecord> {
        let Checkpoints { base, ref cuts, .. } = self.checkpoints;
        match (base, newest) {
            (base, newest) if base == newest => Ok(()),
            (_, Some(newest)) if cuts.contains(&newest) => Ok(()),
            (Some(base), None) => Err(StaleRecord::NoManifest { base }),
            (Some(base), Some(newest)) if newest.version < base.version => {
                Err(StaleRecord::NoManifest { base })
            }
            (_, Some(newest)) => Err(StaleRecord::Older { newest }),
            (None, None) => Ok(()),
        }
    }

    /// Whether the record names `id` as the file of `group` for the table at `table`.
    #[must_use]
    pub fn names_file(&self, group: SidePartition, table: usize, id: FileId) -> bool {
        let file = self.partition(group).and_then(|p| p.files.get(table));
        file.is_some_and(|file| file.id == id)
    }

    /// Whether no valid record can ever name a file. Preconditions: `self` is the record that the checkpoint began
    /// with, the checkpoint's manifest is durable, [`LedgerAction::Committed`](super::LedgerAction::Committed) is
    /// acknowledged, and the file was listed before the checkpoint began. The caller keeps files that other manifests
    /// name.
    ///
    /// A trainer that had left by the cut settles nothing after it. A trainer that is still in the run settles only
    /// files with counts higher than those it has settled.
    #[must_use]
    pub fn is_garbage(&self, group: SidePartition, table: usize, id: FileId) -> bool {
        let may_still_settle = id.writer.is_some_and(|(writer, count)| {
            let writer = self.trainers.get(&writer);
            writer.is_some_and(|trainer| count > trainer.files)
        });
        !may_still_settle && !self.names_file(group, table, id)
    }

    /// Begins a checkpoint. None can begin while edges are ranked: the checkpoint that is ranked stays the newest one
    /// during that time, and nothing changes that another checkpoint could contain.
    ///
    /// `newest` is the manifest that the new checkpoint follows. If another checkpoint has been written since it was
    /// read, the transaction is refused.
    pub(super) fn begin_checkpoint(
        &mut self,
        (token, number): (Token, u64),
        pass: PassId,
        newest: Option<CheckpointCut>,
    ) -> Result<(), TransactionError> {
        self.of_pass(pass)?;
        self.matches_manifest(newest)?;
        if self.ranking.is_some() {
            let phase = Phase::Ranking;
            return Err(TransactionError::Phase { phase });
        }
        if let Some((other, cut)) = self
            .checkpoint_in_progress()
            .filter(|(other, _)| *other != token)
        {
            let version = cut.version;
            return Err(TransactionError::CheckpointUnderWay {
                token: other,
                version,
            });
        }
        let begun = CutOrigin {
            incarnation: self.incarnation,
            revision: self.revision,
            token,
            number,
        };
        let version = self.checkpoints.newest_version() + 1;
        let cuts = &mut self.checkpoints.cuts;
        if cuts.len() >= MAX_CUTS {
            cuts.remove(0);
        }
        let begun = Some(begun);
        cuts.push(CheckpointCut { version, begun });
        Ok(())
    }

    /// Records that the manifest of `cut` is durable. Any trainer may report this, because the trainer that began the
    /// checkpoint may have died after writing the manifest.
    pub(super) fn committed(&mut self, cut: CheckpointCut) -> Result<(), TransactionError> {
        let Checkpoints { base, cuts, .. } = &mut self.checkpoints;
        if !cuts.contains(&cut) {
            return Err(TransactionError::UnknownCut { cut });
        }
        cuts.retain(|other| other.version > cut.version);
        *base = Some(cut);
        let begun = cut
            .begun
            .filter(|begun| begun.incarnation == self.incarnation);
        if let Some(begun) = begun {
            self.drop_event_logs(begun);
        }
        Ok(())
    }
}
