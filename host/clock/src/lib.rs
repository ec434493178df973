//! The machine's clock, sleep and random bits: everything that differs from one run of the same command to the next.
//!
//! The crates of the host ask only this one ([`now`], [`unix_time`], [`sleep`], [`random_u64`], [`fill_random`]), which
//! `clippy.toml` enforces: a reader finds every dependence on time by searching for one name, and a virtual clock has
//! one place to take effect. Random numbers of training are not among these: they follow from the seed (`pbg-core`).

#![expect(
    clippy::disallowed_methods,
    reason = "the only place that asks the machine"
)]

use std::error::Error;
use std::fmt;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Returns the time of the monotonic clock.
#[must_use]
pub fn now() -> Instant {
    Instant::now()
}

/// Returns the time since 1970-01-01 00:00 UTC; zero if the clock is set to an earlier time.
#[must_use]
pub fn unix_time() -> Duration {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.unwrap_or_default()
}

/// Blocks this thread for at least `duration`.
pub fn sleep(duration: Duration) {
    thread::sleep(duration);
}

/// Failure of the system to return random bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRandomBits(getrandom::Error);

impl fmt::Display for NoRandomBits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Error for NoRandomBits {}

/// Returns 64 random bits of the system.
///
/// # Errors
/// When the system returns none.
pub fn random_u64() -> Result<u64, NoRandomBits> {
    getrandom::u64().map_err(NoRandomBits)
}

/// Fills `bytes` with random bits of the system.
///
/// # Errors
/// When the system returns none.
pub fn fill_random(bytes: &mut [u8]) -> Result<(), NoRandomBits> {
    getrandom::fill(bytes).map_err(NoRandomBits)
}
