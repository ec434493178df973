//! Random bits of the machine.

use std::error::Error;
use std::fmt;

use crate::clock::simulated;

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
    match simulated() {
        Some(clock) => Ok(clock.random_u64()),
        None => getrandom::u64().map_err(NoRandomBits),
    }
}

/// Fills `bytes` with random bits of the system.
///
/// # Errors
/// When the system returns none.
pub fn fill_random(bytes: &mut [u8]) -> Result<(), NoRandomBits> {
    let Some(clock) = simulated() else {
        return getrandom::fill(bytes).map_err(NoRandomBits);
    };
    for part in bytes.chunks_mut(8) {
        part.copy_from_slice(&clock.random_u64().to_le_bytes()[..part.len()]);
    }
    Ok(())
}
