//! Waits that end, and say for what.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::error::ClusterError;

/// How often something is looked for again.
const POLL: Duration = Duration::from_millis(200);

/// The end of every wait, and who is told about it.
pub(crate) struct Waiting<'a> {
    until: Instant,
    patience: Duration,
    pub(crate) notice: &'a dyn Fn(&str),
    stop: Option<Arc<AtomicBool>>,
    said: RefCell<String>,
}

impl<'a> Waiting<'a> {
    /// Waits that end after `patience`, all together, or when `stop` is set.
    pub(crate) fn new(
        patience: Duration,
        notice: &'a dyn Fn(&str),
        stop: Option<Arc<AtomicBool>>,
    ) -> Self {
        Self {
            until: Instant::now() + patience,
            patience,
            notice,
            stop,
            said: RefCell::default(),
        }
    }

    /// Waits a moment, and says for what if that is news.
    ///
    /// # Errors
    /// [`ClusterError::Patience`] when the time is over; [`ClusterError::Interrupted`] when nobody wants it any more.
    pub(crate) fn pause(&self, what: &str) -> Result<(), ClusterError> {
        if self
            .stop
            .as_ref()
            .is_some_and(|stop| stop.load(Ordering::Relaxed))
        {
            return Err(ClusterError::Interrupted {
                what: what.to_owned(),
            });
        }
        if Instant::now() >= self.until {
            return Err(ClusterError::Patience {
                what: what.to_owned(),
                patience: self.patience,
            });
        }
        if *self.said.borrow() != what {
            (self.notice)(what);
            what.clone_into(&mut self.said.borrow_mut());
        }
        thread::sleep(POLL);
        Ok(())
    }
}
