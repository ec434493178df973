//! Somebody needs a newer record and cannot wait for it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Whether a newer record is needed.
#[derive(Default)]
pub(super) struct Needs {
    needed: Mutex<bool>,
    changed: Condvar,
}

impl Needs {
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.needed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks for a newer record; does not wait for it.
    pub(super) fn wake(&self) {
        *self.lock() = true;
        self.changed.notify_all();
    }

    /// Waits until one is asked for, at most this long. Says whether one is.
    pub(super) fn wait(&self, at_most: Duration) -> bool {
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), at_most, |needed| !*needed);
        let mut needed = waited.unwrap_or_else(PoisonError::into_inner).0;
        std::mem::take(&mut needed)
    }
}
