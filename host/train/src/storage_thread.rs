//! Reads and writes tables on the storage thread, in parallel with training, or on the training thread where there is
//! no storage thread.
//!
//! Requests are carried out one after the other. So a table that is read after it was written is the written one, and
//! evicted tables have left memory before loaded tables occupy it. The remaining work of a commit whose tables are
//! written is done while no request waits.

use pbg_core::batch_graph::pipeline;
use pbg_core::event::GroupSeconds;
use pbg_core::graph::SidePartition;
use pbg_core::lock::lock;
use pbg_model::error::RunError;
use pbg_model::layout::{Layout, TableKey};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::buffer::{CommitCopies, TableStore};
use crate::disk_limit::DiskLimit;
use crate::processor_time;
use crate::stage_threads::{self, StageWork};

/// Tables with their keys. A commit that still has to write a table shares it with the buffer.
pub(crate) type KeyedTables<T> = Vec<(TableKey, Arc<T>)>;

/// Tables that are loaded and evicted together.
#[derive(Debug)]
pub(crate) struct ResidentGroup<T> {
    pub(crate) group: SidePartition,
    pub(crate) tables: KeyedTables<T>,
    /// Whether the tables were trained since they entered the buffer.
    pub(crate) changed: bool,
    /// Whether the tables were trained since they were read or last passed to storage to be written.
    pub(crate) unsaved: bool,
}

/// Checkpoint version that has become current.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommittedVersion {
    /// Number of the version.
    pub version: u64,
    /// Time spent on writing its tables, in parallel with training.
    pub writing: Duration,
    /// Processor time of the whole commit.
    pub processor: Duration,
}

/// Request to the storage thread.
pub(crate) enum StorageRequest<S: TableStore> {
    Load(SidePartition, Vec<TableKey>),
    Save(KeyedTables<S::Table>),
    Commit(S::Cut, KeyedTables<S::Table>),
}

/// Reply of the storage thread.
pub(crate) enum StorageReply<T> {
    Loaded(ResidentGroup<T>),
    Saved,
    /// The tables of a commit are written, so they may be trained again.
    Written,
    Committed(CommittedVersion),
}

/// Transfers of tables in and out of memory, and commits.
pub(crate) struct Transfers<S: TableStore> {
    storage: stage_threads::StageHandle<StorageWorker<S>>,
    under_way: Vec<SidePartition>,
    arrived: Vec<ResidentGroup<S::Table>>,
    /// Whether tables of a commit are still to be written.
    writing: bool,
    /// Whether a commit is under way.
    committing: bool,
    committed: Option<CommittedVersion>,
    clock: Arc<CommitStopwatch>,
}

impl<S: TableStore> Transfers<S> {
    /// Starts a storage thread that may have `ahead` groups in flight. Without `ahead`, the requesting thread does the
    /// work.
    pub(crate) fn new(
        storage: StorageWorker<S>,
        ahead: Option<usize>,
        training: Arc<stage_threads::StageClock>,
    ) -> Result<Self, RunError> {
        let clock = Arc::clone(&storage.clock);
        // Both partitions of a bucket may leave the buffer, followed by the reads ahead and a commit.
        let pipe = ahead.map(|ahead| (pipeline::STORAGE, 2 + ahead + 1));
        Ok(Self {
            storage: stage_threads::StageHandle::start(pipe, storage, training)?,
            under_way: Vec::new(),
            arrived: Vec::new(),
            writing: false,
            committing: false,
            committed: None,
            clock,
        })
    }

    /// Returns how the storage thread spent its time, if there is one.
    pub(crate) fn seconds(&self) -> Option<GroupSeconds> {
        self.storage.seconds()
    }

    /// Starts to read `group`, unless it is in flight already.
    pub(crate) fn load(&mut self, group: SidePartition, keys: Vec<TableKey>) {
        if !self.under_way.contains(&group) && !self.arrived.iter().any(|slot| slot.group == group)
        {
            self.under_way.push(group);
            self.storage.order(StorageRequest::Load(group, keys));
        }
    }

