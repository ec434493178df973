//! Leases: the bucket order picks the next bucket among the free ones, and the trainer leases it.

use std::collections::BTreeSet;
use std::sync::Arc;

use pbg_core::graph::{Bucket, SidePartition};
use pbg_core::schedule::LeasedBucket;
use pbg_core::strategy::Pass;
use pbg_ledger::{LedgerAction, LedgerRecord, MAX_LEASES, Token, TransactionError};
use pbg_model::error::RunError;

use super::ClusterTrainer;
use crate::ledger::NotApplied;

impl ClusterTrainer<'_> {
    /// Leases the free bucket that the order picks. Returns `None` if no bucket is free now.
    pub(super) fn lease(&mut self, pass: &Pass) -> Result<Option<LeasedBucket>, RunError> {
        let mut record = self.last_record()?;
        loop {
            let Some(id) = self.pass.as_ref().map(|(id, _)| *id) else {
                return Ok(None);
            };
            let own = record.trainers().get(&self.token());
            let is_full = own.is_none_or(|own| own.leases.len() >= MAX_LEASES);
            let free = record.free(self.token());
            let (token, buffer) = (self.ledger.token(), pass.buffer_partitions);
            let free = self.turns.choices(&record, token, free, buffer);
            if free.is_empty() || record.work().pass != id || is_full {
                // The record as last seen may be outdated.
                let newest = self.record()?;
                if newest.revision() == record.revision() {
                    return Ok(None);
                }
                record = newest;
                continue;
            }
            let bucket = self.pick(pass, &record, &free)?;
            match self.ledger.submit(LedgerAction::Lease { pass: id, bucket }) {
                Ok(record) => {
                    self.turns.leased();
                    self.leased_at.insert(bucket, record.revision());
                    let position = self.machine.pipeline.buffer.extend_plan(bucket);
                    return Ok(Some(LeasedBucket { bucket, position }));
                }
                Err(NotApplied::Refused(
                    TransactionError::Phase { .. } | TransactionError::Pass { .. },
                )) => {
                    return Ok(None);
                }
                Err(NotApplied::Refused(_) | NotApplied::Abandoned) => {
                    record = self.last_record()?
                }
                Err(NotApplied::Fatal(error)) => return Err(error.into()),
            }
        }
    }

    /// Asks the order which of the free buckets to train next.
    pub(super) fn pick(
        &mut self,
        pass: &Pass,
        record: &LedgerRecord,
        free: &[Bucket],
    ) -> Result<Bucket, RunError> {
        let asked = pbg_clock::now();
        let held = leases_of_others(record, self.token());
        let ledger = Arc::clone(&self.ledger);
        let mut resident = self.machine.pipeline.buffer.resident();
        resident.retain(|group| ledger.is_current(*group));
        let to_train = self.leased_at.keys();
        resident.extend(soon_resident(record, to_train, &resident));
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

    pub(super) fn leases_ahead(&self, record: &LedgerRecord) -> bool {
        self.cluster
            .lease_ahead
            .unwrap_or_else(|| has_room_to_lease_ahead(record))
    }

    /// Whether all partitions of a bucket are already held for unsettled buckets.
    pub(super) fn needs_only_held(&self, bucket: Bucket) -> Result<bool, RunError> {
        let record = self.last_record()?;
        let grid = record.grid();
        let held = grid.partitions_of_all(&self.unsettled);
        Ok(grid
            .partitions_of(bucket)
            .all(|group| held.contains(&group)))
    }
}

/// Returns the buckets that are leased to trainers other than `token`.
pub(crate) fn leases_of_others(record: &LedgerRecord, token: Token) -> Vec<Bucket> {
    let others = record.trainers().iter().filter(|(t, _)| **t != token);
    others.flat_map(|(_, other)| other.leases.clone()).collect()
}

/// Returns the partitions of `to_train` (buckets that are leased and not trained yet) that are not `resident`. They
/// will be in the buffer when a bucket that is leased now is trained. Partitions of buckets that are trained but not
/// settled may have left the buffer.
pub(crate) fn soon_resident<'a>(
    record: &LedgerRecord,
    to_train: impl Iterator<Item = &'a Bucket>,
    resident: &[SidePartition],
) -> BTreeSet<SidePartition> {
    let needs = to_train.flat_map(|bucket| record.grid().partitions_of(*bucket));
    needs.filter(|group| !resident.contains(group)).collect()
}

/// Whether there are enough partitions for each trainer to hold those of its next bucket as well.
pub(crate) fn has_room_to_lease_ahead(record: &LedgerRecord) -> bool {
    record.grid().groups().count() >= 4 * record.trainers().len()
}
