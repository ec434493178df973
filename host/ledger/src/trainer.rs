//! Trainers in the record, and what they send to join it.

use pbg_core::graph::Bucket;
use serde::{Deserialize, Serialize};

use super::{CheckpointCut, RunTerms, Token};

/// Trainer in the record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Trainer {
    /// Name for display. The trainer chooses it, so it must be escaped where it is shown.
    pub name: String,
    /// Rank, if the trainer was started with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rank: Option<u32>,
    /// Number of its last transaction.
    pub last: u64,
    /// Greatest count of its settled files.
    pub files: u64,
    /// Buckets leased to it, in the order of their leases.
    pub leases: Vec<Bucket>,
    /// Block of a ranking leased to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub block: Option<u32>,
}

/// Request of a trainer to join the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Join {
    /// Terms of the trainer, which must equal those of the run.
    pub terms: RunTerms,
    /// Name for display.
    pub name: String,
    /// Rank, if the trainer was started with one.
    pub rank: Option<u32>,
    /// Earlier token of the same trainer, which the join removes.
    pub instead_of: Option<Token>,
    /// History of the record that the trainer has checked ([`crate::LedgerRecord::incarnation`]).
    pub incarnation: Token,
    /// Newest manifest that the trainer has compared with that record; none before the first checkpoint.
    pub newest: Option<CheckpointCut>,
}

/// Trainer that has not been heard from for the duration of a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SilentTrainer {
    /// Token of the trainer.
    pub token: Token,
    /// Number of its last transaction. A later one shows that it is alive.
    pub last: u64,
}
