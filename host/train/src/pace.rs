//! When a run commits: at a fixed pace, or as often as it costs little.

use std::time::{Duration, Instant};

/// Of the time, what commits may cost where no pace is set.
const SHARE: f64 = 0.02;
/// Commits at the beginning of a run that do not count: the first writes every table, the next touches the memory of
/// copies for the first time. Both are once per run, however often it commits.
const UNCOUNTED: u32 = 2;

/// Why a commit is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Occasion {
    /// It was due.
    Due,
    /// Something is at its end: an epoch, a validation, the run.
    End,
}

/// The commits of a run in time.
#[derive(Debug)]
pub(crate) struct Pace {
    /// The pace that was set.
    interval: Option<Duration>,
    workers: u32,
    /// When the last commit began.
    last: Instant,
    /// What commits that were due have cost beyond their share of the time up to `owed_at`: training stood still, or
    /// lost a worker's share of the processor.
    owed: Duration,
    owed_at: Instant,
    /// Whether the commit under way counts.
    counts: bool,
    /// Commits that were begun, up to [`UNCOUNTED`].
    begun: u32,
    /// For how long training has stood still for the commit under way.
    stood: Duration,
}

impl Pace {
    /// `interval` is in seconds; without one, commits may cost 2 % of the time.
    pub(crate) fn new(interval: Option<f64>, workers: usize) -> Self {
        let interval = interval.map(|s| Duration::try_from_secs_f64(s).unwrap_or(Duration::MAX));
        let now = Instant::now();
        Self {
            interval,
            workers: workers as u32,
            last: now,
            owed: Duration::ZERO,
            owed_at: now,
            counts: false,
            begun: 0,
            stood: Duration::ZERO,
        }
    }

    /// What is still owed: the share of the time since then is paid.
    fn owed(&self) -> Duration {
        let paid = self.owed_at.elapsed().mul_f64(SHARE);
        self.owed.saturating_sub(paid)
    }

    /// Whether a commit is due. `under_way`: whether one is not at its end.
    pub(crate) fn due(&self, under_way: bool) -> bool {
        match self.interval {
            Some(interval) => self.last.elapsed() >= interval,
            None => !under_way && self.owed().is_zero(),
        }
    }

    /// A commit has begun, for which training has stood still for `stood` so far.
    pub(crate) fn begun(&mut self, stood: Duration, occasion: Occasion) {
        self.last = Instant::now();
        self.stood = stood;
        self.counts = self.begun == UNCOUNTED && occasion == Occasion::Due;
        self.begun = (self.begun + 1).min(UNCOUNTED);
    }

    /// Training has stood still for the commit under way.
    pub(crate) fn stood(&mut self, stood: Duration) {
        self.stood += stood;
    }

    /// The commit under way is at its end; what wrote it used a processor for `processor`. Gives the time that
    /// training stood still for it.
    pub(crate) fn finished(&mut self, processor: Duration) -> Duration {
        if self.counts {
            let cost = self.stood + processor / self.workers.max(1);
            self.owed = self.owed() + cost;
            self.owed_at = Instant::now();
        }
        std::mem::take(&mut self.stood)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    impl Pace {
        /// As if `time` had gone by.
        fn wait(&mut self, time: Duration) {
            self.last -= time;
            self.owed_at -= time;
        }

        /// A commit whose writer used a processor for `processor`.
        fn commit(&mut self, occasion: Occasion, processor: Duration) {
            self.begun(Duration::ZERO, occasion);
            self.finished(processor);
        }
    }

    #[test]
    fn a_pace_that_is_set_is_kept() {
        let after_an_hour = |interval| {
            let mut pace = Pace::new(Some(interval), 2);
            pace.wait(60 * MINUTE);
            pace
        };
        assert!(Pace::new(Some(0.0), 2).due(true));
        assert!(after_an_hour(3599.0).due(false));
        assert!(!after_an_hour(3700.0).due(false));
        assert!(!after_an_hour(f64::MAX).due(false));
    }

    #[test]
    fn without_one_commits_are_as_frequent_as_they_are_cheap() {
        let mut pace = Pace::new(None, 2);
        assert!(pace.due(false), "nothing was written yet");
        assert!(!pace.due(true));
        for _ in 0..UNCOUNTED {
            pace.commit(Occasion::Due, 60 * MINUTE);
            assert!(pace.due(false), "they say nothing of the next");
        }
        pace.commit(Occasion::End, 60 * MINUTE);
        assert!(pace.due(false), "an epoch ends with a commit in any case");
        // Two workers lose half of what one thread uses: 7 seconds in all, and 2 % of six minutes are 7.2.
        pace.begun(Duration::from_secs(1), Occasion::Due);
        pace.stood(Duration::from_secs(2));
        let stood = pace.finished(Duration::from_secs(8));
        assert_eq!(stood, Duration::from_secs(3));
        pace.wait(5 * MINUTE);
        assert!(!pace.due(false));
        pace.wait(MINUTE);
        assert!(pace.due(false));
    }

    /// Whatever single commits cost, and whenever buckets end, all that were due cost 2 % but for the last one.
    #[test]
    fn commits_that_were_due_cost_their_share_of_the_time() {
        let mut pace = Pace::new(None, 1);
        (0..UNCOUNTED).for_each(|_| pace.commit(Occasion::Due, MINUTE));
        let (mut time, mut cost, mut last) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        for bucket in 0..10_000_u64 {
            if pace.due(false) {
                last = Duration::from_millis([30, 500, 20, 3][bucket as usize % 4]);
                cost += last;
                pace.commit(Occasion::Due, last);
            }
            let took = Duration::from_millis(50 + bucket * 7919 % 300);
            time += took;
            pace.wait(took);
        }
        let share = (cost - last).as_secs_f64() / time.as_secs_f64();
        assert!((0.015..=0.0201).contains(&share), "{share}");
    }
}
