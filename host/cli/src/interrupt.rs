//! Ctrl-C: the first asks the work to come to an end, the second ends the program at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use crate::exit_codes::Kind;
use crate::failure::{Failure, Result};
use crate::progress::Announcer;

/// How long the exit handlers of libraries may take before the program is ended without them.
const EXIT_GRACE: Duration = Duration::from_millis(500);

/// Watches for Ctrl-C and for requests to terminate; the flag that comes back says that the work
/// is to stop. At the first press, `announce` gets `promise`, what will happen now.
///
/// # Errors
/// When the system does not let a handler be installed.
pub(crate) fn watch(promise: &'static str, announce: Announcer) -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::SeqCst) {
            exit_now();
        }
        announce(&format!("{promise}; press Ctrl-C again to stop at once"));
    })
    .map_err(|e| Failure::new(Kind::Internal, e).context("cannot watch for Ctrl-C"))?;
    Ok(stop)
}

/// Ends the program though workers are still computing.
fn exit_now() -> ! {
    // Exit handlers of native libraries may wait for threads that are busy with a long bucket.
    thread::spawn(|| {
        thread::sleep(EXIT_GRACE);
        let _gone =
            rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
    });
    std::process::exit(i32::from(Kind::Interrupted.code()))
}
