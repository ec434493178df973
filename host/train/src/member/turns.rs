//! How long a trainer waits for the bucket that it had better take next.

use std::time::{Duration, Instant};

use pbg_core::graph::Bucket;
use pbg_core::ledger::{Guide, Record, Token};

use super::LONGEST_WAIT;

/// Waits for a turn last at most as long as so many of one's own buckets: a pair of mirrored ones. Who waits longer
/// waits for somebody who is slower, or for buckets that take longer.
const PATIENCE: u32 = 2;

/// What a trainer chooses from.
#[derive(Debug, Default)]
pub(super) struct Turns {
    guide: Guide,
    /// Since when it waits though something is free.
    since: Option<Instant>,
    /// Time in which it trained, and how many buckets.
    trained: (Duration, u32),
}

impl Turns {
    /// It has trained a bucket in `took`.
    pub(super) fn trained(&mut self, took: Duration) {
        self.trained.0 += took;
        self.trained.1 += 1;
        self.since = None;
    }

    /// It has leased a bucket.
    pub(super) const fn leased(&mut self) {
        self.since = None;
    }

    /// What it may choose from, of what is `free` for `token`, with room for `buffer` partitions; nothing while it had
    /// better wait.
    pub(super) fn offer(
        &mut self,
        record: &Record,
        token: Token,
        free: Vec<Bucket>,
        buffer: u32,
    ) -> Vec<Bucket> {
        let offer = self.guide.in_turn(record, token, &free, buffer);
        if free.is_empty() || !offer.is_empty() {
            return offer;
        }
        self.since.get_or_insert_with(Instant::now);
        match self.left().is_zero() {
            true => free,
            false => offer,
        }
    }

    /// How long it may wait for what others do.
    pub(super) fn wait(&self) -> Duration {
        match self.since {
            // What is free by then is taken, though nobody wakes it up.
            Some(_) => self.left().clamp(Duration::from_millis(1), LONGEST_WAIT),
            None => LONGEST_WAIT,
        }
    }

    fn left(&self) -> Duration {
        let waited = self.since.map_or(Duration::ZERO, |since| since.elapsed());
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
        let mut turns = Turns::default();
        assert_eq!(turns.wait(), LONGEST_WAIT);
        turns.trained(Duration::from_millis(100));
        turns.trained(Duration::from_millis(300));
        assert_eq!(turns.wait(), LONGEST_WAIT);
        turns.since = Some(Instant::now());
        assert!(turns.wait() <= Duration::from_millis(400));
        assert!(!turns.left().is_zero());
        turns.since = Instant::now().checked_sub(Duration::from_millis(400));
        assert!(turns.left().is_zero());
        turns.leased();
        assert_eq!(turns.wait(), LONGEST_WAIT);
    }
}
