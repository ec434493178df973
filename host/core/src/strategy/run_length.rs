//! Length of a run, as reported to its strategies.

use serde::{Deserialize, Serialize};

/// Length of a whole run from its first epoch, according to the current configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunLength {
    /// Number of epochs; at least 1, like the other numbers.
    pub epochs: u32,
    /// Number of edges trained in an epoch, without held-out edges.
    pub edges_per_epoch: u64,
    /// Number of batches in all epochs, of all workers together: exact, or an upper bound if each batch has a single
    /// relation.
    pub batches: u64,
}

impl RunLength {
    /// Placeholder if there is no run. It is smaller than the length of any real run, and safe to divide by.
    pub const NONE: Self = Self {
        epochs: 1,
        edges_per_epoch: 1,
        batches: 1,
    };
}

impl Default for RunLength {
    fn default() -> Self {
        Self::NONE
    }
}
