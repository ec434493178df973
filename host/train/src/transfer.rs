//! Reads and writes tables: the storage group, beside training where it has a thread.
//!
//! Orders are carried out one after the other, so a table that is read again after it was written is the
//! written one, and what leaves the buffer has left memory before what enters it takes its place. What a
//! commit still has to do once its tables are written waits until there is no order.

use pbg_core::graph::SidePartition;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pbg_core::batch_graph::pipeline;
use pbg_core::event::GroupSeconds;

use crate::buffer::{Copies, TableStore};
use crate::error::RunError;
use crate::groups::{self, Work};
use crate::layout::TableKey;
use crate::processor;

/// Tables with their keys. A commit that is still to write one shares it with the buffer.
pub(crate) type Tables<T> = Vec<(TableKey, Arc<T>)>;

/// Tables that are loaded and evicted together.
#[derive(Debug)]
pub(crate) struct Slot<T> {
    pub(crate) group: SidePartition,
    pub(crate) tables: Tables<T>,
    /// Whether they were trained since they entered the buffer.
    pub(crate) changed: bool,
    /// Whether they were trained since they were read, or last ordered to be written.
    pub(crate) unsaved: bool,
}

/// A version that has become current.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Its number.
    pub version: u64,
    /// Time that it took to write its tables, beside training.
    pub writing: Duration,
    /// Processor time that all of the commit took.
    pub processor: Duration,
}

/// What the storage group is asked for.
pub(crate) enum Order<S: TableStore> {
    Load(SidePartition, Vec<TableKey>),
    Save(Tables<S::Table>),
    Commit(S::Cut, Tables<S::Table>),
}

/// What became of an order.
pub(crate) enum Done<T> {
    Loaded(Slot<T>),
    Saved,
    /// The tables of a commit are written; they may be trained again.
    Written,
    Committed(Committed),
}

/// What is on its way in and out of memory.
pub(crate) struct Transfers<S: TableStore> {
    storage: groups::GroupHandle<Storage<S>>,
    under_way: Vec<SidePartition>,
    arrived: Vec<Slot<S::Table>>,
    /// Whether a commit's tables are still to be written.
    writing: bool,
    /// Whether a commit is not at its end.
    committing: bool,
    committed: Option<Committed>,
    clock: Arc<Clock>,
}

impl<S: TableStore> Transfers<S> {
    /// Transfers by a group of its own if `ahead` says how many partitions may be on their way; without, by who
    /// asks for them.
    pub(crate) fn new(
        storage: Storage<S>,
        ahead: Option<usize>,
        training: Arc<groups::Clock>,
    ) -> Result<Self, RunError> {
        let clock = Arc::clone(&storage.clock);
        // Both partitions of a bucket may leave the buffer, then come those to be read, and a commit.
        let pipe = ahead.map(|ahead| (pipeline::STORAGE, 2 + ahead + 1));
        Ok(Self {
            storage: groups::GroupHandle::start(pipe, storage, training)?,
            under_way: Vec::new(),
            arrived: Vec::new(),
            writing: false,
            committing: false,
            committed: None,
            clock,
        })
    }

    /// Where the group's time went, if it has a thread.
    pub(crate) fn seconds(&self) -> Option<GroupSeconds> {
        self.storage.seconds()
    }

    /// Starts reading `group`, unless it is on its way already.
    pub(crate) fn load(&mut self, group: SidePartition, keys: Vec<TableKey>) {
        if !self.under_way.contains(&group) && !self.arrived.iter().any(|slot| slot.group == group)
        {
            self.under_way.push(group);
            self.storage.order(Order::Load(group, keys));
        }
    }

    /// Waits for `group`, which is on its way.
    pub(crate) fn take(&mut self, group: SidePartition) -> Result<Slot<S::Table>, RunError> {
        loop {
            if let Some(found) = self.arrived.iter().position(|slot| slot.group == group) {
                return Ok(self.arrived.swap_remove(found));
            }
            self.wait()?;
        }
    }

    /// Drops what was read ahead of groups that `is_stale`.
    pub(crate) fn forget(&mut self, is_stale: impl Fn(SidePartition) -> bool) {
        self.arrived.retain(|slot| !is_stale(slot.group));
    }

    /// Starts writing what left the buffer; its memory is free afterwards.
    pub(crate) fn save(&mut self, tables: Tables<S::Table>) {
        self.storage.order(Order::Save(tables));
    }

    /// Starts a commit of what was saved so far, `tables` and `cut`; none may be under way.
    pub(crate) fn commit(&mut self, cut: S::Cut, tables: Tables<S::Table>) {
        (self.writing, self.committing) = (true, true);
        self.storage.order(Order::Commit(cut, tables));
    }

    /// Whether a commit is not at its end.
    pub(crate) fn committing(&self) -> bool {
        self.committing
    }

    /// The commit that came to its end since this was asked last. With `wait`, if one is under way, its end
    /// is waited for.
    pub(crate) fn committed(&mut self, wait: bool) -> Result<Option<Committed>, RunError> {
        if wait {
            self.finish()?;
        }
        while let Some(done) = self.storage.received()? {
            self.absorb(done);
        }
        Ok(self.committed.take())
    }