    /// Waits for `group`, which must be in flight.
    pub(crate) fn take(
        &mut self,
        group: SidePartition,
    ) -> Result<ResidentGroup<S::Table>, RunError> {
        loop {
            if let Some(found) = self.arrived.iter().position(|slot| slot.group == group) {
                return Ok(self.arrived.swap_remove(found));
            }
            self.wait()?;
        }
    }

    /// Drops the groups that were read ahead and for which `is_stale` holds.
    pub(crate) fn forget(&mut self, is_stale: impl Fn(SidePartition) -> bool) {
        self.arrived.retain(|slot| !is_stale(slot.group));
    }

    /// Starts to write tables that left the buffer. Their memory is free afterwards.
    pub(crate) fn save(&mut self, tables: KeyedTables<S::Table>) {
        self.storage.order(StorageRequest::Save(tables));
    }

    /// Starts a commit of everything saved so far, of `tables` and of `cut`. No other commit may be under way.
    pub(crate) fn commit(&mut self, cut: S::Cut, tables: KeyedTables<S::Table>) {
        (self.writing, self.committing) = (true, true);
        self.storage.order(StorageRequest::Commit(cut, tables));
    }

    /// Whether a commit is under way.
    pub(crate) fn committing(&self) -> bool {
        self.committing
    }

    /// Returns the commit that finished since the last call. With `wait`, waits for a commit that is under way.
    pub(crate) fn committed(&mut self, wait: bool) -> Result<Option<CommittedVersion>, RunError> {
        if wait {
            self.finish()?;
        }
        while let Some(done) = self.storage.received()? {
            self.absorb(done);
        }
        Ok(self.committed.take())
    }

    /// Waits for the end of the commit under way, if any.
    pub(crate) fn finish(&mut self) -> Result<(), RunError> {
        while self.committing {
            self.wait()?;
        }
        Ok(())
    }

    /// Waits until the tables of the commit under way are written.
    pub(crate) fn written(&mut self) -> Result<(), RunError> {
        while self.writing {
            self.wait()?;
        }
        Ok(())
    }

    /// Returns the time that storage has spent on commits so far.
    pub(crate) fn time_of_commits(&self) -> Duration {
        self.clock.read()
    }

    fn wait(&mut self) -> Result<(), RunError> {
        let done = self.storage.receive()?;
        self.absorb(done);
        Ok(())
    }

    fn absorb(&mut self, done: StorageReply<S::Table>) {
        match done {
            StorageReply::Loaded(slot) => {
                self.under_way.retain(|&group| group != slot.group);
                self.arrived.push(slot);
            }
            StorageReply::Saved => {}
            StorageReply::Written => self.writing = false,
            StorageReply::Committed(committed) => {
                self.committing = false;
                self.committed = Some(committed);
            }
        }
    }
}

/// Work of the storage thread. Its first error ends it, because nothing that follows a failed write may become current.
pub(crate) struct StorageWorker<S: TableStore> {
    store: Arc<S>,
    copies: Arc<CommitCopies<S::Table>>,
    layout: Layout,
    limit: DiskLimit,
    clock: Arc<CommitStopwatch>,
    /// Effort of writing the tables of the commit under way, if any.
    writing: Option<WorkTime>,
}

/// Time that a piece of work took.
#[derive(Clone, Copy, Default)]
struct WorkTime {
    time: Duration,
    /// Processor time of the thread; equal to `time` where the system cannot measure it.
    processor: Duration,
}

impl WorkTime {
    /// Runs `work` and measures it. Returns its effort and its result.
    fn of<T>(work: impl FnOnce() -> T) -> (Self, T) {
        let (started, before) = (pbg_clock::now(), processor_time::of_this_thread());
        let made = work();
        let time = pbg_clock::elapsed(started);
        let used = before.zip(processor_time::of_this_thread());
        let processor = used.map_or(time, |(before, after)| after.saturating_sub(before));
        (Self { time, processor }, made)
    }
}

impl<S: TableStore> StageWork for StorageWorker<S> {
    type Order = StorageRequest<S>;
    type Made = StorageReply<S::Table>;

