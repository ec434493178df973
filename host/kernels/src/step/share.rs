//! Training of one batch by several workers, where every entity is a negative.
//!
//! Such a batch changes every row of a table, so workers with separate batches would overwrite each other's updates.
//! Here each worker has a share of the entities instead: it prepares their rows, scores them against all positives of
//! the batch, and computes their gradients. A loss needs all scores of a positive, so workers exchange scores, and each
//! evaluates the loss of a share of the positives. The gradients of positives and of parameters that a worker computes
//! are summands, which are added up before they are applied. So every table row has one writer, and the result depends
//! on the number of workers only by the order of sums.

use std::mem;
use std::ops::Range;
use std::sync::{Condvar, Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use pbg_core::lock::lock;
use pbg_gemm::buffer::FloatBuffer;
use pbg_rows::gradient_rows::GradientRows;

use crate::error::StepError;
use crate::step::parameters::ParameterGradients;

/// The share of a batch that a worker computes.
#[derive(Clone, Copy)]
pub(crate) struct BatchShare<'x> {
    index: usize,
    exchange: Option<&'x ShareExchange>,
}

impl<'x> BatchShare<'x> {
    /// The whole batch, which no other worker shares.
    pub(crate) const WHOLE: Self = Self {
        index: 0,
        exchange: None,
    };

    /// Returns the share of worker `index` of `exchange`.
    pub(crate) fn new(index: usize, exchange: &'x ShareExchange) -> Self {
        Self {
            index,
            exchange: Some(exchange),
        }
    }

    /// Returns whether the worker also computes what cannot be divided.
    pub(crate) fn is_first(&self) -> bool {
        self.index == 0
    }

    /// Returns the worker's share of `count` items.
    pub(crate) fn of(&self, count: usize) -> Range<usize> {
        part(
            count,
            self.index,
            self.exchange.map_or(1, ShareExchange::workers),
        )
    }

    /// Swaps `buffer` with the exchange's memory for whole rows of scores; called before and after a batch.
    pub(crate) fn swap_rows(&self, buffer: &mut FloatBuffer) {
        if let Some((exchange, index)) = self.exchange() {
            mem::swap(buffer, &mut exchange.rows_mut(index));
        }
    }

    /// Returns the exchange and the worker's index in it; `None` if the worker has the whole batch.
    pub(crate) fn exchange(&self) -> Option<(&'x ShareExchange, usize)> {
        Some((self.exchange?, self.index))
    }
}

/// Returns part `index` of `count` items that are divided into `parts`.
pub(crate) fn part(count: usize, index: usize, parts: usize) -> Range<usize> {
    count * index / parts..count * (index + 1) / parts
}

/// Sums of gradients that a worker passes to the others at the end of a batch.
#[derive(Default)]
pub(crate) struct GradientSums {
    /// Gradients of table rows, per side.
    pub(crate) rows: [GradientRows; 2],
    pub(crate) parameters: ParameterGradients,
}

/// Data that one worker shares with the others.
#[derive(Default)]
struct SharedData {
    /// Scores of the worker's entities with all positives of the slice.
    block: RwLock<FloatBuffer>,
    /// Scores of the worker's positives with all entities; then their gradients.
    rows: RwLock<FloatBuffer>,
    summands: RwLock<GradientSums>,
}

/// Barrier and shared data of the workers of a batch.
pub(crate) struct ShareExchange {
    given: Vec<SharedData>,
    meeting: Mutex<BarrierState>,
    changed: Condvar,
}

#[derive(Default)]
struct BarrierState {
    /// Number of workers that are waiting.
    waiting: usize,
    /// Number of times that all workers have met.
    generation: u64,
    /// Whether a worker failed.
    failed: bool,
}

impl ShareExchange {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            given: (0..workers).map(|_| SharedData::default()).collect(),
            meeting: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    pub(crate) fn workers(&self) -> usize {
        self.given.len()
    }

    /// Waits until all workers have reached this point.
    ///
    /// # Errors
    /// When one of them failed.
    pub(crate) fn wait(&self) -> Result<(), StepError> {
        let mut meeting = lock(&self.meeting);
        meeting.waiting += 1;
        if meeting.waiting == self.workers() {
            meeting.waiting = 0;
            meeting.generation += 1;
            self.changed.notify_all();
        }
        let met = meeting.generation + u64::from(meeting.waiting > 0);
        while meeting.generation < met && !meeting.failed {
            let waited = self.changed.wait(meeting);
            meeting = waited.unwrap_or_else(PoisonError::into_inner);
        }
        match meeting.generation < met {
            true => Err(StepError::Abandoned),
            false => Ok(()),
        }
    }

    /// Marks a worker as failed, which ends all waits with an error.
    pub(crate) fn fail(&self) {
        lock(&self.meeting).failed = true;
        self.changed.notify_all();
    }

    pub(crate) fn block(&self, worker: usize) -> RwLockReadGuard<'_, FloatBuffer> {
        read(&self.given[worker].block)
    }

    pub(crate) fn block_mut(&self, worker: usize) -> RwLockWriteGuard<'_, FloatBuffer> {
        write(&self.given[worker].block)
    }

    pub(crate) fn rows(&self, worker: usize) -> RwLockReadGuard<'_, FloatBuffer> {
        read(&self.given[worker].rows)
    }

    pub(crate) fn rows_mut(&self, worker: usize) -> RwLockWriteGuard<'_, FloatBuffer> {
        write(&self.given[worker].rows)
    }

    pub(crate) fn summands(&self) -> Vec<RwLockReadGuard<'_, GradientSums>> {
        self.given
            .iter()
            .map(|given| read(&given.summands))
            .collect()
    }

    pub(crate) fn summands_mut(&self, worker: usize) -> RwLockWriteGuard<'_, GradientSums> {
        write(&self.given[worker].summands)
    }
}

/// Marks a worker as failed if it ends, by an error or a panic, before it is [done](Presence::done).
pub(crate) struct FailureGuard<'x>(Option<&'x ShareExchange>);

impl<'x> FailureGuard<'x> {
    pub(crate) fn of(share: BatchShare<'x>) -> Self {
        Self(share.exchange)
    }

    pub(crate) fn done(mut self) {
        self.0 = None;
    }
}

impl Drop for FailureGuard<'_> {
    fn drop(&mut self) {
        if let Some(exchange) = self.0 {
            exchange.fail();
        }
    }
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}
