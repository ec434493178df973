//! Sums over the buckets of an epoch, and the lengths of event files.

use pbg_core::event::{CallSeconds, PartitionIo, RankStats, TrainStats};
use serde::{Deserialize, Serialize};

/// Sums over the buckets of an epoch that are done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerSums {
    /// Statistics of training.
    pub train: TrainStats,
    /// Ranks of held-out edges before their bucket was trained.
    pub eval_before: RankStats,
    /// Partition I/O of all trainers.
    pub io: PartitionIo,
    /// Training time of all trainers in seconds.
    pub seconds: f64,
    /// Time spent in strategies, in seconds.
    pub calls: CallSeconds,
}

impl LedgerSums {
    /// Adds the sums of another bucket.
    pub fn add(&mut self, other: &Self) {
        self.train.add(&other.train);
        self.eval_before = self.eval_before.merge(&other.eval_before);
        self.io.add(&other.io);
        self.seconds += other.seconds;
        self.calls.add(&other.calls);
    }

    /// Whether every number is finite. JSON cannot represent the others.
    #[must_use]
    pub fn is_finite(&self) -> bool {
        let Self {
            train,
            eval_before,
            io,
            seconds,
            calls,
        } = self;
        let numbers = [
            train.loss,
            train.reg,
            io.wait_seconds,
            io.commit_seconds,
            *seconds,
            calls.order,
            calls.sampler,
        ];
        eval_before.is_finite() && numbers.iter().all(|number| number.is_finite())
    }
}

/// Result of an epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FinishedEpoch {
    /// Number of the epoch, from 0.
    pub epoch: u32,
    /// Sums over its buckets.
    pub sums: LedgerSums,
}

/// Valid length of a trainer's event file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EventLogLength {
    /// Length in bytes.
    pub bytes: u64,
    /// Revision of the settlement that last set the length.
    pub revision: u64,
}
