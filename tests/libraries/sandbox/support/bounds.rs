//! Bounds of every hostile case: two seconds of CPU time, and little of the host's memory.

use std::fs;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// Variable that is set if a test has the process to itself, so that the memory of the process is that of the test.
pub(crate) const ALONE: &str = "PBG_SANDBOX_ALONE";

/// CPU time that a case may take. Waiting for a processor does not count.
const TIME: Duration = Duration::from_secs(2);
/// Memory that the host may hold during a case beyond what it held before, in KiB.
const MEMORY_KIB: u64 = 64 << 10;

/// Runs a hostile case, and asserts that it stays within its bounds.
#[track_caller]
pub(crate) fn bounded<R>(case: impl FnOnce() -> R) -> R {
    let before = processor_time();
    let answer = bounded_in_memory(case);
    let took = processor_time().saturating_sub(before);
    assert!(took < TIME, "the case took {took:?} of CPU time");
    answer
}

/// Returns the CPU time of this thread, on which guests run; if the test is alone, that of all threads.
fn processor_time() -> Duration {
    let clock = match std::env::var_os(ALONE) {
        Some(_) => ClockId::ProcessCPUTime,
        None => ClockId::ThreadCPUTime,
    };
    let time = clock_gettime(clock);
    Duration::try_from(time).expect("a processor's time only grows")
}

/// Runs a hostile case that may take long, and asserts that it stays within its bounds of memory.
#[track_caller]
pub(crate) fn bounded_in_memory<R>(case: impl FnOnce() -> R) -> R {
    let alone = std::env::var_os(ALONE).is_some();
    let before = alone.then(|| {
        // Resets the peak, which from here on is that of the case.
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

/// Returns a line of this process's status, in KiB.
fn status(name: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").expect("a Linux process has a status");
    let line = text.lines().find(|line| line.starts_with(name));
    let number = line.and_then(|line| line.split_whitespace().nth(1));
    number
        .and_then(|kib| kib.parse().ok())
        .expect("the line has a number")
}
