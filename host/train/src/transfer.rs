//! Reads and writes tables on a thread of its own, while others train.
//!
//! Orders are carried out one after the other, so a table that is read again after it was written is the
//! written one, and what leaves the buffer has left memory before what enters it takes its place. What a
//! commit still has to do once its tables are written waits until there is no order.

use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pbg_core::batch_graph::pipeline::ON_THEIR_WAY;

use crate::buffer::TableStore;
use crate::error::RunError;
use crate::layout::{Group, TableKey};

/// Tables with their keys. A commit that is still to write one shares it with the buffer.
pub(crate) type Tables<T> = Vec<(TableKey, Arc<T>)>;

/// Tables that are loaded and evicted together.
#[derive(Debug)]
pub(crate) struct Slot<T> {
    pub(crate) group: Group,
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
}

enum Order<S: TableStore> {
    Load(Group, Vec<TableKey>),
    Save(Tables<S::Table>),
    Commit(S::Cut, Tables<S::Table>),
}

/// What became of an order.
enum Done<T> {
    Loaded(Slot<T>),
    Saved,
    /// The tables of a commit are written; they may be trained again.
    Written,
    Committed(Committed),
}

type Answer<T> = Result<Done<T>, RunError>;

/// What is on its way in and out of memory.
#[derive(Debug)]
pub(crate) struct Transfers<S: TableStore> {
    /// Dropping it ends the thread.
    orders: Option<SyncSender<Order<S>>>,
    /// Never locked: it makes the buffer one that threads may read from.
    done: Mutex<Receiver<Answer<S::Table>>>,
    thread: Option<JoinHandle<()>>,
    coming: Vec<Group>,
    arrived: Vec<Slot<S::Table>>,
    /// Whether a commit's tables are still to be written.
    writing: bool,
    /// Whether a commit is not at its end.
    committing: bool,
    committed: Option<Committed>,
    clock: Arc<Clock>,
}

impl<S: TableStore> Transfers<S> {
    pub(crate) fn new(store: Arc<S>) -> Result<Self, RunError> {
        // As many to be written as left the buffer, then those to be read, and a commit.
        let (orders, received) = sync_channel(2 * ON_THEIR_WAY + 1);
        let (report, done) = channel();
        let clock = Arc::new(Clock::default());
        let carrier = Carrier {
            store,
            clock: Arc::clone(&clock),
            report,
            writing: None,
        };
        let thread = thread::Builder::new()
            .name("partition-io".to_owned())
            .spawn(move || carrier.work(&received))
            .map_err(|e| RunError::Thread(e.to_string()))?;
        Ok(Self {
            orders: Some(orders),
            done: Mutex::new(done),
            thread: Some(thread),
            coming: Vec::new(),
            arrived: Vec::new(),
            writing: false,
            committing: false,
            committed: None,
            clock,
        })
    }

    /// Starts reading `group`, unless it is on its way already.
    pub(crate) fn load(&mut self, group: Group, keys: Vec<TableKey>) {
        if !self.coming.contains(&group) && !self.arrived.iter().any(|slot| slot.group == group) {
            self.coming.push(group);
            self.order(Order::Load(group, keys));
        }
    }

    /// Waits for `group`, which is on its way.
    pub(crate) fn take(&mut self, group: Group) -> Result<Slot<S::Table>, RunError> {
        loop {
            if let Some(found) = self.arrived.iter().position(|slot| slot.group == group) {
                return Ok(self.arrived.swap_remove(found));
            }
            self.wait()?;
        }
    }

    /// Starts writing what left the buffer; its memory is free afterwards.
    pub(crate) fn save(&mut self, tables: Tables<S::Table>) {
        self.order(Order::Save(tables));
    }

