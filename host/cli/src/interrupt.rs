//! Ctrl-C: the first asks the work to come to an end; the second ends the program, at once or, where work is
//! saved, after it has waited a little for that.

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

/// Ctrl-C, what service managers send, and what a closed terminal sends.
const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// How long the second press waits for a bucket or batch to end and for all to be saved. Buckets that take longer are as a
/// rule saved one by one, so that only the one in training is lost.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long a line about the first press is waited for: longer than any terminal takes that takes lines.
const MOMENT: Duration = Duration::from_secs(1);

/// What the first press brings to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    /// The bucket.
    Bucket,
    /// The batches that are trained, within the bucket.
    Batch,
    /// The bucket, which is settled with the ledger that several trainers share.
    Settlement,
}

impl Unit {
    /// That of a run.
    pub(crate) fn of(config: &Config) -> Self {
        match pbg_train::stops_within_buckets(config) {
            _ if config.distributed_init_method.is_some() => Self::Settlement,
            true => Self::Batch,
            false => Self::Bucket,
        }
    }

    /// What will happen now.
    const fn promise(self) -> &'static str {
        match self {
            Self::Bucket => {
                "finishing the current bucket, then saving; press Ctrl-C again to wait no longer than 2 seconds for it"
            }
            Self::Batch => {
                "stopping at the next batch to go on from, then saving; press Ctrl-C again to wait no longer than 2 \
                 seconds for it"
            }
            Self::Settlement => {
                "finishing the current bucket, then settling it and leaving; a ledger that does not answer is waited for \
                 10 seconds at most; press Ctrl-C again to wait no longer than 2 seconds for all of it"
            }
        }
    }

    /// What happened, where it was waited for no longer.
    const fn ended(self) -> &'static str {
        match self {
            Self::Bucket => {
                "stopped within a bucket: what was not saved is lost, and the same command goes on from what was"
            }
            Self::Batch => {
                "stopped before all was saved: what was not is lost, and the same command goes on from what was"
            }
            Self::Settlement => {
                "stopped within a bucket: what this trainer had not settled is trained again by the others, or by the \
                 same command"
            }
        }
    }
}

/// Training that Ctrl-C ends.
#[derive(Debug)]
pub(crate) struct Watch {
    /// Says that the work is to stop.
    pub(crate) stop: Arc<AtomicBool>,
    /// Gets something when the terminal has the line about the first press.
    promised: Receiver<()>,
}

impl Watch {
    /// Work may stop before a thread has said that it will. After this, what became of it can be said.
    pub(crate) fn wait_for_promise(&self) {
        if self.stop.load(Ordering::SeqCst) {
            let _late = self.promised.recv_timeout(MOMENT);
        }
    }
}

/// Watches for Ctrl-C and for requests to terminate; the flag that comes back says that the work
/// is to stop. At the first press, `announce` gets `promise`, what will happen now; the second ends the program.
///
/// # Errors
/// When the system does not let a handler be installed.
pub(crate) fn watch(promise: &'static str, announce: Announcer) -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    watch_into(&stop, promise, announce)?;
    Ok(stop)
}

/// As [`watch`], with the flag that is set.
///
/// # Errors
/// When the system does not let a handler be installed.
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

/// As [`watch`], for training: the second press gives the current `unit` [`PATIENCE`] to end and to be saved, the third
/// ends the program; either says so.
///
/// # Errors
/// When the system does not let a handler be installed.
pub(crate) fn watch_training(unit: Unit, announce: Announcer) -> Result<Watch> {
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
        say(announce, unit.ended());
        end();
    };
    install(&stop, &last, move |press| match press {
        1 => {
            say(&announce, unit.promise());
            // Nobody may be waiting.
            let _unheard = sent.send(());
        }
        2 => {
            say(
                &announce,
                "waiting 2 seconds at most; press Ctrl-C again to stop at once",
            );
            let announce = Arc::clone(&announce);
            let wait = move || {
                thread::sleep(PATIENCE);
                ended(&announce);
            };
            // Where there is no thread to be had, the next press is what ends it.
            let _none = thread::Builder::new()
                .name("patience".to_owned())
                .spawn(wait);
        }
        _ => {
            // Should the terminal take no line, one more press ends the program without.
            pressed.store(true, Ordering::SeqCst);
            ended(&announce);
        }
    })
    .map(|()| Watch { stop, promised })
    .map_err(|e| Failure::new(FailureKind::Internal, e).context("cannot watch for Ctrl-C"))
}

/// Every press sets `stop`; one that finds `last` set ends the program. A thread tells `heard` how many there were.
fn install(
    stop: &Arc<AtomicBool>,
    last: &Arc<AtomicBool>,
    mut heard: impl FnMut(u64) + Send + 'static,
) -> io::Result<()> {
    for signal in SIGNALS {
        // In this order: the flag is not set yet when the first signal asks whether to end.
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

/// Ends the program without its exit handlers, as the handler of signals does: those of libtorch crash while
/// workers compute.
fn end() -> ! {
    low_level::exit(i32::from(FailureKind::Interrupted.code()))
}
