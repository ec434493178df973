//! Events of runs: of those in progress, and of those in a checkpoint's folder.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pbg_core::event::Event;
use pbg_session::metrics as kept;
use pyo3::prelude::*;

use crate::config::json;
use crate::front::work;

/// Queue of events from the training thread to Python.
#[derive(Default)]
pub(crate) struct Inbox {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    events: VecDeque<Event>,
    closed: bool,
}

impl Inbox {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event. Of consecutive progress events only the last is kept.
    pub(crate) fn put(&self, event: Event) {
        let mut state = self.lock();
        let is_progress = |event: &Event| matches!(event, Event::Progress { .. });
        if is_progress(&event) && state.events.back().is_some_and(is_progress) {
            state.events.pop_back();
        }
        state.events.push_back(event);
        self.changed.notify_all();
    }

    /// Notes that no more events will follow.
    pub(crate) fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    /// Returns the next event. `None` if none arrives within `time`, or none will follow.
    pub(crate) fn next(&self, time: Duration) -> Option<Event> {
        let waits = |state: &mut State| state.events.is_empty() && !state.closed;
        let waited = self.changed.wait_timeout_while(self.lock(), time, waits);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        state.events.pop_front()
    }

    /// Returns whether every event was taken and none will follow.
    pub(crate) fn is_over(&self) -> bool {
        let state = self.lock();
        state.closed && state.events.is_empty()
    }
}

/// Returns an error unless this kind of event exists.
#[pyfunction]
pub(crate) fn known_event(py: Python<'_>, kind: &str) -> PyResult<()> {
    work(py, |_| kept::known(kind))
}

/// Returns the events in `metrics.jsonl` of a checkpoint's folder, as JSON.
#[pyfunction]
pub(crate) fn metrics(py: Python<'_>, checkpoint: PathBuf) -> PyResult<String> {
    work(py, |_| {
        json(&kept::read(&checkpoint.join("metrics.jsonl"))?)
    })
}