    /// Starts a commit of what was saved so far, `tables` and `cut`; none may be under way.
    pub(crate) fn commit(&mut self, cut: S::Cut, tables: Tables<S::Table>) {
        (self.writing, self.committing) = (true, true);
        self.order(Order::Commit(cut, tables));
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
        loop {
            let done = self.done.get_mut().unwrap_or_else(PoisonError::into_inner);
            match done.try_recv() {
                Ok(answer) => self.absorb(answer)?,
                Err(TryRecvError::Empty) => return Ok(self.committed.take()),
                Err(TryRecvError::Disconnected) => return Err(RunError::WorkerPanic),
            }
        }
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

    /// Time that the thread has spent on commits so far.
    pub(crate) fn time_of_commits(&self) -> Duration {
        self.clock.read()
    }

    fn order(&mut self, order: Order<S>) {
        // A thread that is gone is noticed by `wait`, which waits for its answer.
        let _gone = self.orders.as_ref().map(|orders| orders.send(order));
    }

    fn wait(&mut self) -> Result<(), RunError> {
        let done = self.done.get_mut().unwrap_or_else(PoisonError::into_inner);
        let answer = done.recv().map_err(|_| RunError::WorkerPanic)?;
        self.absorb(answer)
    }

    fn absorb(&mut self, answer: Answer<S::Table>) -> Result<(), RunError> {
        match answer? {
            Done::Loaded(slot) => {
                self.coming.retain(|&group| group != slot.group);
                self.arrived.push(slot);
            }
            Done::Saved => {}
            Done::Written => self.writing = false,
            Done::Committed(committed) => {
                self.committing = false;
                self.committed = Some(committed);
            }
        }
        Ok(())
    }
}

impl<S: TableStore> Drop for Transfers<S> {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // What it panicked with was printed; there is nobody left to tell.
            let _panicked = thread.join();
        }
    }
}

/// The thread's side.
struct Carrier<S: TableStore> {
    store: Arc<S>,
    clock: Arc<Clock>,
    report: Sender<Answer<S::Table>>,
    /// If a commit is under way, how long its tables took to write.
    writing: Option<Duration>,
}

impl<S: TableStore> Carrier<S> {
    /// Carries out orders until there will be no more, or one fails: nothing that comes behind a failed write
    /// may become current. A commit that is not at its end then is given up.
    fn work(mut self, orders: &Receiver<Order<S>>) {
        loop {
            let next = match self.writing {
                None => orders.recv().map_err(|_| TryRecvError::Disconnected),
                Some(_) => orders.try_recv(),
            };
            let answer = match next {
                Ok(order) => Some(self.carry_out(order)),
                Err(TryRecvError::Empty) => self.go_on().transpose(),
                Err(TryRecvError::Disconnected) => return,
            };
            let Some(answer) = answer else {
                continue;
            };
            let failed = answer.is_err();
            if self.report.send(answer).is_err() || failed {
                return;
            }
        }
    }

    fn carry_out(&mut self, order: Order<S>) -> Answer<S::Table> {
        match order {
            Order::Load(group, keys) => self.load(group, &keys).map(Done::Loaded),
            Order::Save(tables) => {
                for (key, table) in tables {
                    self.store.save(key, &table)?;
                }
                Ok(Done::Saved)
            }
            Order::Commit(cut, tables) => {
                let started = self.clock.start();
                let written = self.write(cut, tables);
                self.clock.stop();
                self.writing = Some(started.elapsed());
                written.map(|()| Done::Written)
            }
        }
    }

    /// Writes what belongs to a commit. Each table is given back as soon as it is written.
    fn write(&self, cut: S::Cut, tables: Tables<S::Table>) -> Result<(), RunError> {
        self.store.begin(cut)?;
        for (key, table) in tables {
            self.store.add(key, &table)?;
        }
        Ok(())
    }

    /// The next step of the commit under way.
    fn go_on(&mut self) -> Result<Option<Done<S::Table>>, RunError> {
        self.clock.start();
        let version = self.store.go_on();
        self.clock.stop();
        if matches!(version, Ok(None)) {
            return Ok(None);
        }
        let writing = self.writing.take().unwrap_or_default();
        let committed = |version| Done::Committed(Committed { version, writing });
        Ok(version?.map(committed))
    }

    fn load(&self, group: Group, keys: &[TableKey]) -> Result<Slot<S::Table>, RunError> {
        let read = |&key: &TableKey| Ok((key, Arc::new(self.store.load(key)?)));
        Ok(Slot {
            group,
            tables: keys.iter().map(read).collect::<Result<_, RunError>>()?,
            changed: false,
            unsaved: false,
        })
    }
}

/// How long the thread has worked on commits: what it does meanwhile, whoever waits for it waits for a commit.
#[derive(Debug, Default)]
struct Clock {
    /// The sum of finished stretches, and the start of the one that goes on.
    stretches: Mutex<(Duration, Option<Instant>)>,
}

impl Clock {
    fn start(&self) -> Instant {
        let now = Instant::now();
        self.stretches
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .1 = Some(now);
        now
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
