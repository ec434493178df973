//! Leases: which bucket comes next, as the order picks among those that are free.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use pbg_core::graph::{Bucket, SidePartition};
use pbg_core::ledger::{Action, MAX_LEASES, Record, Refusal, Token};
use pbg_core::schedule::Acquired;
use pbg_core::strategy::Pass;

use super::Member;
use super::ledger::Denied;
use crate::error::RunError;

impl Member<'_> {
    /// Leases a bucket that is free, as the order picks; none when nothing is free now.
    pub(super) fn lease(&mut self, pass: &Pass) -> Result<Option<Acquired>, RunError> {
        let mut record = self.seen()?;
        loop {
            let Some(id) = self.pass.as_ref().map(|(id, _)| *id) else {
                return Ok(None);
            };
            let own = record.trainers().get(&self.token());
            let is_full = own.is_none_or(|own| own.leases.len() >= MAX_LEASES);
            let free = record.free(self.token());
            let (token, buffer) = (self.ledger.token(), pass.buffer_partitions);
            let free = self.turns.offer(&record, token, free, buffer);
            if free.is_empty() || record.work().pass != id || is_full {
                // What was seen may be old.
                let newest = self.record()?;
                if newest.revision() == record.revision() {
                    return Ok(None);
                }
                record = newest;
                continue;
            }
            let bucket = self.pick(pass, &record, &free)?;
            match self.ledger.submit(Action::Lease { pass: id, bucket }) {
                Ok(record) => {
                    self.turns.leased();
                    self.leased_at.insert(bucket, record.revision());
                    let position = self.machine.line.buffer.extend_plan(bucket);
                    return Ok(Some(Acquired { bucket, position }));
                }
                Err(Denied::Refused(Refusal::Phase { .. } | Refusal::Pass { .. })) => {
                    return Ok(None);
                }
                Err(Denied::Refused(_) | Denied::GivenUp) => record = self.seen()?,
                Err(Denied::Ended(error)) => return Err(error.into()),
            }
        }
    }

    /// Asks the order which of the free buckets comes next.
    pub(super) fn pick(
        &mut self,
        pass: &Pass,
        record: &Record,
        free: &[Bucket],
    ) -> Result<Bucket, RunError> {
        let asked = Instant::now();
        let held = others_hold(record, self.token());
        let ledger = Arc::clone(&self.ledger);
        let mut resident = self.machine.line.buffer.resident();
        resident.retain(|group| ledger.is_current(*group));
        let to_train = self.leased_at.keys();
        resident.extend(to_come(record, to_train, &resident));
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
        self.sums.calls.order += asked.elapsed().as_secs_f64();
        // The sandbox checks that it is one of them.
        Ok(free.get(picked).copied().unwrap_or(free[0]))
    }

    pub(super) fn leases_ahead(&self, record: &Record) -> bool {
        self.cluster.ahead.unwrap_or_else(|| is_many(record))
    }

    /// Whether a bucket needs no partition but those that are held for the unsettled ones.
    pub(super) fn needs_nothing_new(&self, bucket: Bucket) -> Result<bool, RunError> {
        let record = self.seen()?;
        let grid = record.grid();
        let held: Vec<SidePartition> = self.unsettled.iter().flat_map(|b| grid.needs(*b)).collect();
        Ok(grid.needs(bucket).all(|group| held.contains(&group)))
    }
}

/// The buckets that others have than `token`.
pub(super) fn others_hold(record: &Record, token: Token) -> Vec<Bucket> {
    let others = record.trainers().iter().filter(|(t, _)| **t != token);
    others.flat_map(|(_, other)| other.leases.clone()).collect()
}

/// The partitions of buckets `to_train`, leased and not trained yet, which are not `resident`: they will be when what is
/// leased now is trained. What is trained and not settled yet may have left the buffer.
pub(super) fn to_come<'a>(
    record: &Record,
    to_train: impl Iterator<Item = &'a Bucket>,
    resident: &[SidePartition],
) -> BTreeSet<SidePartition> {
    let needs = to_train.flat_map(|bucket| record.grid().needs(*bucket));
    needs.filter(|group| !resident.contains(group)).collect()
}

/// Whether there are so many partitions that a trainer may hold those of its next bucket, too.
pub(super) fn is_many(record: &Record) -> bool {
    record.grid().groups().count() >= 4 * record.trainers().len()
}
