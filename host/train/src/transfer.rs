//! Reads and writes tables on a thread of its own, while others train.
//!
//! Orders are carried out one after the other, so a table that is read again after it was written is the
//! written one, and what leaves the buffer has left memory before what enters it takes its place.

use std::sync::mpsc::{Receiver, SyncSender, channel, sync_channel};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::{self, JoinHandle};

use pbg_core::batch_graph::pipeline::ON_THEIR_WAY;
use pbg_core::event::IoStats;

use crate::buffer::TableStore;
use crate::error::RunError;
use crate::layout::{Group, TableKey};

/// Tables that are loaded and evicted together.
#[derive(Debug)]
pub(crate) struct Slot<T> {
    pub(crate) group: Group,
    pub(crate) tables: Vec<(TableKey, T)>,
    pub(crate) dirty: bool,
}

impl<T> Slot<T> {
    /// Writes the tables, if they changed since they were read.
    pub(crate) fn save<S: TableStore<Table = T>>(
        &mut self,
        store: &S,
        io: &mut IoStats,
    ) -> Result<(), RunError> {
        if self.dirty {
            for (key, table) in &mut self.tables {
                io.bytes_written += store.save(*key, table)?;
            }
            io.writes += 1;
            self.dirty = false;
        }
        Ok(())
    }
}

/// Reads the tables of `group`.
pub(crate) fn read<S: TableStore>(
    store: &S,
    group: Group,
    keys: &[TableKey],
    io: &mut IoStats,
) -> Result<Slot<S::Table>, RunError> {
    let mut tables = Vec::with_capacity(keys.len());
    for &key in keys {
        let (table, bytes) = store.load(key)?;
        io.bytes_read += bytes;
        tables.push((key, table));
    }
    io.loads += 1;
    Ok(Slot {
        group,
        tables,
        dirty: false,
    })
}

enum Order<T> {
    Load(Group, Vec<TableKey>),
    Save(Slot<T>),
}

/// An order that was carried out: the slot that was read, or nothing for one that was written.
type Done<T> = Result<(Option<Slot<T>>, IoStats), RunError>;

/// What is on its way in and out of memory.
#[derive(Debug)]
pub(crate) struct Transfers<T> {
    /// Dropping it ends the thread.
    orders: Option<SyncSender<Order<T>>>,
    /// Never locked: it makes the buffer one that threads may read from.
    done: Mutex<Receiver<Done<T>>>,
    thread: Option<JoinHandle<()>>,
    /// Orders that were given and are not carried out yet.
    open: usize,
    coming: Vec<Group>,
    arrived: Vec<Slot<T>>,
    traffic: IoStats,
}

impl<T: Send + 'static> Transfers<T> {
    pub(crate) fn new<S>(store: Arc<RwLock<S>>) -> Result<Self, RunError>
    where
        S: TableStore<Table = T> + Send + Sync + 'static,
    {
        // As many to be written as left the buffer, then those to be read.
        let (orders, received) = sync_channel(2 * ON_THEIR_WAY);
        let (report, done) = channel();
        let thread = thread::Builder::new()
            .name("partition-io".to_owned())
            .spawn(move || {
                for order in received {
                    let store = store.read().unwrap_or_else(PoisonError::into_inner);
                    if report.send(carry_out(&*store, order)).is_err() {
                        break;
                    }
                }
            })
            .map_err(|e| RunError::Thread(e.to_string()))?;
        Ok(Self {
            orders: Some(orders),
            done: Mutex::new(done),
            thread: Some(thread),
            open: 0,
            coming: Vec::new(),
            arrived: Vec::new(),
            traffic: IoStats::default(),
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
    pub(crate) fn take(&mut self, group: Group) -> Result<Slot<T>, RunError> {
        loop {
            if let Some(found) = self.arrived.iter().position(|slot| slot.group == group) {
                return Ok(self.arrived.swap_remove(found));
            }
            self.next()?;
        }
    }

    /// Starts writing what left the buffer; its memory is free afterwards.
    pub(crate) fn save(&mut self, slot: Slot<T>) {
        if slot.dirty {
            self.order(Order::Save(slot));
        }
    }

    /// Waits until nothing is on its way; what was read waits to be taken.
    pub(crate) fn settle(&mut self) -> Result<(), RunError> {
        while self.open > 0 {
            self.next()?;
        }
        Ok(())
    }

    /// Traffic of the orders that were found carried out since this was asked last.
    pub(crate) fn traffic(&mut self) -> IoStats {
        std::mem::take(&mut self.traffic)
    }

    fn order(&mut self, order: Order<T>) {
        self.open += 1;
        // A thread that is gone is noticed by `next`, which waits for its answer.
        let _gone = self.orders.as_ref().map(|orders| orders.send(order));
    }

    fn next(&mut self) -> Result<(), RunError> {
        let done = self
            .done
            .get_mut()
            .unwrap_or_else(PoisonError::into_inner)
            .recv();
        let (slot, io) = done.map_err(|_| RunError::WorkerPanic)??;
        self.open -= 1;
        self.traffic.add(&io);
        if let Some(slot) = slot {
            self.coming.retain(|&group| group != slot.group);
            self.arrived.push(slot);
        }
        Ok(())
    }
}

impl<T> Drop for Transfers<T> {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // What it panicked with was printed; there is nobody left to tell.
            let _panicked = thread.join();
        }
    }
}

fn carry_out<S: TableStore>(store: &S, order: Order<S::Table>) -> Done<S::Table> {
    let mut io = IoStats::default();
    match order {
        Order::Load(group, keys) => Ok((Some(read(store, group, &keys, &mut io)?), io)),
        Order::Save(mut slot) => {
            slot.save(store, &mut io)?;
            Ok((None, io))
        }
    }
}
