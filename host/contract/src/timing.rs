//! Durations of calls.

use std::time::Duration;

use serde::Serialize;

/// Durations of one kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Timing {
    /// Number of calls that were timed.
    pub calls: u32,
    /// Median, in seconds.
    pub median: f64,
    /// Shortest, in seconds: the cost when nothing else runs.
    pub least: f64,
    /// Longest, in seconds.
    pub most: f64,
}

/// Times `call` repeatedly for about `budget`, at least three times, after one call that is not counted.
///
/// # Errors
/// The first error of `call`.
pub fn time<E>(budget: Duration, mut call: impl FnMut() -> Result<(), E>) -> Result<Timing, E> {
    call()?;
    let begin = pbg_clock::now();
    let mut times = Vec::new();
    while times.len() < 3 || (begin.elapsed() < budget && times.len() < 100_000) {
        let start = pbg_clock::now();
        call()?;
        times.push(start.elapsed().as_secs_f64());
    }
    times.sort_by(f64::total_cmp);
    Ok(Timing {
        calls: u32::try_from(times.len()).unwrap_or(u32::MAX),
        median: times[times.len() / 2],
        least: times[0],
        most: times[times.len() - 1],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_ordered_and_errors_end_it() {
        let timing = time(Duration::ZERO, || Ok::<(), ()>(())).expect("it cannot fail");
        assert_eq!(timing.calls, 3);
        assert!(timing.least <= timing.median && timing.median <= timing.most);
        let mut left = 3;
        let ended = time(Duration::from_secs(9), || {
            left -= 1;
            if left == 0 { Err("enough") } else { Ok(()) }
        });
        assert_eq!(ended, Err("enough"));
    }
}
