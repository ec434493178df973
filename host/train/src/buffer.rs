//! The partition buffer: a fixed number of slots. A bucket swaps in only the partitions that are not resident.

use std::sync::Arc;
use std::time::Duration;

use pbg_core::event::{GroupSeconds, PartitionIo, StoredBytes};
use pbg_core::graph::{Bucket, Side, SidePartition};
use pbg_core::plan::{self, Eviction};
use pbg_core::schedule::LeasedBucket;
use pbg_core::strategy::Pass;
use pbg_model::error::RunError;
use pbg_model::layout::{Layout, TableKey};

use crate::disk_limit::DiskLimit;
use crate::stage_threads::StageClock;
pub use crate::storage_thread::CommittedVersion;
use crate::storage_thread::{KeyedTables, ResidentGroup, StorageWorker, Transfers};
pub(crate) use copies::CommitCopies;
pub use store::TableStore;

/// Capacity of a partition buffer, and the speed of its storage.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BufferSize {
    /// Number of resident groups, at least 2.
    pub(crate) slots: usize,
    /// Bytes of the tables that may be copied for commits.
    pub(crate) copies: u64,
    /// Speeds that storage does not exceed.
    pub(crate) limit: DiskLimit,
}

/// Tables in memory: fixed tables throughout the run, partitions in slots. The tables of one side's partition are a
/// group; they are loaded and evicted together.
pub struct PartitionBuffer<S: TableStore> {
    layout: Layout,
    store: Arc<S>,
    capacity: usize,
    /// Number of groups that may be in flight in addition to the resident ones.
    ahead: usize,
    /// Copies that are trained while a commit writes the originals.
    copies: Arc<CommitCopies<S::Table>>,
    fixed: ResidentGroup<S::Table>,
    slots: Vec<ResidentGroup<S::Table>>,
    transfers: Transfers<S>,
    turn: Option<ActivePass>,
    /// Bytes passed to storage so far.
    stored: StoredBytes,
}

/// Pass that is being trained.
struct ActivePass {
    pass: Arc<Pass>,
    plan: Vec<Bucket>,
    eviction: Box<dyn Eviction>,
}

