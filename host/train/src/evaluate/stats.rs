//! From counted candidates to ranks, and from ranks to means.

use pbg_core::event::RankStats;
use pbg_kernels::rank::RankCounts;

/// Candidates counted: how many, above the positive, and equal to it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct CandidateCounts {
    pub(super) candidates: u64,
    pub(super) above: u64,
    pub(super) equal: u64,
}

impl CandidateCounts {
    pub(super) fn among(positive: f32, scores: &[f32]) -> Self {
        let RankCounts { above, equal } = RankCounts::among(positive, scores);
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

    /// Takes out what was counted before.
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

/// Sums over ranks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sums {
    stats: RankStats,
}

impl Sums {
    pub(super) fn add_rank(&mut self, counted: CandidateCounts) {
        let candidates = counted.candidates;
        let rank = counted.rank();
        let within = |n: f64| f64::from(u8::from(rank <= n));
        let stats = &mut self.stats;
        stats.count += 1;
        stats.mean_rank += rank;
        stats.mrr += 1.0 / rank;
        stats.hits_at_1 += within(1.0);
        stats.hits_at_3 += within(3.0);
        stats.hits_at_10 += within(10.0);
        stats.hits_at_50 += within(50.0);
        stats.auc += if candidates == 0 {
            1.0
        } else {
            1.0 - (rank - 1.0) / candidates as f64
        };
    }

    fn add(&mut self, other: &Self) {
        let (a, b) = (&mut self.stats, &other.stats);
        a.count += b.count;
        a.mean_rank += b.mean_rank;
        a.mrr += b.mrr;
        a.hits_at_1 += b.hits_at_1;
        a.hits_at_3 += b.hits_at_3;
        a.hits_at_10 += b.hits_at_10;
        a.hits_at_50 += b.hits_at_50;
        a.auc += b.auc;
    }

    /// The means.
    pub(super) fn means(&self) -> RankStats {
        let mean = |sum: f64| sum / self.stats.count.max(1) as f64;
        let s = &self.stats;
        RankStats {
            count: s.count,
            loss: 0.0,
            mean_rank: mean(s.mean_rank),
            mrr: mean(s.mrr),
            hits_at_1: mean(s.hits_at_1),
            hits_at_3: mean(s.hits_at_3),
            hits_at_10: mean(s.hits_at_10),
            hits_at_50: mean(s.hits_at_50),
            auc: mean(s.auc),
        }
    }
}

/// Sums over raw and filtered ranks of one side.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct RankSums {
    pub(super) raw: Sums,
    pub(super) filtered: Sums,
}

impl RankSums {
    pub(super) fn add(&mut self, other: &Self) {
        self.raw.add(&other.raw);
        self.filtered.add(&other.filtered);
    }
}

/// Where an edge's true entity stands among all candidates of a side but itself.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Ranked {
    pub(super) raw: CandidateCounts,
    /// Among those that are no known answers.
    pub(super) filtered: CandidateCounts,
}
