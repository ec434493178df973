//! What happened in a simulated run.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::fault::{FaultCounts, SimFault};

/// What happened in a simulated run.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SimOutcome {
    /// What was violated; `None` if everything held.
    pub violation: Option<String>,
    /// Digest of the run: the same seed gives the same.
    pub digest: u64,
    /// When the disturbances ended, in virtual time.
    pub disturbed: Duration,
    /// Totals of the run.
    pub totals: SimTotals,
}

/// Totals of one or several simulated runs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct SimTotals {
    /// Duration in virtual time.
    pub time: Duration,
    /// Number of turns that threads were given.
    pub turns: u64,
    /// Number of buckets in the history.
    pub buckets: u64,
    /// Number of buckets that were trained and are not in the history.
    pub repeated: u64,
    /// Virtual time for which trainers trained.
    pub training: Duration,
    /// How often each kind of fault was injected.
    pub faults: FaultCounts,
}

impl SimTotals {
    /// Adds the totals of another run.
    pub fn add(&mut self, other: &Self) {
        self.time += other.time;
        self.turns += other.turns;
        self.buckets += other.buckets;
        self.repeated += other.repeated;
        self.training += other.training;
        self.faults.add(&other.faults);
    }

    /// Returns a table of the faults that were injected and of what they cost.
    #[must_use]
    pub fn table(&self) -> String {
        let faults =
            SimFault::ALL.map(|fault| format!("{fault:<18}{:>12}\n", self.faults.of(fault)));
        let trained = self.buckets + self.repeated;
        let share = 100.0 * self.repeated as f64 / trained.max(1) as f64;
        let lost = self
            .training
            .mul_f64(self.repeated as f64 / trained.max(1) as f64);
        format!(
            "{}buckets trained   {trained:>12}, {} of them again ({share:.1} %, {:.1} hours of {:.1})\n",
            faults.concat(),
            self.repeated,
            hours(lost),
            hours(self.training),
        )
    }
}

fn hours(time: Duration) -> f64 {
    time.as_secs_f64() / 3600.0
}

impl fmt::Display for SimTotals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults = SimFault::ALL.map(|fault| self.faults.of(fault));
        write!(
            f,
            "{:.1} hours in {} turns, {} faults, {} of {} buckets repeated",
            hours(self.time),
            self.turns,
            faults.iter().sum::<u64>(),
            self.repeated,
            self.buckets + self.repeated,
        )
    }
}
