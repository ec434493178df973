//! Rate limits of the exchange: rounds and bytes per second.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pbg_core::lock::lock;

/// Limits of the exchange of shared parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SyncLimits {
    /// Rounds per second.
    pub rounds: f64,
    /// Bytes per second, of encoded questions and answers.
    pub bytes: f64,
}

/// Rate limiter of the exchange.
pub(super) struct RateLimiter {
    limits: SyncLimits,
    /// Bytes sent and received since the last round ended.
    moved: AtomicU64,
    /// Time at which all previous traffic would have ended at the limit of bytes per second.
    paid: Mutex<Option<Instant>>,
}

impl RateLimiter {
    pub(super) const fn new(limits: SyncLimits) -> Self {
        Self {
            limits,
            moved: AtomicU64::new(0),
            paid: Mutex::new(None),
        }
    }

    /// Records that `bytes` bytes were sent or received.
    pub(super) fn add_bytes(&self, bytes: usize) {
        self.moved.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// Returns how long to wait after a round that ended at `now`. Traffic of a settlement is not delayed, but
    /// lengthens the waits afterwards.
    pub(super) fn wait_after_round(&self, now: Instant) -> Duration {
        let seconds = |seconds: f64| Duration::try_from_secs_f64(seconds).unwrap_or(Duration::MAX);
        let moved = self.moved.swap(0, Ordering::Relaxed) as f64;
        let mut paid = lock(&self.paid);
        let since = paid.map_or(now, |paid| paid.max(now));
        let until = since.checked_add(seconds(moved / self.limits.bytes));
        *paid = until.or(*paid);
        let owed = until.map_or(Duration::MAX, |until| until - now);
        owed.max(seconds(1.0 / self.limits.rounds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_and_bytes_are_limited() {
        let pace = RateLimiter::new(SyncLimits {
            rounds: 10.0,
            bytes: 1000.0,
        });
        let start = pbg_clock::now();
        let after = |millis| start + Duration::from_millis(millis);
        assert_eq!(pace.wait_after_round(start), Duration::from_millis(100));
        pace.add_bytes(50);
        assert_eq!(
            pace.wait_after_round(after(100)),
            Duration::from_millis(100)
        );
        pace.add_bytes(1500);
        pace.add_bytes(500);
        assert_eq!(pace.wait_after_round(after(200)), Duration::from_secs(2));
        // More traffic before this wait is over.
        pace.add_bytes(1000);
        assert_eq!(pace.wait_after_round(after(1200)), Duration::from_secs(2));
        assert_eq!(
            pace.wait_after_round(after(4000)),
            Duration::from_millis(100)
        );
    }

    #[test]
    fn limits_that_are_absurd_end_nothing() {
        let pace = RateLimiter::new(SyncLimits {
            rounds: 0.01,
            bytes: f64::MIN_POSITIVE,
        });
        pace.add_bytes(1);
        assert_eq!(pace.wait_after_round(pbg_clock::now()), Duration::MAX);
        assert_eq!(
            pace.wait_after_round(pbg_clock::now()),
            Duration::from_secs(100)
        );
    }
}
