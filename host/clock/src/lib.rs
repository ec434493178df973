//! Time, randomness and waiting: everything that differs from one run of the same command to the next.
//!
//! The crates of the host use only this one ([`now`], [`unix_time`], [`sleep`], [`random_u64`], [`fill_random`]), which
//! `clippy.toml` enforces, so that a reader finds every dependence on time by searching for one name. Random numbers of
//! training are not among these: they follow from the seed (`pbg-core`).
//!
//! A thread has a [`Clock`]: the machine's, unless it was started under another one ([`Clock::enter`]). Trainers of a
//! distributed run also start threads ([`spawn`]) and wait for each other ([`Monitor`], [`Exclusive`], [`channel`]) through
//! this crate. Under a virtual clock, the simulation (`pbg-sim`) therefore decides which of their threads runs next and
//! what time it is, and the same seed gives the same run. `pbg-files` reports to the clock what it does to files
//! ([`begin_file_operation`], [`file_synced`], [`file_renamed`]), so that a simulated disk can be slow, full, or lose what
//! was not synced.

#![expect(
    clippy::disallowed_methods,
    reason = "the only place that asks the machine"
)]

mod channel;
mod clock;
mod exclusive;
mod monitor;
mod random;
mod threads;

pub use channel::{Receiver, Sender, channel};
pub use clock::{
    Clock, FileOperation, WaitKey, begin_file_operation, elapsed, file_renamed, file_synced,
    is_virtual, now, sleep, unix_time,
};
pub use exclusive::{Exclusive, ExclusiveGuard};
pub use monitor::Monitor;
pub use random::{NoRandomBits, fill_random, random_u64};
pub use threads::{JoinHandle, spawn};

#[cfg(test)]
mod tests;
