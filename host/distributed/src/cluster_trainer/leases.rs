//! Leases: the bucket order picks the next bucket among the free ones, and the trainer leases it.

use std::sync::Arc;
use std::time::Instant;

use pbg_core::graph::Bucket;
use pbg_core::strategy::Pass;
use pbg_ledger::{LedgerAction, LedgerRecord};
use pbg_model::error::RunError;

use super::ClusterTrainer;
use crate::ledger::NotApplied;

/// Lease of this trainer.
#[derive(Clone, Copy, Debug)]
pub(super) struct HeldLease {
    /// Revision of the ledger at which the bucket was leased.
    pub(super) revision: u64,
    /// Position of the bucket in the buffer's plan.
    pub(super) position: usize,
    /// Time of the lease.
    pub(super) leased: Instant,
    /// Time at which training of the bucket began.
    pub(super) begun: Option<Instant>,
}

impl HeldLease {
    /// Returns the seconds from the lease to the start of training.
    pub(super) fn seconds_held(self) -> Option<f64> {
        let held = self.begun?.saturating_duration_since(self.leased);
        Some(held.as_secs_f64())
    }
}

impl ClusterTrainer<'_> {
    /// Leases that one of `choices` which the order picks. Returns `false` if the ledger refuses.
    pub(super) fn lease(
        &mut self,
        pass: &Pass,
        record: &LedgerRecord,
        choices: &[Bucket],
    ) -> Result<bool, RunError> {
        let Some(id) = self.pass.as_ref().map(|(id, _)| *id) else {
            return Ok(false);
        };
        let bucket = self.pick(pass, record, choices)?;
        match self.ledger.submit(LedgerAction::Lease { pass: id, bucket }) {
            Ok(record) => {
                self.policy.leased(bucket);
                let lease = HeldLease {
                    revision: record.revision(),
                    position: self.machine.pipeline.buffer.extend_plan(bucket),
                    leased: pbg_clock::now(),
                    begun: None,
                };
                self.leases.insert(bucket, lease);
                Ok(true)
            }
            Err(NotApplied::Refused(_) | NotApplied::Abandoned) => Ok(false),
            Err(NotApplied::Fatal(error)) => Err(error.into()),
        }
    }

    /// Asks the order which of the free buckets to train next.
    fn pick(
        &mut self,
        pass: &Pass,
        record: &LedgerRecord,
        free: &[Bucket],
    ) -> Result<Bucket, RunError> {
        let asked = pbg_clock::now();
        let held = record.leases_of_others(self.token());
        let ledger = Arc::clone(&self.ledger);
        let mut resident = self.machine.pipeline.buffer.resident();
        resident.retain(|group| ledger.is_current(*group));
        resident.extend(self.policy.soon_resident(record, &resident));
        let pass = Pass {
            resident,
            ..pass.clone()
        };
        let order = &mut self.machine.strategies.order;
        let picked = match order.pick(&pass, &held, free) {
            Ok(picked) => picked,
            Err(fault) => {
                let event = self.machine.replace_order(&fault)?;
                self.machine.emit(event);
                self.machine.strategies.order.pick(&pass, &held, free)?
            }
        };
        self.sums.calls.order += pbg_clock::elapsed(asked).as_secs_f64();
        // The sandbox checks that the index is in range.
        Ok(free.get(picked).copied().unwrap_or(free[0]))
    }
}
