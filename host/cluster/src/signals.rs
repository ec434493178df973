//! What happens on a line without being asked for.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_nats::Event;

/// What happens on a line without being asked for.
#[derive(Default)]
pub(crate) struct Signals {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    woken: bool,
    connections: u64,
    /// Writes in a row that got no answer, while reads did.
    unanswered_writes: u32,
    complaint: Option<String>,
}

impl Signals {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the waiting of whoever waits, or of who waits next.
    pub(crate) fn wake(&self) {
        self.state().woken = true;
        self.changed.notify_all();
    }

    /// Waits for a wake-up since the last call.
    pub(crate) fn wait(&self, at_most: Duration) -> bool {
        let waited = self
            .changed
            .wait_timeout_while(self.state(), at_most, |state| !state.woken);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        std::mem::take(&mut state.woken)
    }

    /// What the server has complained of last, such as a right that is lacking.
    pub(crate) fn complaint(&self) -> Option<String> {
        self.state().complaint.clone()
    }

    /// A write of the register got an answer, or none.
    pub(crate) fn wrote(&self, is_answered: bool) {
        let mut state = self.state();
        state.unanswered_writes = match is_answered {
            true => 0,
            false => state.unanswered_writes.saturating_add(1),
        };
    }

    /// Writes in a row that got no answer.
    pub(crate) fn unanswered_writes(&self) -> u32 {
        self.state().unanswered_writes
    }

    /// The server is another one now.
    pub(crate) fn forget_writes(&self) {
        self.state().unanswered_writes = 0;
    }

    /// Takes note of what the client tells.
    pub(crate) fn happened(&self, event: &Event) {
        match event {
            Event::Connected => {
                self.state().connections += 1;
                // Wake-ups may have been missed meanwhile.
                if self.state().connections > 1 {
                    self.wake();
                }
            }
            Event::SlowConsumer(_) => self.wake(),
            Event::ServerError(error) => self.state().complaint = Some(error.to_string()),
            _ => {}
        }
    }
}
