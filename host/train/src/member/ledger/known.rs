//! What a trainer knows of the ledger: the newest record that it saw, and what its copies of partitions are of.
//!
//! Threads that read the register at the same time come back in any order. What they saw replaces what is known unless it
//! is older.

use pbg_core::graph::SidePartition;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pbg_core::ledger::{Partition, Record, Stamp};

/// A record with the revision that the register knows it by.
#[derive(Clone, Debug)]
pub(super) struct Seen {
    pub(super) revision: u64,
    pub(super) record: Arc<Record>,
}

#[derive(Default)]
struct State {
    /// The last transaction that is known to be applied; 0 before the trainer joined.
    after: u64,
    seen: Option<Seen>,
    /// How often `seen` was replaced.
    replaced: u64,
    /// What the copies of partitions in memory are of.
    stamps: BTreeMap<SidePartition, Stamp>,
    /// What they are of as soon as the settlement under way is applied: another thread may see that first.
    settling: BTreeMap<SidePartition, Stamp>,
}

/// What was known when a read began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Before {
    pub(super) after: u64,
    replaced: u64,
}

/// What is known, for all threads. Nobody waits for the register while holding it.
#[derive(Default)]
pub(super) struct Known(Mutex<State>);

impl Known {
    /// To be asked before the register is read.
    pub(super) fn before(&self) -> Before {
        let State {
            after, replaced, ..
        } = *self.lock();
        Before { after, replaced }
    }

    /// The register has answered a read that began with `before`.
    pub(super) fn read(&self, before: Before, seen: Option<&Seen>) {
        let mut state = self.lock();
        let newer = match (seen, &state.seen) {
            (Some(new), Some(known)) => new.revision >= known.revision,
            (Some(_), None) => true,
            (None, _) => false,
        };
        // What is lower though nothing came in between says that the register has lost writes.
        if newer || before.replaced == state.replaced {
            state.replace(seen.cloned());
        }
    }

    /// Transaction `number` is applied, with `seen` or before it; copies of partitions are of `stamps` now.
    pub(super) fn applied(
        &self,
        number: u64,
        seen: Option<Seen>,
        stamps: &[(SidePartition, Stamp)],
    ) {
        let mut state = self.lock();
        state.after = number;
        state.stamps.extend(stamps.iter().copied());
        let known = state.seen.as_ref().map(|known| known.revision);
        if seen.as_ref().map(|seen| seen.revision) >= known {
            state.replace(seen);
        }
    }

    /// The last transaction that is known to be applied.
    pub(super) fn after(&self) -> u64 {
        self.lock().after
    }

    /// The record that was seen last.
    pub(super) fn seen(&self) -> Option<Seen> {
        self.lock().seen.clone()
    }

    /// A copy of `group` was made from what `stamp` says.
    pub(super) fn loaded(&self, group: SidePartition, stamp: Stamp) {
        self.lock().stamps.insert(group, stamp);
    }

    /// A settlement begins, after which copies of partitions are of `stamps`; none: it has ended.
    pub(super) fn settling(&self, stamps: &[(SidePartition, Stamp)]) {
        self.lock().settling = stamps.iter().copied().collect();
    }

    /// What the copy of `group` in memory is of.
    pub(super) fn stamp(&self, group: SidePartition) -> Option<Stamp> {
        self.lock().stamps.get(&group).copied()
    }

    /// Whether the copy of `group` in memory is of what the record has.
    pub(super) fn is_current(&self, group: SidePartition) -> bool {
        let state = self.lock();
        let newest = state.seen.as_ref().and_then(|s| s.record.partition(group));
        let newest = newest.map(Partition::stamp);
        let copies = [&state.stamps, &state.settling];
        newest.is_some_and(|newest| copies.iter().any(|of| of.get(&group) == Some(&newest)))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn replace(&mut self, seen: Option<Seen>) {
        self.seen = seen;
        self.replaced += 1;
    }
}
