//! Transitions between passes: open, advance, stop.

use pbg_core::graph::Bucket;
use pbg_core::schedule::PassId;
use pbg_core::seed::{self, StreamPurpose};

use super::{BucketState, BucketStates, FinishedEpoch, LedgerRecord, Phase, TransactionError};

/// Returns a digest of a plan, by which trainers recognise that their plugins returned the same one.
#[must_use]
pub fn plan_digest(plan: &[Bucket]) -> u64 {
    let bytes = |bucket: &Bucket| [bucket.lhs.to_le_bytes(), bucket.rhs.to_le_bytes()];
    let bytes: Vec<u8> = plan.iter().flat_map(bytes).flatten().collect();
    seed::of_text(0, StreamPurpose::Order, &bytes)
}

impl LedgerRecord {
    /// Sets the plan of the pass, and marks the buckets without edges as [`BucketState::Empty`].
    pub(super) fn open(
        &mut self,
        pass: PassId,
        plan: u64,
        empty: &[Bucket],
    ) -> Result<(), TransactionError> {
        self.in_pass(pass, Phase::Opening)?;
        for &bucket in empty {
            match self.state(bucket) {
                None => return Err(TransactionError::NoBucket { bucket }),
                Some(BucketState::ToDo) => self.set(bucket, BucketState::Empty),
                Some(_) => return Err(TransactionError::NotToDo { bucket }),
            }
        }
        self.work.plan = Some(plan);
        Ok(())
    }

    /// Advances to the next edge chunk, edge set or epoch.
    pub(super) fn advance(&mut self, from: PassId) -> Result<(), TransactionError> {
        self.in_pass(from, Phase::PassDone)?;
        let extent = self.terms.extent;
        let pass = &mut self.work.pass;
        pass.edge_chunk += 1;
        if pass.edge_chunk >= extent.edge_chunks {
            pass.edge_chunk = 0;
            pass.edge_set += 1;
        }
        if pass.edge_set >= extent.edge_sets {
            pass.edge_set = 0;
            pass.epoch += 1;
            let sums = std::mem::take(&mut self.work.progress.sums);
            self.work.progress.finished = Some(FinishedEpoch {
                epoch: from.epoch,
                sums,
            });
        }
        self.work.plan = None;
        self.work.buckets = BucketStates::to_do(self.terms.grid.buckets());
        self.changed = self.revision + 1;
        self.checkpoints.begin_pass();
        Ok(())
    }

    /// Ends the run on request. The trainers settle their buckets, the last one commits a checkpoint, and all leave. A
    /// ranking in progress is dropped and begins again when the run continues.
    pub(super) fn stop(&mut self) -> Result<(), TransactionError> {
        match self.phase() {
            phase @ (Phase::Finished | Phase::Stopping) => Err(TransactionError::Phase { phase }),
            _ => {
                self.stopping = true;
                self.drop_ranking();
                Ok(())
            }
        }
    }

    /// Refuses a decision made in another pass.
    pub(super) fn of_pass(&self, asked: PassId) -> Result<(), TransactionError> {
        let current = self.work.pass;
        match current == asked {
            true => Ok(()),
            false => Err(TransactionError::Pass { current, asked }),
        }
    }

    /// Refuses a decision made in another pass or phase.
    pub(super) fn in_pass(&self, asked: PassId, expected: Phase) -> Result<(), TransactionError> {
        self.of_pass(asked)?;
        let phase = self.phase();
        match phase == expected {
            true => Ok(()),
            false => Err(TransactionError::Phase { phase }),
        }
    }
}