    fn perform(&mut self, order: StorageRequest<S>) -> Result<StorageReply<S::Table>, RunError> {
        match order {
            StorageRequest::Load(group, keys) => self.load(group, &keys).map(StorageReply::Loaded),
            StorageRequest::Save(tables) => {
                for (key, table) in tables {
                    let started = pbg_clock::now();
                    self.store.save(key, &table)?;
                    self.limit.after_write(self.stored_bytes(key), started);
                }
                Ok(StorageReply::Saved)
            }
            StorageRequest::Commit(cut, tables) => {
                self.clock.start();
                let (effort, written) = WorkTime::of(|| self.write(cut, tables));
                self.clock.stop();
                self.writing = Some(effort);
                written.map(|()| StorageReply::Written)
            }
        }
    }

    fn unfinished(&self) -> bool {
        self.writing.is_some()
    }

    /// Does the next step of the commit under way.
    fn go_on(&mut self) -> Result<Option<StorageReply<S::Table>>, RunError> {
        self.clock.start();
        let (piece, version) = WorkTime::of(|| self.store.continue_commit());
        self.clock.stop();
        let effort = self.writing.get_or_insert_default();
        effort.processor += piece.processor;
        if matches!(version, Ok(None)) {
            return Ok(None);
        }
        let WorkTime { time, processor } = self.writing.take().unwrap_or_default();
        let committed = |version| {
            StorageReply::Committed(CommittedVersion {
                version,
                writing: time,
                processor,
            })
        };
        Ok(version?.map(committed))
    }
}

impl<S: TableStore> StorageWorker<S> {
    /// Creates the work of the storage thread. `copies` is shared with the buffer; written originals are given back to
    /// it.
    pub(crate) fn new(
        store: Arc<S>,
        copies: Arc<CommitCopies<S::Table>>,
        layout: Layout,
        limit: DiskLimit,
    ) -> Self {
        Self {
            store,
            copies,
            layout,
            limit,
            clock: Arc::default(),
            writing: None,
        }
    }

    /// Writes the tables of a commit, and gives each one back as soon as it is written.
    fn write(&self, cut: S::Cut, tables: KeyedTables<S::Table>) -> Result<(), RunError> {
        self.store.begin(cut)?;
        for (key, table) in tables {
            let started = pbg_clock::now();
            self.store.add(key, &table)?;
            self.limit.after_write(self.stored_bytes(key), started);
            self.copies.return_original(key, table);
        }
        Ok(())
    }

    fn load(
        &self,
        group: SidePartition,
        keys: &[TableKey],
    ) -> Result<ResidentGroup<S::Table>, RunError> {
        let read = |&key: &TableKey| {
            let started = pbg_clock::now();
            let table = self.store.load(key)?;
            self.limit.after_read(self.stored_bytes(key), started);
            Ok((key, Arc::new(table)))
        };
        Ok(ResidentGroup {
            group,
            tables: keys.iter().map(read).collect::<Result<_, RunError>>()?,
            changed: false,
            unsaved: false,
        })
    }

    /// Returns the bytes that are read to load a table and written to save it.
    fn stored_bytes(&self, (entity_type, partition): TableKey) -> u64 {
        self.layout.types[entity_type].stored_bytes(partition)
    }
}

/// Stopwatch of the time that storage works on commits. Training that waits for storage meanwhile waits for a commit.
#[derive(Debug, Default)]
struct CommitStopwatch {
    /// Total of the finished stretches, and the start of the running one.
    stretches: Mutex<(Duration, Option<Instant>)>,
}

impl CommitStopwatch {
    fn start(&self) {
        lock(&self.stretches).1 = Some(pbg_clock::now());
    }

    fn stop(&self) {
        let mut stretches = lock(&self.stretches);
        let stretch = stretches.1.take().map(pbg_clock::elapsed);
        stretches.0 += stretch.unwrap_or_default();
    }

    fn read(&self) -> Duration {
        let stretches = lock(&self.stretches);
        stretches.0 + stretches.1.map(pbg_clock::elapsed).unwrap_or_default()
    }
}
