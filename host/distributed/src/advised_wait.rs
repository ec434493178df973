//! Limits how long a trainer waits for the bucket that the ledger's advice assigns to it.

use std::time::{Duration, Instant};

use pbg_core::graph::Bucket;
use pbg_ledger::{BucketAdvisor, LedgerRecord, Token};

/// Longest wait for a wake-up. Wake-ups may be lost.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Longest wait for an advised bucket, in mean durations of the trainer's own buckets: a pair of mirrored ones. If this
/// is exceeded, the other trainer is slower, or its buckets take longer.
const PATIENCE: u32 = 2;

/// The buckets that a trainer may choose from, and the time it has waited for them.
#[derive(Debug, Default)]
pub(super) struct AdvisedWait {
    guide: BucketAdvisor,
    /// Start of the current wait, during which some bucket is free but not advised.
    since: Option<Instant>,
    /// Total training time, and number of buckets trained.
    trained: (Duration, u32),
}

impl AdvisedWait {
    /// Records that a bucket was trained in `took`.
    pub(super) fn trained(&mut self, took: Duration) {
        self.trained.0 += took;
        self.trained.1 += 1;
        self.since = None;
    }

    /// Records that a bucket was leased, which ends the wait.
    pub(super) const fn leased(&mut self) {
        self.since = None;
    }

    /// Returns those buckets of `free` that `token` may choose from, with room for `buffer` partitions. Empty while the
    /// trainer should wait.
    pub(super) fn choices(
        &mut self,
        record: &LedgerRecord,
        token: Token,
        free: Vec<Bucket>,
        buffer: u32,
    ) -> Vec<Bucket> {
        let offer = self.guide.in_turn(record, token, &free, buffer);
        if free.is_empty() || !offer.is_empty() {
            return offer;
        }
        self.since.get_or_insert_with(pbg_clock::now);
        match self.left().is_zero() {
            true => free,
            false => offer,
        }
    }

    /// Returns how long to wait for other trainers.
    pub(super) fn wait(&self) -> Duration {
        match self.since {
            // Ends with the patience: a bucket that is free then is taken, even without a wake-up.
            Some(_) => self.left().clamp(Duration::from_millis(1), LONGEST_WAIT),
            None => LONGEST_WAIT,
        }
    }

    fn left(&self) -> Duration {
        let waited = self.since.map_or(Duration::ZERO, pbg_clock::elapsed);
        let patience = match self.trained {
            (_, 0) => LONGEST_WAIT,
            (time, buckets) => time / buckets * PATIENCE,
        };
        patience.saturating_sub(waited)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_last_as_long_as_a_pair_of_buckets() {
        let mut turns = AdvisedWait::default();
        assert_eq!(turns.wait(), LONGEST_WAIT);
        turns.trained(Duration::from_millis(100));
        turns.trained(Duration::from_millis(300));
        assert_eq!(turns.wait(), LONGEST_WAIT);
        turns.since = Some(pbg_clock::now());
        assert!(turns.wait() <= Duration::from_millis(400));
        assert!(!turns.left().is_zero());
        turns.since = pbg_clock::now().checked_sub(Duration::from_millis(400));
        assert!(turns.left().is_zero());
        turns.leased();
        assert_eq!(turns.wait(), LONGEST_WAIT);
    }
}
