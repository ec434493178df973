//! Threads that share the clock of the thread that starts them.

use std::any::Any;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use crate::clock::simulated;
use crate::monitor::Monitor;

/// Outcome of a thread: an error is the payload of its panic, whose message is already printed.
type Outcome = Result<(), Box<dyn Any + Send>>;

/// Interval after which a join looks again.
const LOOK: Duration = Duration::from_secs(3600);

/// Handle of a thread that [`spawn`] has started.
pub struct JoinHandle(Kind);

enum Kind {
    Machine(thread::JoinHandle<()>),
    Simulated(Arc<Monitor<Option<Outcome>>>),
}

impl fmt::Debug for JoinHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JoinHandle")
    }
}

/// Starts a thread under the clock of this one.
///
/// # Errors
/// When the operating system cannot create a thread.
pub fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle> {
    let Some(clock) = simulated() else {
        let builder = thread::Builder::new().name(name.to_owned());
        return Ok(JoinHandle(Kind::Machine(builder.spawn(work)?)));
    };
    let outcome = Arc::new(Monitor::new(None));
    let into = Arc::clone(&outcome);
    let run = move || {
        let ended = catch_unwind(AssertUnwindSafe(work));
        into.change(|outcome| *outcome = Some(ended));
    };
    clock.spawn(name, Box::new(run))?;
    Ok(JoinHandle(Kind::Simulated(outcome)))
}

impl JoinHandle {
    /// Waits until the thread ends.
    ///
    /// # Errors
    /// The payload of its panic.
    pub fn join(self) -> Outcome {
        match self.0 {
            Kind::Machine(thread) => thread.join(),
            Kind::Simulated(outcome) => loop {
                let ended = outcome.wait_while(LOOK, |ended| ended.is_none()).take();
                if let Some(ended) = ended {
                    return ended;
                }
            },
        }
    }
}
