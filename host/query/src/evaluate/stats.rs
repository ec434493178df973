//! Ranks from counted candidates, and sums of ranks.

use pbg_core::event::RankTotals;
use pbg_kernels::rank::RankCounts;
use serde::{Deserialize, Serialize};

/// Numbers of candidates: all, those above the positive, and those equal to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CandidateCounts {
    pub(super) candidates: u64,
    pub(super) above: u64,
    pub(super) equal: u64,
}

impl CandidateCounts {
    pub(super) fn among(positive: f32, scores: &[f32]) -> Self {
        let RankCounts { above, equal } = RankCounts::count(positive, scores);
        Self {
            candidates: scores.len() as u64,
            above: u64::from(above),
            equal: u64::from(equal),
        }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.candidates += other.candidates;
        self.above += other.above;
        self.equal += other.equal;
    }

    /// Subtracts the counts of `other`.
    pub(super) fn without(self, other: Self) -> Self {
        Self {
            candidates: self.candidates - other.candidates,
            above: self.above - other.above,
            equal: self.equal - other.equal,
        }
    }

    fn rank(self) -> f64 {
        1.0 + self.above as f64 + self.equal as f64 / 2.0
    }
}

/// Sums over raw and filtered ranks of one side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RankSums {
    /// Sums over raw ranks.
    pub raw: RankTotals,
    /// Sums over filtered ranks.
    pub filtered: RankTotals,
}

impl RankSums {
    pub(super) fn add_ranked(&mut self, ranked: RankedCounts) {
        let RankedCounts { raw, filtered } = ranked;
        self.raw.add_rank(raw.rank(), raw.candidates);
        self.filtered.add_rank(filtered.rank(), filtered.candidates);
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.raw.add(&other.raw);
        self.filtered.add(&other.filtered);
    }
}

/// Counts of the candidates of a side relative to its true entity, which is excluded.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RankedCounts {
    pub(super) raw: CandidateCounts,
    /// Counts without known answers.
    pub(super) filtered: CandidateCounts,
}
