//! Asynchronous events of a connection.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use async_nats::Event;
use pbg_core::lock::lock;

/// Asynchronous events of a connection.
#[derive(Default)]
pub(crate) struct ConnectionEvents {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    woken: bool,
    connections: u64,
    /// Number of consecutive writes without a reply, while reads were answered.
    unanswered_writes: u32,
    complaint: Option<String>,
}

impl ConnectionEvents {
    /// Wakes the current waiter, or the next one.
    pub(crate) fn wake(&self) {
        lock(&self.state).woken = true;
        self.changed.notify_all();
    }

    /// Waits for a wake-up since the last call, at most for `at_most`. Returns whether there was one.
    pub(crate) fn wait(&self, at_most: Duration) -> bool {
        let waited = self
            .changed
            .wait_timeout_while(lock(&self.state), at_most, |state| !state.woken);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        std::mem::take(&mut state.woken)
    }

    /// Returns the server's last error message, such as a missing permission.
    pub(crate) fn last_server_error(&self) -> Option<String> {
        lock(&self.state).complaint.clone()
    }

    /// Records whether a write to the register was answered.
    pub(crate) fn wrote(&self, is_answered: bool) {
        let mut state = lock(&self.state);
        state.unanswered_writes = match is_answered {
            true => 0,
            false => state.unanswered_writes.saturating_add(1),
        };
    }

    /// Returns the number of consecutive writes without a reply.
    pub(crate) fn unanswered_writes(&self) -> u32 {
        lock(&self.state).unanswered_writes
    }

    /// Resets the count of unanswered writes, because the server has been replaced.
    pub(crate) fn forget_writes(&self) {
        lock(&self.state).unanswered_writes = 0;
    }

    /// Records an event that the client reports.
    pub(crate) fn record_event(&self, event: &Event) {
        match event {
            Event::Connected => {
                lock(&self.state).connections += 1;
                // Wake-ups may have been missed before.
                if lock(&self.state).connections > 1 {
                    self.wake();
                }
            }
            Event::SlowConsumer(_) => self.wake(),
            Event::ServerError(error) => lock(&self.state).complaint = Some(error.to_string()),
            _ => {}
        }
    }
}
