//! Ctrl-C: the first asks the work to come to an end, the second ends the program at once.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;
use signal_hook::iterator::Signals;

use crate::exit_codes::Kind;
use crate::failure::{Failure, Result};
use crate::progress::Announcer;

/// Ctrl-C, what service managers send, and what a closed terminal sends.
const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];

/// Watches for Ctrl-C and for requests to terminate; the flag that comes back says that the work
/// is to stop. At the first press, `announce` gets `promise`, what will happen now.
///
/// # Errors
/// When the system does not let a handler be installed.
pub(crate) fn watch(promise: &'static str, announce: Announcer) -> Result<Arc<AtomicBool>> {
    install(promise, announce)
        .map_err(|e| Failure::new(Kind::Internal, e).context("cannot watch for Ctrl-C"))
}

fn install(promise: &'static str, announce: Announcer) -> io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in SIGNALS {
        // In this order: the flag is not set yet when the first signal asks whether to end. The end
        // is that of `_exit`, since exit handlers of libtorch crash while workers compute.
        flag::register_conditional_shutdown(
            signal,
            i32::from(Kind::Interrupted.code()),
            Arc::clone(&stop),
        )?;
        flag::register(signal, Arc::clone(&stop))?;
    }
    let mut signals = Signals::new(SIGNALS)?;
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            if signals.forever().next().is_some() {
                announce(&format!("{promise}; press Ctrl-C again to stop at once"));
            }
        })?;
    Ok(stop)
}
