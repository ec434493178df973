//! A value that threads change and wait for.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::clock::{WaitKey, now, simulated};

/// A value that some threads change and others wait for. A panic of a thread that holds it is reported where the thread
/// is joined, not here.
#[derive(Debug, Default)]
pub struct Monitor<T> {
    value: Mutex<T>,
    changed: Condvar,
}

impl<T> Monitor<T> {
    /// Creates a monitor of `value`.
    #[must_use]
    pub const fn new(value: T) -> Self {
        Self {
            value: Mutex::new(value),
            changed: Condvar::new(),
        }
    }

    /// Locks the value, to look at it or to change it without waking anyone.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the value and wakes the threads that wait for it.
    pub fn change<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let result = change(&mut self.lock());
        self.changed.notify_all();
        if let Some(clock) = simulated() {
            clock.wake(WaitKey::of(self));
        }
        result
    }

    /// Waits while `condition` holds, for at most `at_most`, and returns the locked value.
    pub fn wait_while(
        &self,
        at_most: Duration,
        mut condition: impl FnMut(&mut T) -> bool,
    ) -> MutexGuard<'_, T> {
        let Some(clock) = simulated() else {
            let waited = self
                .changed
                .wait_timeout_while(self.lock(), at_most, condition);
            return waited.unwrap_or_else(PoisonError::into_inner).0;
        };
        let until = now().checked_add(at_most);
        loop {
            let mut value = self.lock();
            if !condition(&mut value) || until.is_some_and(|until| clock.now() >= until) {
                return value;
            }
            drop(value);
            clock.wait(WaitKey::of(self), until);
        }
    }
}
