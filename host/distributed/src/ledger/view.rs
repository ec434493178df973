//! A trainer's knowledge of the ledger: the newest record that it has read, and the stamps of its copies of partitions.
//!
//! Reads of several threads may return in any order. A record that was read replaces the known one unless it is older.

use pbg_core::graph::SidePartition;
use pbg_core::lock::lock;
use pbg_ledger::{CopyVersion, LedgerRecord, PartitionVersion};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// Stamp of a partition that was never written, that is, of its initial state.
const NEVER: CopyVersion = CopyVersion {
    generation: 0,
    first: None,
};

/// A record and its revision in the register.
#[derive(Clone, Debug)]
pub(crate) struct VersionedRecord {
    pub(crate) revision: u64,
    pub(crate) record: Arc<LedgerRecord>,
}

#[derive(Default)]
struct State {
    /// Number of this trainer's last transaction that is known to be applied; 0 before it joins.
    after: u64,
    seen: Option<VersionedRecord>,
    /// Number of times that `seen` was replaced.
    replaced: u64,
    /// Stamps of the copies of partitions in memory.
    stamps: BTreeMap<SidePartition, CopyVersion>,
    /// Stamps that the copies get when the current settlement is applied. Another thread may read the settled record
    /// before the settling thread gets its answer.
    settling: BTreeMap<SidePartition, CopyVersion>,
}

/// State of the knowledge when a read begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReadStart {
    pub(super) after: u64,
    replaced: u64,
}

/// Knowledge of the ledger, shared by all threads. No thread holds the lock while it waits for the register.
#[derive(Default)]
pub(super) struct LedgerView(Mutex<State>);

impl LedgerView {
    /// Returns the current state. Must be called before the register is read.
    pub(super) fn before(&self) -> ReadStart {
        let State {
            after, replaced, ..
        } = *lock(&self.0);
        ReadStart { after, replaced }
    }

    /// Records the result of a read that began at `before`.
    pub(super) fn read(&self, before: ReadStart, seen: Option<&VersionedRecord>) {
        let mut state = lock(&self.0);
        let newer = match (seen, &state.seen) {
            (Some(new), Some(known)) => new.revision >= known.revision,
            (Some(_), None) => true,
            (None, _) => false,
        };
        // An older revision, although nothing was replaced since the read began, means that the register has lost
        // writes.
        if newer || before.replaced == state.replaced {
            state.replace(seen.cloned());
        }
    }

    /// Records that transaction `number` is applied, in `seen` or an earlier record, and that copies of partitions now
    /// have `stamps`.
    pub(super) fn applied(
        &self,
        number: u64,
        seen: Option<VersionedRecord>,
        stamps: &[(SidePartition, CopyVersion)],
    ) {
        let mut state = lock(&self.0);
        state.after = number;
        state.stamps.extend(stamps.iter().copied());
        let known = state.seen.as_ref().map(|known| known.revision);
        if seen.as_ref().map(|seen| seen.revision) >= known {
            state.replace(seen);
        }
    }

    /// Returns the number of the last transaction that is known to be applied.
    pub(super) fn after(&self) -> u64 {
        lock(&self.0).after
    }

    /// Returns the record as last seen.
    pub(super) fn seen(&self) -> Option<VersionedRecord> {
        lock(&self.0).seen.clone()
    }

    /// Records that the copy of `group` in memory was loaded from the version that `stamp` identifies.
    pub(super) fn loaded(&self, group: SidePartition, stamp: CopyVersion) {
        lock(&self.0).stamps.insert(group, stamp);
    }

    /// Sets the stamps that copies of partitions get with the settlement that begins. An empty slice ends the
    /// settlement.
    pub(super) fn settling(&self, stamps: &[(SidePartition, CopyVersion)]) {
        lock(&self.0).settling = stamps.iter().copied().collect();
    }

    /// Returns the stamp of the copy of `group` in memory, which is in its initial state if nothing was loaded.
    pub(super) fn stamp(&self, group: SidePartition) -> CopyVersion {
        lock(&self.0).stamps.get(&group).copied().unwrap_or(NEVER)
    }

    /// Whether the copy of `group` in memory has the version that the record names.
    pub(super) fn is_current(&self, group: SidePartition) -> bool {
        let state = lock(&self.0);
        let newest = state.seen.as_ref().and_then(|s| s.record.partition(group));
        let newest = newest.map(PartitionVersion::stamp);
        let copies = [&state.stamps, &state.settling];
        newest.is_some_and(|newest| copies.iter().any(|of| of.get(&group) == Some(&newest)))
    }
}

impl State {
    fn replace(&mut self, seen: Option<VersionedRecord>) {
        self.seen = seen;
        self.replaced += 1;
    }
}