    /// Waits for the end of the commit under way, if there is one.
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

    /// Time that storage has spent on commits so far.
    pub(crate) fn time_of_commits(&self) -> Duration {
        self.clock.read()
    }

    fn wait(&mut self) -> Result<(), RunError> {
        let done = self.storage.receive()?;
        self.absorb(done);
        Ok(())
    }

    fn absorb(&mut self, done: Done<S::Table>) {
        match done {
            Done::Loaded(slot) => {
                self.under_way.retain(|&group| group != slot.group);
                self.arrived.push(slot);
            }
            Done::Saved => {}
            Done::Written => self.writing = false,
            Done::Committed(committed) => {
                self.committing = false;
                self.committed = Some(committed);
            }
        }
    }
}

/// What the storage group does. Nothing that comes behind a failed write may become current, so its first error
/// is its end.
pub(crate) struct Storage<S: TableStore> {
    store: Arc<S>,
    copies: Arc<Copies<S::Table>>,
    clock: Arc<Clock>,
    /// If a commit is under way, what its tables took to write.
    writing: Option<Effort>,
}

/// What something took.
#[derive(Clone, Copy, Default)]
struct Effort {
    time: Duration,
    /// Processor time of the thread; all of the time, where the system does not tell.
    processor: Duration,
}

impl Effort {
    /// What `work` takes, and what it gives.
    fn of<T>(work: impl FnOnce() -> T) -> (Self, T) {
        let (started, before) = (Instant::now(), processor::of_this_thread());
        let made = work();
        let time = started.elapsed();
        let used = before.zip(processor::of_this_thread());
        let processor = used.map_or(time, |(before, after)| after.saturating_sub(before));
        (Self { time, processor }, made)
    }
}

impl<S: TableStore> Work for Storage<S> {
    type Order = Order<S>;
    type Made = Done<S::Table>;

    fn perform(&mut self, order: Order<S>) -> Result<Done<S::Table>, RunError> {
        match order {
            Order::Load(group, keys) => self.load(group, &keys).map(Done::Loaded),
            Order::Save(tables) => {
                for (key, table) in tables {
                    self.store.save(key, &table)?;
                }
                Ok(Done::Saved)
            }
            Order::Commit(cut, tables) => {
                self.clock.start();
                let (effort, written) = Effort::of(|| self.write(cut, tables));
                self.clock.stop();
                self.writing = Some(effort);
                written.map(|()| Done::Written)
            }
        }
    }

    fn unfinished(&self) -> bool {
        self.writing.is_some()
    }

    /// The next step of the commit under way.
    fn go_on(&mut self) -> Result<Option<Done<S::Table>>, RunError> {
        self.clock.start();
        let (piece, version) = Effort::of(|| self.store.go_on());
        self.clock.stop();
        let effort = self.writing.get_or_insert_default();
        effort.processor += piece.processor;
        if matches!(version, Ok(None)) {
            return Ok(None);
        }
        let Effort { time, processor } = self.writing.take().unwrap_or_default();
        let committed = |version| {
            Done::Committed(Committed {
                version,
                writing: time,
                processor,
            })
        };
        Ok(version?.map(committed))
    }
}

impl<S: TableStore> Storage<S> {
    /// `copies` are those of the buffer, which get back what was copied.
    pub(crate) fn new(store: Arc<S>, copies: Arc<Copies<S::Table>>) -> Self {
        Self {
            store,
            copies,
            clock: Arc::default(),
            writing: None,
        }
    }

    /// Writes what belongs to a commit. Each table is given back as soon as it is written.
    fn write(&self, cut: S::Cut, tables: Tables<S::Table>) -> Result<(), RunError> {
        self.store.begin(cut)?;
        for (key, table) in tables {
            self.store.add(key, &table)?;
            self.copies.give_back(key, table);
        }
        Ok(())
    }

    fn load(&self, group: SidePartition, keys: &[TableKey]) -> Result<Slot<S::Table>, RunError> {
        let read = |&key: &TableKey| Ok((key, Arc::new(self.store.load(key)?)));
        Ok(Slot {
            group,
            tables: keys.iter().map(read).collect::<Result<_, RunError>>()?,
            changed: false,
            unsaved: false,
        })
    }
}

/// How long storage has worked on commits: training that waits for storage meanwhile waits for a commit.
#[derive(Debug, Default)]
struct Clock {
    /// The sum of finished stretches, and the start of the one that goes on.
    stretches: Mutex<(Duration, Option<Instant>)>,
}

impl Clock {
    fn start(&self) {
        self.stretches
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .1 = Some(Instant::now());
    }

    fn stop(&self) {
        let mut stretches = self
            .stretches
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let stretch = stretches.1.take().map(|start| start.elapsed());
        stretches.0 += stretch.unwrap_or_default();
    }

    fn read(&self) -> Duration {
        let stretches = self
            .stretches
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        stretches.0 + stretches.1.map(|start| start.elapsed()).unwrap_or_default()
    }
}
