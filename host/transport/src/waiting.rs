//! Waits with a common deadline, which report what they wait for.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::error::ConnectError;

/// Interval between two attempts.
const POLL: Duration = Duration::from_millis(200);

/// Common deadline of all waits, and the callback that receives their messages.
pub(crate) struct Deadline<'a> {
    until: Instant,
    patience: Duration,
    pub(crate) notice: &'a dyn Fn(&str),
    stop: Option<Arc<AtomicBool>>,
    said: RefCell<String>,
}

impl<'a> Deadline<'a> {
    /// Creates waits that end together after `patience`, or when `stop` is set.
    pub(crate) fn new(
        patience: Duration,
        notice: &'a dyn Fn(&str),
        stop: Option<Arc<AtomicBool>>,
    ) -> Self {
        Self {
            until: pbg_clock::now() + patience,
            patience,
            notice,
            stop,
            said: RefCell::default(),
        }
    }

    /// Waits a moment, and reports what it waits for, unless that repeats the last message.
    ///
    /// # Errors
    /// [`ConnectError::Patience`] after the deadline; [`ConnectError::Interrupted`] if the caller has cancelled.
    pub(crate) fn pause(&self, what: &str) -> Result<(), ConnectError> {
        if self
            .stop
            .as_ref()
            .is_some_and(|stop| stop.load(Ordering::Relaxed))
        {
            return Err(ConnectError::Interrupted {
                what: what.to_owned(),
            });
        }
        if pbg_clock::now() >= self.until {
            return Err(ConnectError::Patience {
                what: what.to_owned(),
                patience: self.patience,
            });
        }
        if *self.said.borrow() != what {
            (self.notice)(what);
            what.clone_into(&mut self.said.borrow_mut());
        }
        pbg_clock::sleep(POLL);
        Ok(())
    }
}
