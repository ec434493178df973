//! The partition buffer: a fixed number of slots, of which a bucket swaps only what it lacks.

use std::sync::Arc;
use std::time::{Duration, Instant};

use pbg_core::event::{GroupSeconds, IoStats};
use pbg_core::graph::{Bucket, Side, SidePartition};
use pbg_core::plan::{self, Eviction};
use pbg_core::schedule::Acquired;
use pbg_core::strategy::Pass;

use crate::error::RunError;
use crate::groups::Clock;
use crate::layout::{Layout, TableKey};
pub use crate::transfer::Committed;
use crate::transfer::{Slot, Storage, Tables, Transfers};
pub(crate) use copies::Copies;
pub use store::TableStore;

/// How much a buffer holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferSize {
    /// Groups that are resident, at least 2.
    pub(crate) slots: usize,
    /// Bytes of tables that may be copied for commits.
    pub(crate) copies: u64,
}

/// Tables in memory: fixed ones throughout, groups in slots.
pub struct PartitionBuffer<S: TableStore> {
    layout: Layout,
    store: Arc<S>,
    capacity: usize,
    /// Groups that may be on their way beside it.
    ahead: usize,
    /// What is trained while a commit writes its original.
    copies: Arc<Copies<S::Table>>,
    fixed: Slot<S::Table>,
    slots: Vec<Slot<S::Table>>,
    transfers: Transfers<S>,
    turn: Option<Turn>,
}

/// The pass that is trained.
struct Turn {
    pass: Arc<Pass>,
    plan: Vec<Bucket>,
    eviction: Box<dyn Eviction>,
}

impl<S: TableStore> PartitionBuffer<S> {
    /// A buffer that holds the fixed tables. `ahead` says how many groups the storage group may have on their
    /// way, if there is one; `training` is the clock of who calls it.
    ///
    /// # Errors
    /// When a fixed table cannot be loaded.
    pub(crate) fn new(
        layout: Layout,
        size: BufferSize,
        ahead: Option<usize>,
        store: S,
        training: Arc<Clock>,
    ) -> Result<Self, RunError> {
        let mut tables = Vec::new();
        for key in layout.fixed_tables() {
            tables.push((key, Arc::new(store.load(key)?)));
        }
        let fixed = Slot {
            group: (Side::Lhs, 0),
            tables,
            changed: false,
            unsaved: false,
        };
        let store = Arc::new(store);
        let copies = Arc::new(Copies::new(layout.clone(), size.copies));
        let storage = Storage::new(Arc::clone(&store), Arc::clone(&copies));
        Ok(Self {
            layout,
            transfers: Transfers::new(storage, ahead, training)?,
            store,
            capacity: size.slots.max(2),
            ahead: ahead.unwrap_or(0),
            copies,
            fixed,
            slots: Vec::new(),
            turn: None,
        })
    }

    /// Groups in the buffer now.
    #[must_use]
    pub fn resident(&self) -> Vec<SidePartition> {
        self.slots.iter().map(|slot| slot.group).collect()
    }

    /// Those of them that were trained since they entered it.
    #[must_use]
    pub fn changed(&self) -> Vec<SidePartition> {
        let changed = self.slots.iter().filter(|slot| slot.changed);
        changed.map(|slot| slot.group).collect()
    }

    /// Fills the buffer of a run that goes on: with `resident`, as many as fit, of which `changed` were
    /// trained since they entered it. What is loaded was counted when it entered first.
    ///
    /// # Errors
    /// When a table cannot be loaded.
    pub fn restore(
        &mut self,
        resident: &[SidePartition],
        changed: &[SidePartition],
    ) -> Result<(), RunError> {
        for &group in resident.iter().take(self.capacity) {
            let mut slot = self.load(group)?;
            slot.changed = changed.contains(&group);
            self.slots.push(slot);
        }
        Ok(())
    }

    /// Where the time of the storage group went, if there is one.
    pub(crate) fn seconds(&self) -> Option<GroupSeconds> {
        self.transfers.seconds()
    }

