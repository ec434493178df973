//! How long a run is, as its strategies are told.

use serde::{Deserialize, Serialize};

/// The length of a run from its very beginning, as the configuration has it now.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunLength {
    /// Epochs; at least 1, as the others.
    pub epochs: u32,
    /// Edges that an epoch trains, without those that are held out.
    pub edges_per_epoch: u64,
    /// Batches of all epochs, of all workers together: exact, or an upper bound where batches have one relation each.
    pub batches: u64,
}

impl RunLength {
    /// Where there is no run: small enough to be told apart, and nothing that a division by it would fail at.
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
