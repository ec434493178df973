//! When a run commits: at a fixed pace, or as often as it costs little.

use std::time::{Duration, Instant};

/// Of the time, what commits may cost where no pace is set.
const SHARE: f64 = 0.02;

/// The commits of a run in time.
#[derive(Debug)]
pub(crate) struct Pace {
    /// The pace that was set.
    interval: Option<Duration>,
    workers: u32,
    /// When the last commit began.
    last: Instant,
    /// What the last one cost: training stood still, or lost a worker's share of the processor.
    cost: Duration,
    /// For how long training has stood still for the commit under way.
    stood: Duration,
}

impl Pace {
    /// `interval` is in seconds; without one, commits may cost 2 % of the time.
    pub(crate) fn new(interval: Option<f64>, workers: usize) -> Self {
        let interval = interval.map(|s| Duration::try_from_secs_f64(s).unwrap_or(Duration::MAX));
        Self {
            interval,
            workers: workers as u32,
            last: Instant::now(),
            cost: Duration::ZERO,
            stood: Duration::ZERO,
        }
    }

    /// Whether a commit is due. `under_way`: whether one is not at its end.
    pub(crate) fn due(&self, under_way: bool) -> bool {
        let since = self.last.elapsed();
        match self.interval {
            Some(interval) => since >= interval,
            None => !under_way && since.mul_f64(SHARE) >= self.cost,
        }
    }

    /// A commit has begun, for which training has stood still for `stood` so far.
    pub(crate) fn begun(&mut self, stood: Duration) {
        self.last = Instant::now();
        self.stood = stood;
    }

    /// Training has stood still for the commit under way.
    pub(crate) fn stood(&mut self, stood: Duration) {
        self.stood += stood;
    }

    /// The commit under way is at its end; what wrote it used a processor for `processor`. Gives the time that
    /// training stood still for it.
    pub(crate) fn finished(&mut self, processor: Duration) -> Duration {
        self.cost = self.stood + processor / self.workers.max(1);
        std::mem::take(&mut self.stood)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    /// A pace whose last commit began `ago`.
    fn pace(interval: Option<f64>, ago: Duration) -> Pace {
        let mut pace = Pace::new(interval, 2);
        pace.last -= ago;
        pace
    }

    #[test]
    fn a_pace_that_is_set_is_kept() {
        assert!(pace(Some(0.0), Duration::ZERO).due(true));
        assert!(pace(Some(3599.0), HOUR).due(false));
        assert!(!pace(Some(3700.0), HOUR).due(false));
        assert!(!pace(Some(f64::MAX), HOUR).due(false));
    }

    #[test]
    fn without_one_commits_are_as_frequent_as_they_are_cheap() {
        let mut pace = pace(None, HOUR);
        assert!(pace.due(false), "what the first one costs is not known");
        assert!(!pace.due(true));
        // 2 % of an hour are 72 seconds; two workers lose half of what one thread uses.
        pace.stood(Duration::from_secs(40));
        assert_eq!(
            pace.finished(Duration::from_secs(60)),
            Duration::from_secs(40)
        );
        assert!(pace.due(false));
        assert_eq!(pace.finished(Duration::from_secs(150)), Duration::ZERO);
        assert!(!pace.due(false));
    }
}
