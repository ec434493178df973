//! Evaluation of a batch against sampled negatives: the step without its updates.

use pbg_core::graph::Side;
use pbg_core::seed::split_mix;
use pbg_core::strategy::MASKED;

use crate::spec::ModelSpec;
use crate::step::stats::EvalStats;
use crate::vector;

/// One side's scores over a batch, for the area under the curve.
#[derive(Default)]
struct Sample {
    positives: Vec<f32>,
    negatives: Vec<f32>,
}

impl Sample {
    /// Share of pairs in which the positive is above the negative, ties counting half.
    fn auc(&mut self) -> f64 {
        let pairs = self.positives.len() as f64 * self.negatives.len() as f64;
        self.negatives.sort_unstable_by(f32::total_cmp);
        let below = |limit: f32, inclusive: bool| {
            self.negatives
                .partition_point(|&n| if inclusive { n <= limit } else { n < limit })
                as f64
        };
        let wins: f64 = self
            .positives
            .iter()
            .map(|&p| (below(p, false) + below(p, true)) / 2.0)
            .sum();
        if pairs == 0.0 { 0.0 } else { wins / pairs }
    }
}

/// The evaluation of one batch.
pub(super) struct Evaluation {
    seed: u64,
    stats: EvalStats,
    samples: [Sample; 2],
}

impl Evaluation {
    /// Of a batch of `edges` edges; `seed` chooses the negatives that enter the area under the curve.
    pub(super) fn new(edges: usize, seed: u64) -> Self {
        Self {
            seed,
            stats: EvalStats {
                count: edges,
                ..EvalStats::default()
            },
            samples: Default::default(),
        }
    }

    /// Ranks each positive of a slice that begins with edge `first`, and samples one of its negatives that is not
    /// masked.
    pub(super) fn measure(
        &mut self,
        side: Side,
        first: usize,
        positives: &[f32],
        negatives: &[f32],
    ) {
        let columns = negatives.len() / positives.len();
        if columns == 0 {
            return;
        }
        let seed = split_mix(self.seed ^ first as u64 ^ ((side as u64) << 63));
        let sample = &mut self.samples[side as usize];
        let rows = positives.iter().zip(negatives.chunks_exact(columns));
        for (row, (&positive, negatives)) in rows.enumerate() {
            let tolerance = ROUNDING * (1.0 + positive.abs());
            let (above, equal) = vector::count_above_equal(negatives, positive, tolerance);
            self.stats.rank(above, equal);
            let start = split_mix(seed.wrapping_add(row as u64)) as usize % columns;
            let (before, after) = negatives.split_at(start);
            if let Some(&negative) = after.iter().chain(before).find(|&&n| n != MASKED) {
                sample.positives.push(positive);
                sample.negatives.push(negative);
            }
        }
    }

    /// The metrics, after all slices of both sides.
    pub(super) fn finish(mut self, spec: &ModelSpec, loss: f64) -> EvalStats {
        let auc: f64 = self.samples.iter_mut().map(Sample::auc).sum();
        self.stats.loss = loss;
        self.stats.auc = auc * self.stats.count as f64;
        if Side::BOTH.iter().all(|&side| !spec.disabled(side)) {
            self.stats.halve();
        }
        self.stats
    }
}

/// A matrix product may round the same pair differently in different columns, so a drawn negative that
/// is the true entity ties up to this.
const ROUNDING: f32 = 1e-6;
