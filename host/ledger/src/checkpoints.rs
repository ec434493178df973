//! Checkpoints: where one begins, which is the newest, whether a record matches it, and which files can be deleted.

use pbg_core::graph::SidePartition;
use pbg_core::schedule::PassId;

use super::{
    CheckpointCut, Checkpoints, CutOrigin, FileId, LedgerRecord, Phase, StaleRecord, Token,
    TransactionError,
};

/// Most checkpoints begun after the newest durable one. Older ones are forgotten. A manifest that one of them still
/// writes is then treated as belonging to another history: the work since that manifest is lost, the manifest's own is
/// not.
pub const MAX_CUTS: usize = 16;

impl CheckpointCut {
    /// Whether `record` is the result of the transaction that the checkpoint began with.
    #[must_use]
    pub fn is_of(&self, record: &LedgerRecord) -> bool {
        self.begun.is_some_and(|begun| {
            begun.incarnation == record.incarnation && begun.revision + 1 == record.revision
        })
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
        token: Token,
        number: u64,
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
