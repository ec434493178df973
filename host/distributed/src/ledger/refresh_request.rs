//! Requests for a newer record by threads that cannot wait for it.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Flag that is set while a newer record is requested.
#[derive(Default)]
pub(super) struct RefreshRequest {
    needed: Mutex<bool>,
    changed: Condvar,
}

impl RefreshRequest {
    fn lock(&self) -> MutexGuard<'_, bool> {
        self.needed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Requests a newer record without waiting for it.
    pub(super) fn wake(&self) {
        *self.lock() = true;
        self.changed.notify_all();
    }

    /// Waits for a request for at most `at_most`. Clears it, and returns whether there was one.
    pub(super) fn wait(&self, at_most: Duration) -> bool {
        let waited = self
            .changed
            .wait_timeout_while(self.lock(), at_most, |needed| !*needed);
        let mut needed = waited.unwrap_or_else(PoisonError::into_inner).0;
        std::mem::take(&mut needed)
    }
}
