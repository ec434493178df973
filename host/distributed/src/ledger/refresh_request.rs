//! Requests for a newer record by threads that cannot wait for it.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use pbg_core::lock::lock;

/// Flag that is set while a newer record is requested.
#[derive(Default)]
pub(super) struct RefreshRequest {
    needed: Mutex<bool>,
    changed: Condvar,
}

impl RefreshRequest {
    /// Requests a newer record without waiting for it.
    pub(super) fn wake(&self) {
        *lock(&self.needed) = true;
        self.changed.notify_all();
    }

    /// Waits for a request for at most `at_most`. Clears it, and returns whether there was one.
    pub(super) fn wait(&self, at_most: Duration) -> bool {
        let waited = self
            .changed
            .wait_timeout_while(lock(&self.needed), at_most, |needed| !*needed);
        let mut needed = waited.unwrap_or_else(PoisonError::into_inner).0;
        std::mem::take(&mut needed)
    }
}
