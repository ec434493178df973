//! What every hostile case keeps to: two seconds of processor time, and little of the host's memory.

use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Set where a test has the process to itself, so that what the process holds is what the test
/// makes it hold.
pub(crate) const ALONE: &str = "PBG_SANDBOX_ALONE";

/// The most processor time that a case may take. How long it waits for a processor is not its own doing.
const TIME: Duration = Duration::from_secs(2);
/// The most that the host may hold at any moment of a case beyond what it held before, in KiB.
const MEMORY_KIB: u64 = 64 << 10;

/// Runs a hostile case, and asserts that it keeps to its bounds.
#[track_caller]
pub(crate) fn bounded<R>(case: impl FnOnce() -> R) -> R {
    let before = processor_time();
    let answer = bounded_in_memory(case);
    let took = processor_time().saturating_sub(before);
    assert!(took < TIME, "it took {took:?} of the processor");
    answer
}

/// What this thread, on which guests run, has had of the processor; of a test alone, what all threads have.
fn processor_time() -> Duration {
    let clock = match std::env::var_os(ALONE) {
        Some(_) => ClockId::ProcessCPUTime,
        None => ClockId::ThreadCPUTime,
    };
    let time = clock_gettime(clock);
    Duration::try_from(time).expect("a processor's time only grows")
}

/// Runs a hostile case that may take long, and asserts that it keeps to its bounds of memory.
#[track_caller]
pub(crate) fn bounded_in_memory<R>(case: impl FnOnce() -> R) -> R {
    let alone = std::env::var_os(ALONE).is_some();
    let before = alone.then(|| {
        // From here on the peak is that of the case.
        fs::write("/proc/self/clear_refs", "5").expect("this process may reset its own peak");
        status("VmRSS")
    });
    let answer = case();
    if let Some(before) = before {
        let more = status("VmHWM").saturating_sub(before);
        assert!(
            more < MEMORY_KIB,
            "the host held {more} KiB more at its peak"
        );
    }
    answer
}

/// A line of this process's status, in KiB.
fn status(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").expect("a Linux process has a status");
    let line = text.lines().find(|line| line.starts_with(name));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number
        .and_then(|kib| kib.parse().ok())
        .expect("the line has a number")
}
