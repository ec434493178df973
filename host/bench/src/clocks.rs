//! CPU time and page faults of the process and its threads.

use rustix::time::{ClockId, clock_gettime};

/// Returns the CPU time of this thread in seconds.
pub(crate) fn thread_cpu_seconds() -> f64 {
    seconds(ClockId::ThreadCPUTime)
}

/// Returns the CPU time of this process in seconds, summed over all threads.
#[must_use]
pub fn process_cpu_seconds() -> f64 {
    seconds(ClockId::ProcessCPUTime)
}

fn seconds(clock: ClockId) -> f64 {
    let time = clock_gettime(clock);
    time.tv_sec as f64 + 1e-9 * time.tv_nsec as f64
}

/// Returns the number of minor page faults of this thread so far (pages that the kernel has mapped), or `None` if the
/// system does not report it.
pub(crate) fn page_faults() -> Option<u64> {
    let stat = std::fs::read_to_string("/proc/thread-self/stat").ok()?;
    // The second field, a name in parentheses, may contain spaces and parentheses. The tenth field is the number of
    // faults.
    let (_, after_name) = stat.rsplit_once(')')?;
    after_name.split_whitespace().nth(7)?.parse().ok()
}
