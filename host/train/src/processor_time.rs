//! Processor time of a thread.

use std::fs;
use std::time::Duration;

/// Returns the processor time of the calling thread, where the system reports it (Linux, `schedstat` in `proc(5)`: the
/// first number, in nanoseconds).
pub(crate) fn of_this_thread() -> Option<Duration> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    let nanoseconds = text.split_whitespace().next()?.parse().ok()?;
    Some(Duration::from_nanos(nanoseconds))
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    /// A sleeping thread uses almost no processor time, independent of other load.
    #[test]
    #[cfg(target_os = "linux")]
    fn sleeping_costs_nothing_and_computing_does() {
        let before = of_this_thread().expect("Linux tells");
        pbg_clock::sleep(Duration::from_millis(100));
        let slept = of_this_thread().expect("Linux tells") - before;
        assert!(slept < Duration::from_millis(50), "{slept:?}");
        let started = pbg_clock::now();
        while of_this_thread().expect("Linux tells") < before + Duration::from_millis(50) {
            black_box((0..10_000_u64).sum::<u64>());
            assert!(
                started.elapsed() < Duration::from_secs(60),
                "it stands still"
            );
        }
    }
}
