//! One batch on several workers, where every entity is a negative.
//!
//! Such a batch changes every row of a table, so workers with batches of their own would overwrite each other's
//! updates. Here each has a share of the entities instead: it prepares their rows, scores them against all positives
//! of the batch, and has their gradients. A loss needs all scores of a positive, so workers exchange scores, and each
//! evaluates the loss of a share of the positives. What gradients of positives and of parameters a worker finds are
//! summands of the whole, which are added up before they are applied. Then every table row has one writer, and what
//! comes out depends on the number of workers by the order of sums only.

use std::mem;
use std::ops::Range;
use std::sync::{
    Condvar, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard,
};

use pbg_gemm::buffer::FloatBuffer;

use crate::accumulate::GradientRows;
use crate::error::StepError;
use crate::step::parameters::ParameterGradients;

/// What of a batch a worker computes.
#[derive(Clone, Copy)]
pub(crate) struct Share<'x> {
    index: usize,
    exchange: Option<&'x Exchange>,
}

impl<'x> Share<'x> {
    /// All of it: the worker has the batch for itself.
    pub(crate) const WHOLE: Self = Self {
        index: 0,
        exchange: None,
    };

    /// That of worker `index` of those that meet in `exchange`.
    pub(crate) fn new(index: usize, exchange: &'x Exchange) -> Self {
        Self {
            index,
            exchange: Some(exchange),
        }
    }

    /// Whether the worker computes what cannot be shared out.
    pub(crate) fn is_first(&self) -> bool {
        self.index == 0
    }

    /// The part of `count` things that is the worker's.
    pub(crate) fn of(&self, count: usize) -> Range<usize> {
        part(
            count,
            self.index,
            self.exchange.map_or(1, Exchange::workers),
        )
    }

    /// Exchanges the memory for whole rows of scores with `buffer`, before a batch and behind it.
    pub(crate) fn lend(&self, buffer: &mut FloatBuffer) {
        if let Some((exchange, index)) = self.exchange() {
            mem::swap(buffer, &mut exchange.rows_mut(index));
        }
    }

    /// Where the worker meets the others, and its index there.
    pub(crate) fn exchange(&self) -> Option<(&'x Exchange, usize)> {
        Some((self.exchange?, self.index))
    }
}

/// Part `index` of `count` things that are cut into `parts`.
pub(crate) fn part(count: usize, index: usize, parts: usize) -> Range<usize> {
    count * index / parts..count * (index + 1) / parts
}

/// What a worker gives to the others at the end of a batch.
pub(crate) struct Summands {
    /// Per table.
    pub(crate) rows: [GradientRows; 2],
    pub(crate) parameters: ParameterGradients,
}

/// What one worker has put up for the others.
struct Given {
    /// Scores of its entities with all positives of the slice.
    block: RwLock<FloatBuffer>,
    /// Scores of its positives with all entities; then their gradients.
    rows: RwLock<FloatBuffer>,
    summands: RwLock<Summands>,
}

/// Where the workers of a batch wait for each other, and find what others have put up.
pub(crate) struct Exchange {
    given: Vec<Given>,
    meeting: Mutex<Meeting>,
    changed: Condvar,
}

#[derive(Default)]
struct Meeting {
    /// Workers that wait now.
    waiting: usize,
    /// How often all have met.
    met: u64,
    /// Whether one of them gave up.
    failed: bool,
}

impl Exchange {
    pub(crate) fn new(workers: usize) -> Self {
        let given = |_| Given {
            block: RwLock::new(FloatBuffer::zeros(0)),
            rows: RwLock::new(FloatBuffer::zeros(0)),
            summands: RwLock::new(Summands {
                rows: Default::default(),
                parameters: ParameterGradients::new(),
            }),
        };
        Self {
            given: (0..workers).map(given).collect(),
            meeting: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    pub(crate) fn workers(&self) -> usize {
        self.given.len()
    }

    /// Waits until all workers have come here.
    ///
    /// # Errors
    /// When one of them failed.
    pub(crate) fn wait(&self) -> Result<(), StepError> {
        let mut meeting = self.meeting();
        meeting.waiting += 1;
        if meeting.waiting == self.workers() {
            meeting.waiting = 0;
            meeting.met += 1;
            self.changed.notify_all();
        }
        let met = meeting.met + u64::from(meeting.waiting > 0);
        while meeting.met < met && !meeting.failed {
            let waited = self.changed.wait(meeting);
            meeting = waited.unwrap_or_else(PoisonError::into_inner);
        }
        match meeting.met < met {
            true => Err(StepError::Abandoned),
            false => Ok(()),
        }
    }

    /// A worker gives up: nobody waits for it any more.
    pub(crate) fn fail(&self) {
        self.meeting().failed = true;
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

    pub(crate) fn summands(&self) -> Vec<RwLockReadGuard<'_, Summands>> {
        self.given
            .iter()
            .map(|given| read(&given.summands))
            .collect()
    }

    pub(crate) fn summands_mut(&self, worker: usize) -> RwLockWriteGuard<'_, Summands> {
        write(&self.given[worker].summands)
    }

    fn meeting(&self) -> MutexGuard<'_, Meeting> {
        self.meeting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Gives up for a worker that ends before it is [done](Presence::done), by an error or a panic.
pub(crate) struct Presence<'x>(Option<&'x Exchange>);

impl<'x> Presence<'x> {
    pub(crate) fn of(share: Share<'x>) -> Self {
        Self(share.exchange)
    }

    pub(crate) fn done(mut self) {
        self.0 = None;
    }
}

impl Drop for Presence<'_> {
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
