//! Workers that answer questions, and the bounded queue of questions that wait for one.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use pbg_query::{ServedPartitions, ServedWorker};

/// Workers of a model.
pub(crate) struct WorkerPool<'s> {
    model: &'s ServedPartitions<'s>,
    state: Mutex<PoolState>,
    freed: Condvar,
    most_waiting: usize,
    patience: Duration,
}

struct PoolState {
    idle: Vec<ServedWorker>,
    waiting: usize,
}

/// Worker that is given back when it is dropped.
pub(crate) struct BusyWorker<'p, 's> {
    pool: &'p WorkerPool<'s>,
    worker: Option<ServedWorker>,
}

impl<'s> WorkerPool<'s> {
    /// Creates a pool of `workers`, for which at most `most_waiting` questions wait, for at most `patience`.
    pub(crate) const fn new(
        model: &'s ServedPartitions<'s>,
        workers: Vec<ServedWorker>,
        most_waiting: usize,
        patience: Duration,
    ) -> Self {
        Self {
            model,
            state: Mutex::new(PoolState {
                idle: workers,
                waiting: 0,
            }),
            freed: Condvar::new(),
            most_waiting,
            patience,
        }
    }

    /// Waits for a worker; `None` if too many questions wait already, or this one waits too long.
    pub(crate) fn take(&self) -> Option<BusyWorker<'_, 's>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.idle.is_empty() {
            if state.waiting >= self.most_waiting {
                return None;
            }
            state.waiting += 1;
            let waited = self
                .freed
                .wait_timeout_while(state, self.patience, |state| state.idle.is_empty());
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
            state.waiting -= 1;
        }
        let worker = state.idle.pop()?;
        Some(BusyWorker {
            pool: self,
            worker: Some(worker),
        })
    }
}

impl BusyWorker<'_, '_> {
    /// Returns the worker; `None` never, as long as it is not dropped.
    pub(crate) const fn worker(&mut self) -> Option<&mut ServedWorker> {
        self.worker.as_mut()
    }
}

impl Drop for BusyWorker<'_, '_> {
    fn drop(&mut self) {
        let mut worker = self.worker.take();
        // The buffers of a worker that panicked may be in any state.
        if std::thread::panicking() {
            worker = self.pool.model.worker().ok().or(worker);
        }
        let mut state = self
            .pool
            .state
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        state.idle.extend(worker);
        drop(state);
        self.pool.freed.notify_one();
    }
}
