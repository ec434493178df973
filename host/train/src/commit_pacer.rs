//! When a run commits: at a configured interval, or as often as commits cost little.

use std::time::{Duration, Instant};

/// Fraction of the time that commits may cost without a configured interval.
const SHARE: f64 = 0.02;
/// Number of commits at the beginning of a run that do not count: the first writes every table, and the next one
/// touches the memory of copies for the first time. Both costs occur once per run, independent of the frequency of
/// commits.
const UNCOUNTED: u32 = 2;

/// Reason for a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CommitReason {
    /// The pace requires it.
    Due,
    /// An epoch, a validation or the run ends.
    End,
}

/// Decides when commits are due, from their costs so far.
#[derive(Debug)]
pub(crate) struct CommitPacer {
    /// Configured interval.
    interval: Option<Duration>,
    workers: u32,
    /// Start of the last commit.
    last: Instant,
    /// Cost of due commits beyond their fraction of the time until `owed_at`: time for which training stood still, and
    /// the processor time that workers lost to writing.
    owed: Duration,
    owed_at: Instant,
    /// Whether the cost of the commit under way counts.
    counts: bool,
    /// Number of commits begun, up to [`UNCOUNTED`].
    begun: u32,
    /// Time for which training has stood still for the commit under way.
    stood: Duration,
}

impl CommitPacer {
    /// `interval` is in seconds. Without it, commits may cost 2 % of the time.
    pub(crate) fn new(interval: Option<f64>, workers: usize) -> Self {
        let interval = interval.map(|s| Duration::try_from_secs_f64(s).unwrap_or(Duration::MAX));
        let now = pbg_clock::now();
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

    /// Returns the cost that is still owed, after subtracting the fraction of the time since `owed_at`.
    fn owed(&self) -> Duration {
        let paid = self.owed_at.elapsed().mul_f64(SHARE);
        self.owed.saturating_sub(paid)
    }

    /// Whether a commit is due. `under_way` says whether an earlier one has not finished.
    pub(crate) fn due(&self, under_way: bool) -> bool {
        match self.interval {
            Some(interval) => self.last.elapsed() >= interval,
            None => !under_way && self.owed().is_zero(),
        }
    }

    /// Records that a commit has begun, for which training has stood still for `stood` so far.
    pub(crate) fn begun(&mut self, stood: Duration, occasion: CommitReason) {
        self.last = pbg_clock::now();
        self.stood = stood;
        self.counts = self.begun == UNCOUNTED && occasion == CommitReason::Due;
        self.begun = (self.begun + 1).min(UNCOUNTED);
    }

    /// Adds time for which training stood still for the commit under way.
    pub(crate) fn stood(&mut self, stood: Duration) {
        self.stood += stood;
    }

    /// Records that the commit under way has finished, and that writing it took `processor` of processor time. Returns
    /// the time for which training stood still for it.
    pub(crate) fn finished(&mut self, processor: Duration) -> Duration {
        if self.counts {
            let cost = self.stood + processor / self.workers.max(1);
            self.owed = self.owed() + cost;
            self.owed_at = pbg_clock::now();
        }
        std::mem::take(&mut self.stood)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    impl CommitPacer {
        /// Simulates that `time` has passed.
        fn wait(&mut self, time: Duration) {
            self.last -= time;
            self.owed_at -= time;
        }

        /// Simulates a commit that took `processor` of processor time to write.
        fn commit(&mut self, occasion: CommitReason, processor: Duration) {
            self.begun(Duration::ZERO, occasion);
            self.finished(processor);
        }
    }

    #[test]
    fn a_pace_that_is_set_is_kept() {
        let after_an_hour = |interval| {
            let mut pace = CommitPacer::new(Some(interval), 2);
            pace.wait(60 * MINUTE);
            pace
        };
        assert!(CommitPacer::new(Some(0.0), 2).due(true));
        assert!(after_an_hour(3599.0).due(false));
        assert!(!after_an_hour(3700.0).due(false));
        assert!(!after_an_hour(f64::MAX).due(false));
    }

    #[test]
    fn without_one_commits_are_as_frequent_as_they_are_cheap() {
        let mut pace = CommitPacer::new(None, 2);
        assert!(pace.due(false), "nothing was written yet");
        assert!(!pace.due(true));
        for _ in 0..UNCOUNTED {
            pace.commit(CommitReason::Due, 60 * MINUTE);
            assert!(pace.due(false), "they say nothing of the next");
        }
        pace.commit(CommitReason::End, 60 * MINUTE);
        assert!(pace.due(false), "an epoch ends with a commit in any case");
        // Two workers lose half of the time that one thread uses. The cost is 7 seconds, and 2 % of six minutes are
        // 7.2.
        pace.begun(Duration::from_secs(1), CommitReason::Due);
        pace.stood(Duration::from_secs(2));
        let stood = pace.finished(Duration::from_secs(8));
        assert_eq!(stood, Duration::from_secs(3));
        pace.wait(5 * MINUTE);
        assert!(!pace.due(false));
        pace.wait(MINUTE);
        assert!(pace.due(false));
    }

    /// For any costs of single commits and any lengths of buckets, all due commits except the last cost 2 % of the
    /// time.
    #[test]
    fn commits_that_were_due_cost_their_share_of_the_time() {
        let mut pace = CommitPacer::new(None, 1);
        (0..UNCOUNTED).for_each(|_| pace.commit(CommitReason::Due, MINUTE));
        let (mut time, mut cost, mut last) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        for bucket in 0..10_000_u64 {
            if pace.due(false) {
                last = Duration::from_millis([30, 500, 20, 3][bucket as usize % 4]);
                cost += last;
                pace.commit(CommitReason::Due, last);
            }
            let took = Duration::from_millis(50 + bucket * 7919 % 300);
            time += took;
            pace.wait(took);
        }
        let share = (cost - last).as_secs_f64() / time.as_secs_f64();
        assert!((0.015..=0.0201).contains(&share), "{share}");
    }
}
