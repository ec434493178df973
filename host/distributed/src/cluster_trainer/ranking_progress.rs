//! How far a trainer has reported and applied the rankings of a run.

use std::time::Instant;

use crate::ledger::LedgerClient;

/// A trainer's progress with rankings.
pub(super) struct RankingProgress {
    /// Number of epochs at the last ranking that was reported.
    pub(super) told: u32,
    /// Whether rankings may have ended between two memberships of this trainer.
    pub(super) may_have_missed: bool,
    /// Current factor on the learning rates of the workers.
    pub(super) lr_factor: f32,
    /// Start of this trainer's pause for the current ranking.
    pub(super) since: Option<Instant>,
    /// Duration of the pause for the last ranking, in seconds.
    pub(super) seconds: f64,
}

impl RankingProgress {
    /// Returns the state of a trainer that has joined. One that rejoins also reports the rankings that ended meanwhile;
    /// `told` is the last one that it has reported.
    pub(super) fn before(ledger: &LedgerClient, told: Option<u32>) -> Self {
        let record = ledger.last_record();
        let plateau = record.map_or_else(Default::default, |r| r.work().progress.plateau);
        Self {
            told: told.unwrap_or(plateau.seen).min(plateau.seen),
            may_have_missed: told.is_some(),
            lr_factor: plateau.lr_factor,
            since: None,
            seconds: 0.0,
        }
    }
}