    /// Where tables come from.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Begins a pass: `plan` says which buckets come when, `eviction` what leaves the buffer.
    pub fn begin_pass(&mut self, pass: Arc<Pass>, plan: Vec<Bucket>, eviction: Box<dyn Eviction>) {
        self.turn = Some(Turn {
            pass,
            plan,
            eviction,
        });
    }

    /// Says that `bucket` comes behind those of the plan so far. Gives its position.
    pub fn extend_plan(&mut self, bucket: Bucket) -> usize {
        let Some(turn) = &mut self.turn else { return 0 };
        turn.plan.push(bucket);
        turn.plan.len() - 1
    }

    /// Drops those groups that `is_stale`, which were not trained since they were written: others have changed them.
    pub fn forget(&mut self, is_stale: impl Fn(SidePartition) -> bool) {
        self.slots
            .retain(|slot| slot.unsaved || !is_stale(slot.group));
        self.transfers.forget(is_stale);
    }

    /// Makes every table of a bucket of the pass resident, and marks it as changed.
    ///
    /// A partition counts as loaded when it enters the buffer, read or drawn anew, and as written when it
    /// leaves it changed, even if a commit had written it already: so the traffic of a plan is the same
    /// however often a run commits or is stopped. Where commits [hand on](TableStore::hands_on), it counts as
    /// written with them ([`PartitionBuffer::unsaved`]).
    ///
    /// # Errors
    /// When a table cannot be read or an evicted one cannot be written.
    pub fn hold(&mut self, Acquired { bucket, position }: Acquired) -> Result<IoStats, RunError> {
        let (started, committing) = (Instant::now(), self.transfers.time_of_commits());
        let mut io = IoStats::default();
        let turn = self.turn.as_mut();
        let needed: Vec<SidePartition> =
            turn.map_or_else(Vec::new, |turn| plan::needs(&turn.pass, bucket).collect());
        for &group in &needed {
            if self.slots.iter().any(|slot| slot.group == group) {
                continue;
            }
            if self.slots.len() >= self.capacity {
                self.evict(&needed, position, &mut io);
            }
            let slot = self.load(group)?;
            self.slots.push(slot);
            io.loads += 1;
            io.bytes_read += self.layout.stored_group_bytes(group);
        }
        let copying = self.prepare(&needed)?;
        if let Some(turn) = &mut self.turn {
            turn.eviction.used(&needed, position);
        }
        let stood = started.elapsed();
        // What was waited for while the thread worked on a commit was waited for because of the commit.
        let commits = self.transfers.time_of_commits().saturating_sub(committing) + copying;
        let commits = commits.min(stood);
        io.commit_seconds = commits.as_secs_f64();
        io.wait_seconds = (stood - commits).as_secs_f64();
        Ok(io)
    }

    fn evict(&mut self, needed: &[SidePartition], position: usize, io: &mut IoStats) {
        let resident = self.resident();
        let victim = self
            .turn
            .as_mut()
            .and_then(|turn| turn.eviction.victim(&resident, needed, position));
        let Some(victim) = victim else {
            return;
        };
        let slot = self.slots.swap_remove(victim);
        if slot.changed && !self.store.hands_on() {
            io.writes += 1;
            io.bytes_written += self.layout.stored_group_bytes(slot.group);
        }
        if slot.unsaved {
            self.transfers.save(slot.tables);
        }
    }

    /// Makes the tables that a bucket trains the buffer's alone: a commit that is still to write one keeps it,
    /// and a copy is trained, as far as there is room for copies. One that is trained elsewhere needs none. Gives
    /// the time that copying took.
    fn prepare(&mut self, needed: &[SidePartition]) -> Result<Duration, RunError> {
        let mut copying = Duration::ZERO;
        let Self {
            store,
            copies,
            fixed,
            slots,
            transfers,
            ..
        } = self;
        let trained = slots.iter_mut().filter(|s| needed.contains(&s.group));
        let fixed = (!store.shares_fixed()).then_some(fixed);
        for slot in trained.chain(fixed) {
            for (key, table) in &mut slot.tables {
                if Arc::get_mut(table).is_some() || store.trains_elsewhere() {
                    continue;
                }
                if let Some(over) = copies.claim(*key) {
                    let started = Instant::now();
                    *table = Arc::new(store.copy(table, over));
                    copying += started.elapsed();
                } else {
                    transfers.written()?;
                    copies.begin();
                }
            }
            (slot.changed, slot.unsaved) = (true, true);
        }
        Ok(copying)
    }

