//! Time of the processor, and pages that were taken.

use rustix::time::{ClockId, clock_gettime};

/// CPU seconds of this thread.
pub(crate) fn thread_cpu_seconds() -> f64 {
    seconds(ClockId::ThreadCPUTime)
}

/// CPU seconds of this process, all threads together.
#[must_use]
pub fn process_cpu_seconds() -> f64 {
    seconds(ClockId::ProcessCPUTime)
}

fn seconds(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + 1e-9 * time.tv_nsec as f64
}

/// Pages that the kernel has handed to this thread so far (minor page faults), where it says.
pub(crate) fn page_faults() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").ok()?;
    // The second field, a name, may hold spaces and parentheses; the tenth is what is wanted.
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(7)?.parse().ok()
}
