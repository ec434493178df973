//! Handles Ctrl-C: the first press asks the work to stop; the second exits the program, at once or, during training,
//! after a short wait for the work to be saved.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use pbg_config::Config;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;
use signal_hook::low_level;

use crate::failure::{Failure, Result};
use crate::kind::FailureKind;
use crate::progress::Announcer;

/// Signals of Ctrl-C, of service managers and of a closed terminal.
const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Time after the second press for the bucket or batch to end and to be saved. Buckets that take longer are usually
/// saved one by one, so that only the current bucket is lost.
const PATIENCE: Duration = Duration::from_secs(2);

/// Timeout for the terminal to show the message about the first press; longer than any working terminal needs.
const MOMENT: Duration = Duration::from_secs(1);

/// Unit of work that is finished after the first press.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StopUnit {
    /// The bucket.
    Bucket,
    /// The batches in training, within the bucket.
    Batch,
    /// The bucket, which is then settled with the ledger that several trainers share.
    Settlement,
}

impl StopUnit {
    /// Returns the unit of a run.
    pub(crate) fn of(config: &Config) -> Self {
        match pbg_model::resume_point::stops_within_buckets(config) {
            _ if config.is_distributed() => Self::Settlement,
            true => Self::Batch,
            false => Self::Bucket,
        }
    }

    /// Returns the message after the first press.
    const fn stopping_message(self) -> &'static str {
        match self {
            Self::Bucket => {
                "finishing the current bucket, then saving; press Ctrl-C again to wait at most 2 more seconds"
            }
            Self::Batch => {
                "stopping at the next batch at which training can resume, then saving; press Ctrl-C again to wait at most \
                 2 more seconds"
            }
            Self::Settlement => {
                "finishing the current bucket, then settling it and leaving the run, which waits at most 10 seconds for \
                 the ledger to answer; press Ctrl-C again to wait at most 2 more seconds"
            }
        }
    }

    /// Returns the message when the program exits before the unit is finished.
    const fn abort_message(self) -> &'static str {
        match self {
            Self::Bucket => {
                "stopped within a bucket: unsaved work is lost; the same command resumes from the last checkpoint"
            }
            Self::Batch => {
                "stopped before everything was saved: unsaved work is lost; the same command resumes from the last \
                 checkpoint"
            }
            Self::Settlement => {
                "stopped within a bucket: buckets that this trainer had not settled are trained again by the other \
                 trainers, or by the same command"
            }
        }
    }
}

/// Handle of training that Ctrl-C can stop.
#[derive(Debug)]
pub(crate) struct StopHandle {
    /// Whether the work is to stop.
    pub(crate) stop: Arc<AtomicBool>,
    /// Receives a message when the line about the first press has been printed.
    promised: Receiver<()>,
}

impl StopHandle {
    /// Waits until the message about the first press has been printed, since work may stop before that. Messages about
    /// the result should follow it.
    pub(crate) fn wait_for_message(&self) {
        if self.stop.load(Ordering::SeqCst) {
            let _late = self.promised.recv_timeout(MOMENT);
        }
    }
}

/// Installs handlers of Ctrl-C and of termination signals, and returns a flag that tells the work to stop. The first
/// press sets the flag and passes `promise`, a message about what happens next, to `announce`; the second exits the
/// program.
///
/// # Errors
/// When a handler cannot be installed.
pub(crate) fn watch(promise: &'static str, announce: Announcer) -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    watch_into(&stop, promise, announce)?;
    Ok(stop)
}

/// Like [`watch`], with a given flag.
///
/// # Errors
/// When a handler cannot be installed.
pub(crate) fn watch_into(
    stop: &Arc<AtomicBool>,
    promise: &'static str,
    announce: Announcer,
) -> Result<()> {
    install(stop, stop, move |press| {
        if press == 1 {
            announce(&format!("{promise}; press Ctrl-C again to stop at once"));
        }
    })
    .map_err(|e| Failure::new(FailureKind::Internal, e).context("cannot watch for Ctrl-C"))
}

/// Like [`watch`], for training: the second press gives the current `unit` [`PATIENCE`] to end and to be saved, the
/// third exits the program. Each press prints a message.
///
/// # Errors
/// When a handler cannot be installed.
pub(crate) fn watch_training(unit: StopUnit, announce: Announcer) -> Result<StopHandle> {
    let stop = Arc::new(AtomicBool::new(false));
    let (sent, promised) = mpsc::channel();
    let last = Arc::new(AtomicBool::new(false));
    let pressed = Arc::clone(&last);
    let announce = Arc::new(Mutex::new(announce));
    let say = |announce: &Mutex<Announcer>, text: &str| {
        let announce = announce.lock().unwrap_or_else(PoisonError::into_inner);
        announce(text);
    };
    let ended = move |announce: &Mutex<Announcer>| {
        say(announce, unit.abort_message());
        end();
    };
    install(&stop, &last, move |press| match press {
        1 => {
            say(&announce, unit.stopping_message());
            // Sending fails if the receiver was dropped.
            let _unheard = sent.send(());
        }
        2 => {
            say(
                &announce,
                "waiting at most 2 seconds; press Ctrl-C again to stop at once",
            );
            let announce = Arc::clone(&announce);
            let wait = move || {
                pbg_clock::sleep(PATIENCE);
                ended(&announce);
            };
            // If no thread can be started, the next press exits the program.
            let _none = thread::Builder::new()
                .name("patience".to_owned())
                .spawn(wait);
        }
        _ => {
            // If the terminal blocks, one more press exits the program without a message.
            pressed.store(true, Ordering::SeqCst);
            ended(&announce);
        }
    })
    .map(|()| StopHandle { stop, promised })
    .map_err(|e| Failure::new(FailureKind::Internal, e).context("cannot watch for Ctrl-C"))
}

/// Installs signal handlers. Every press sets `stop`; a press when `last` is already set exits the program. A thread
/// calls `heard` with the number of presses so far.
fn install(
    stop: &Arc<AtomicBool>,
    last: &Arc<AtomicBool>,
    mut heard: impl FnMut(u64) + Send + 'static,
) -> io::Result<()> {
    for signal in SIGNALS {
        // The order matters: the check whether to exit runs before the flag is set, so that the first press does not
        // exit.
        let code = i32::from(FailureKind::Interrupted.code());
        flag::register_conditional_shutdown(signal, code, Arc::clone(last))?;
        flag::register(signal, Arc::clone(stop))?;
    }
    let mut signals = Signals::new(SIGNALS)?;
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || (1..).zip(signals.forever()).for_each(|(n, _)| heard(n)))?;
    Ok(())
}

/// Exits without running exit handlers, as the signal handler does: libtorch's exit handlers crash while workers
/// compute.
fn end() -> ! {
    low_level::exit(i32::from(FailureKind::Interrupted.code()))
}