    /// Starts to read what the first bucket after `position` that lacks something lacks. It enters the
    /// buffer when that bucket is held; until then it waits beside it, as many groups as the
    /// storage group may have on their way.
    pub fn prefetch(&mut self, position: usize) {
        let Some(Turn { pass, plan, .. }) = &self.turn else {
            return;
        };
        let lacking = plan[position + 1..].iter().find_map(|&bucket| {
            let mut lacks: Vec<SidePartition> = plan::needs(pass, bucket).collect();
            lacks.retain(|group| !self.slots.iter().any(|slot| slot.group == *group));
            (!lacks.is_empty()).then_some(lacks)
        });
        for group in lacking.into_iter().flatten().take(self.ahead) {
            self.transfers
                .load(group, self.layout.group_tables(group).collect());
        }
    }

    /// The table of entity type and partition `key`, if it is in memory.
    #[must_use]
    pub fn table(&self, key: TableKey) -> Option<&S::Table> {
        std::iter::once(&self.fixed)
            .chain(&self.slots)
            .flat_map(|slot| &slot.tables)
            .find(|(k, _)| *k == key)
            .map(|(_, table)| &**table)
    }

    /// The tables that stay in memory throughout, in the order of [`Layout::fixed_tables`].
    pub(crate) fn fixed_tables(&self) -> Vec<Arc<S::Table>> {
        let tables = self.fixed.tables.iter();
        tables.map(|(_, table)| Arc::clone(table)).collect()
    }

    /// Begins a commit of `cut` with everything trained so far. Training may go on: the thread that carries
    /// partitions writes the tables as they are now. An earlier commit is waited for.
    ///
    /// # Errors
    /// When the earlier commit fails, or a device, or anything else that was on its way.
    pub fn commit(&mut self, cut: S::Cut) -> Result<(), RunError> {
        self.transfers.finish()?;
        let mut tables: Tables<S::Table> = Vec::new();
        for slot in self.slots.iter_mut().chain([&mut self.fixed]) {
            if slot.unsaved {
                tables.extend(slot.tables.iter().map(|(k, t)| (*k, Arc::clone(t))));
                slot.unsaved = false;
            }
        }
        for (_, table) in &tables {
            self.store.bring_home(table)?;
        }
        self.copies.begin();
        self.transfers.commit(cut, tables);
        Ok(())
    }

    /// Before main memory is brought up to date with a device for anything but a commit: waits until the one under way
    /// has written its tables from there.
    ///
    /// # Errors
    /// When it fails, or anything else that was on its way.
    pub(crate) fn release_home(&mut self) -> Result<(), RunError> {
        if self.store.trains_elsewhere() {
            self.transfers.written()?;
        }
        Ok(())
    }

    /// The partitions that a commit would write now.
    pub(crate) fn unsaved(&self) -> IoStats {
        let mut io = IoStats::default();
        for slot in self.slots.iter().filter(|slot| slot.unsaved) {
            io.writes += 1;
            io.bytes_written += self.layout.stored_group_bytes(slot.group);
        }
        io
    }

    /// Whether a commit has begun that is not at its end.
    #[must_use]
    pub fn committing(&self) -> bool {
        self.transfers.committing()
    }

    /// The commit that came to its end since this was asked last; with `wait`, the end of one that is under
    /// way is waited for.
    ///
    /// # Errors
    /// When it fails, or anything else that was on its way.
    pub fn committed(&mut self, wait: bool) -> Result<Option<Committed>, RunError> {
        self.transfers.committed(wait)
    }

    fn load(&mut self, group: SidePartition) -> Result<Slot<S::Table>, RunError> {
        self.transfers
            .load(group, self.layout.group_tables(group).collect());
        self.transfers.take(group)
    }
}

mod copies;
mod store;
#[cfg(test)]
mod tests;