impl<S: TableStore> PartitionBuffer<S> {
    /// Creates a buffer and loads the fixed tables. `ahead` is the number of groups that the storage thread may have in
    /// flight; without it, tables are read and written by the calling thread. `training` is the clock of the calling
    /// thread.
    ///
    /// # Errors
    /// When a fixed table cannot be loaded.
    pub(crate) fn new(
        layout: Layout,
        size: BufferSize,
        ahead: Option<usize>,
        store: S,
        training: Arc<StageClock>,
    ) -> Result<Self, RunError> {
        let mut tables = Vec::new();
        for key in layout.fixed_tables() {
            tables.push((key, Arc::new(store.load(key)?)));
        }
        let fixed = ResidentGroup {
            group: (Side::Lhs, 0),
            tables,
            changed: false,
            unsaved: false,
        };
        let store = Arc::new(store);
        let copies = Arc::new(CommitCopies::new(layout.clone(), size.copies));
        let storage = StorageWorker::new(
            Arc::clone(&store),
            Arc::clone(&copies),
            layout.clone(),
            size.limit,
        );
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
            stored: StoredBytes::default(),
        })
    }

    /// Returns the groups that are in the buffer now.
    #[must_use]
    pub fn resident(&self) -> Vec<SidePartition> {
        self.slots.iter().map(|slot| slot.group).collect()
    }

    /// Returns the resident groups that were trained since they entered the buffer.
    #[must_use]
    pub fn changed(&self) -> Vec<SidePartition> {
        let changed = self.slots.iter().filter(|slot| slot.changed);
        changed.map(|slot| slot.group).collect()
    }

    /// Fills the buffer of a resumed run with as many of the groups `resident` as fit. The groups `changed` were
    /// trained since they entered the buffer. These loads are not counted again: they were counted when the groups
    /// first entered the buffer.
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

    /// Returns how the storage thread spent its time, if there is one.
    pub(crate) fn seconds(&self) -> Option<GroupSeconds> {
        self.transfers.seconds()
    }

    /// Returns the bytes that were passed to storage to be written so far.
    #[must_use]
    pub(crate) fn stored(&self) -> StoredBytes {
        self.stored
    }

    /// Returns the storage that tables are read from and written to.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// Begins a pass, with the sequence of its buckets (`plan`) and the policy that chooses which group leaves the
    /// buffer (`eviction`).
    pub fn begin_pass(&mut self, pass: Arc<Pass>, plan: Vec<Bucket>, eviction: Box<dyn Eviction>) {
        self.turn = Some(ActivePass {
            pass,
            plan,
            eviction,
        });
    }

    /// Appends `bucket` to the plan and returns its position.
    pub fn extend_plan(&mut self, bucket: Bucket) -> usize {
        let Some(turn) = &mut self.turn else { return 0 };
        turn.plan.push(bucket);
        turn.plan.len() - 1
    }

    /// Drops the groups for which `is_stale` holds, except groups that were trained since they were last written. Other
    /// trainers have changed the dropped groups.
    pub fn drop_stale(&mut self, is_stale: impl Fn(SidePartition) -> bool) {
        self.slots
            .retain(|slot| slot.unsaved || !is_stale(slot.group));
        self.transfers.forget(is_stale);
    }

    /// Makes every table of a bucket resident and marks it as changed.
    ///
    /// A partition counts as loaded when it enters the buffer, whether it is read or initialized, and as written when
    /// it leaves the buffer changed, even if a commit had written it already. So the traffic of a plan does not depend
    /// on how often a run commits or is stopped. Where [writes are counted at commits](TableStore::hands_on), a
    /// partition counts as written with the commit instead ([`PartitionBuffer::unsaved`]).
    ///
    /// # Errors
    /// When a table cannot be read or an evicted table cannot be written.
    pub fn make_resident(
        &mut self,
        LeasedBucket { bucket, position }: LeasedBucket,
    ) -> Result<PartitionIo, RunError> {
        let (started, committing) = (pbg_clock::now(), self.transfers.time_of_commits());
        let mut io = PartitionIo::default();
        let turn = self.turn.as_mut();
        let needed: Vec<SidePartition> = turn.map_or_else(Vec::new, |turn| {
            plan::needed_partitions(&turn.pass, bucket).collect()
        });
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
        let copying = self.own_trained_tables(&needed)?;
        if let Some(turn) = &mut self.turn {
            turn.eviction.used(&needed, position);
        }
        let stood = started.elapsed();
        // Time that was waited while the storage thread worked on a commit counts as waiting for the commit.
        let commits = self.transfers.time_of_commits().saturating_sub(committing) + copying;
        let commits = commits.min(stood);
        io.commit_seconds = commits.as_secs_f64();
        io.wait_seconds = (stood - commits).as_secs_f64();
        Ok(io)
    }

    fn evict(&mut self, needed: &[SidePartition], position: usize, io: &mut PartitionIo) {
        let resident = self.resident();
        let victim = self
            .turn
            .as_mut()
            .and_then(|turn| turn.eviction.victim(&resident, needed, position));
        let Some(victim) = victim else {
            return;
        };
        let slot = self.slots.swap_remove(victim);
        if slot.changed && !self.store.writes_count_at_commit() {
            io.writes += 1;
            io.bytes_written += self.layout.stored_group_bytes(slot.group);
        }
        if slot.unsaved {
            self.stored.evicted += self.layout.stored_group_bytes(slot.group);
            self.transfers.save(slot.tables);
        }
    }

    /// Makes the buffer the only owner of the tables that a bucket trains. Where a commit still has to write a table,
    /// the commit keeps the original and a copy is trained, if there is room for copies; otherwise the commit's writes
    /// are waited for. A table that is trained on a device needs no copy. Returns the time spent on copying.
    fn own_trained_tables(&mut self, needed: &[SidePartition]) -> Result<Duration, RunError> {
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
                if Arc::get_mut(table).is_some() || store.trains_on_device() {
                    continue;
                }
                if let Some(over) = copies.claim(*key) {
                    let started = pbg_clock::now();
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

    /// Starts to read the missing groups of the first bucket after `position` that lacks any, up to the number of
    /// groups that the storage thread may have in flight. The groups enter the buffer when that bucket is held; until
    /// then they wait outside the slots.
    pub fn prefetch(&mut self, position: usize) {
        let Some(ActivePass { pass, plan, .. }) = &self.turn else {
            return;
        };
        let lacking = plan[position + 1..].iter().find_map(|&bucket| {
            let mut lacks: Vec<SidePartition> = plan::needed_partitions(pass, bucket).collect();
            lacks.retain(|group| !self.slots.iter().any(|slot| slot.group == *group));
            (!lacks.is_empty()).then_some(lacks)
        });
        for group in lacking.into_iter().flatten().take(self.ahead) {
            self.transfers
                .load(group, self.layout.group_tables(group).collect());
        }
    }

    /// Returns the table of entity type and partition `key`, if it is in memory.
    #[must_use]
    pub fn table(&self, key: TableKey) -> Option<&S::Table> {
        std::iter::once(&self.fixed)
            .chain(&self.slots)
            .flat_map(|slot| &slot.tables)
            .find(|(k, _)| *k == key)
            .map(|(_, table)| &**table)
    }

    /// Returns the tables that stay in memory throughout, in the order of [`Layout::fixed_tables`].
    #[must_use]
    pub fn fixed_tables(&self) -> Vec<Arc<S::Table>> {
        let tables = self.fixed.tables.iter();
        tables.map(|(_, table)| Arc::clone(table)).collect()
    }

    /// Returns the bytes of the tables that a commit would write now.
    pub(crate) fn uncommitted_bytes(&self) -> u64 {
        let slots = self.slots.iter().chain([&self.fixed]);
        let tables = slots
            .filter(|slot| slot.unsaved)
            .flat_map(|slot| &slot.tables);
        tables.map(|(key, _)| self.stored_bytes(*key)).sum()
    }

    /// Returns the bytes of a table on disk.
    fn stored_bytes(&self, (entity_type, partition): TableKey) -> u64 {
        self.layout.types[entity_type].stored_bytes(partition)
    }

    /// Begins a commit of `cut` with everything trained so far, after waiting for an earlier commit. Training may go
    /// on: the storage thread writes the tables as they are now.
    ///
    /// # Errors
    /// When the earlier commit, a device, or any other transfer in flight fails.
    pub fn commit(&mut self, cut: S::Cut) -> Result<(), RunError> {
        self.transfers.finish()?;
        let mut tables: KeyedTables<S::Table> = Vec::new();
        for slot in self.slots.iter_mut().chain([&mut self.fixed]) {
            if slot.unsaved {
                tables.extend(slot.tables.iter().map(|(k, t)| (*k, Arc::clone(t))));
                slot.unsaved = false;
            }
        }
        for (key, table) in &tables {
            self.store.download(table)?;
            self.stored.committed += self.stored_bytes(*key);
        }
        self.copies.begin();
        self.transfers.commit(cut, tables);
        Ok(())
    }

    /// Waits until the commit under way has written its tables from main memory. Called before tables are downloaded
    /// from a device for any other purpose than a commit.
    ///
    /// # Errors
    /// When the commit or any other transfer in flight fails.
    pub(crate) fn wait_for_commit_writes(&mut self) -> Result<(), RunError> {
        if self.store.trains_on_device() {
            self.transfers.written()?;
        }
        Ok(())
    }

    /// Returns the traffic of the partitions that a commit would write now.
    #[must_use]
    pub fn unsaved(&self) -> PartitionIo {
        let mut io = PartitionIo::default();
        for slot in self.slots.iter().filter(|slot| slot.unsaved) {
            io.writes += 1;
            io.bytes_written += self.layout.stored_group_bytes(slot.group);
        }
        io
    }

    /// Whether a commit has begun and not finished.
    #[must_use]
    pub fn committing(&self) -> bool {
        self.transfers.committing()
    }

    /// Returns the commit that finished since the last call. With `wait`, waits for a commit that is under way.
    ///
    /// # Errors
    /// When the commit or any other transfer in flight fails.
    pub fn committed(&mut self, wait: bool) -> Result<Option<CommittedVersion>, RunError> {
        self.transfers.committed(wait)
    }

    fn load(&mut self, group: SidePartition) -> Result<ResidentGroup<S::Table>, RunError> {
        self.transfers
            .load(group, self.layout.group_tables(group).collect());
        self.transfers.take(group)
    }
}

mod copies;
mod store;
#[cfg(test)]
mod tests;
