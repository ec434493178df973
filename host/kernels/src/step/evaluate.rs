//! Evaluation of a batch against its sampled negatives, without updates.

use pbg_core::batch_graph::Negatives;
use pbg_core::graph::Side;
use pbg_core::seed::split_mix;
use pbg_core::strategy::MASKED;
use pbg_rows::spec::ModelSpec;
use pbg_rows::vector;

use crate::step::job::BatchJob;
use crate::step::plan::{BatchPlan, Slice};
use crate::step::stats::EvalStats;

/// Scores of one side over a batch, from which the area under the curve is estimated.
#[derive(Default)]
struct ScoreSample {
    positives: Vec<f32>,
    negatives: Vec<f32>,
}

impl ScoreSample {
    /// Returns the fraction of pairs whose positive scores above the negative; ties count half.
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

/// Entities with which the positives of a chunk are compared on one side, by column of the scores.
#[derive(Default)]
struct CandidateColumns {
    /// Entity of each column; that of a padding column has no meaning, since its scores are masked.
    entities: Vec<u32>,
    /// Pairs of entity and column, in ascending order, without padding.
    sorted: Vec<(u32, u32)>,
    /// Columns whose entity also has an earlier column.
    repeated: Vec<u32>,
}

impl CandidateColumns {
    /// Lists the columns of chunk `chunk` of a slice. With all negatives the list stays empty: each entity has one
    /// column there, and that of the positive is masked.
    fn list(
        &mut self,
        plan: &BatchPlan,
        job: &BatchJob<'_>,
        side: Side,
        slice: &Slice,
        chunk: usize,
    ) {
        self.entities.clear();
        let mut padding = 0..0;
        if let Negatives::Sampled { in_batch, uniform } = plan.negatives[side as usize] {
            if in_batch {
                let (first, filled) = (slice.rows.start + chunk * slice.chunk, slice.filled(chunk));
                let positives = &job.batch.side(side)[first..first + filled];
                self.entities.extend_from_slice(positives);
                self.entities.resize(slice.chunk, 0);
                padding = filled..slice.chunk;
            }
            let first = (slice.first_chunk + chunk) * uniform;
            let drawn = &job.draws.side(side)[first..first + uniform];
            self.entities.extend_from_slice(drawn);
        }
        let columns = self.entities.iter().copied().zip(0..);
        let filled = columns.filter(|&(_, column)| !padding.contains(&(column as usize)));
        self.sorted.clear();
        self.sorted.extend(filled);
        self.sorted.sort_unstable();
        let pairs = self.sorted.windows(2);
        let repeated = pairs.filter_map(|pair| (pair[0].0 == pair[1].0).then_some(pair[1].1));
        self.repeated.clear();
        self.repeated.extend(repeated);
    }

    /// Returns the first column of `entity`, if it has one.
    fn first_of(&self, entity: u32) -> Option<u32> {
        let at = self.sorted.partition_point(|&(other, _)| other < entity);
        let found = self.sorted.get(at).filter(|(other, _)| *other == entity);
        found.map(|&(_, column)| column)
    }

    /// Returns the numbers of candidates in a row of scores that score above `positive` and that score the same. Every
    /// entity counts once, and the positive's own entity, `own`, does not count.
    fn compare(&self, own: u32, positive: f32, scores: &[f32]) -> (u32, u32) {
        let others = scores.iter().filter(|&&score| score != MASKED);
        let largest = others.fold(positive.abs(), |most, score| most.max(score.abs()));
        let tolerance = ROUNDING * largest;
        let count = |scores: &[f32]| vector::count_above_equal(scores, positive, tolerance);
        let (mut above, mut equal) = count(scores);
        let left_out = self.repeated.iter().copied().chain(self.first_of(own));
        for column in left_out {
            let (is_above, is_equal) = count(&scores[column as usize..][..1]);
            above -= is_above;
            equal -= is_equal;
        }
        (above, equal)
    }
}

/// Returns the bytes that the evaluation of a batch takes in addition to its step: the lists of columns, which may grow
/// to twice their length, and a sample for each edge and side.
#[must_use]
pub fn ranking_bytes(columns: usize, edges: usize) -> u64 {
    let column = 2 * (size_of::<u32>() + size_of::<(u32, u32)>() + size_of::<u32>());
    let edge = 2 * 2 * 2 * size_of::<f32>();
    let bytes = columns.saturating_mul(column);
    bytes.saturating_add(edges.saturating_mul(edge)) as u64
}

/// Evaluation of one batch.
pub(super) struct BatchEvaluation<'a> {
    plan: &'a BatchPlan,
    job: &'a BatchJob<'a>,
    seed: u64,
    stats: EvalStats,
    samples: [ScoreSample; 2],
    candidates: CandidateColumns,
}

impl<'a> BatchEvaluation<'a> {
    /// Creates the evaluation of the batch of `job`; `seed` selects the negatives from which the area under the curve
    /// is estimated.
    pub(super) fn new(plan: &'a BatchPlan, job: &'a BatchJob<'a>, seed: u64) -> Self {
        Self {
            plan,
            job,
            seed,
            stats: EvalStats {
                count: job.batch.len(),
                ..EvalStats::default()
            },
            samples: Default::default(),
            candidates: CandidateColumns::default(),
        }
    }

    /// Ranks each positive of a slice, and samples one of its negatives that is neither masked nor the positive's own
    /// entity.
    pub(super) fn measure(
        &mut self,
        side: Side,
        slice: &Slice,
        positives: &[f32],
        negatives: &[f32],
    ) {
        let columns = negatives.len() / positives.len();
        if columns == 0 {
            return;
        }
        let seed = split_mix(self.seed ^ slice.rows.start as u64 ^ ((side as u64) << 63));
        let entities = &self.job.batch.side(side)[slice.rows.clone()];
        let sample = &mut self.samples[side as usize];
        let rows = positives.iter().zip(negatives.chunks_exact(columns));
        for (row, ((&positive, scores), &own)) in rows.zip(entities).enumerate() {
            if row % slice.chunk == 0 {
                let chunk = row / slice.chunk;
                self.candidates
                    .list(self.plan, self.job, side, slice, chunk);
            }
            let (above, equal) = self.candidates.compare(own, positive, scores);
            self.stats.rank(above, equal);
            let start = split_mix(seed.wrapping_add(row as u64)) as usize % columns;
            let listed = &self.candidates.entities;
            let is_other =
                |&column: &usize| scores[column] != MASKED && listed.get(column) != Some(&own);
            if let Some(column) = (start..columns).chain(0..start).find(is_other) {
                sample.positives.push(positive);
                sample.negatives.push(scores[column]);
            }
        }
    }

    /// Returns the metrics; to be called after all slices of both sides.
    pub(super) fn finish(mut self, spec: &ModelSpec, loss: f64) -> EvalStats {
        let auc: f64 = self.samples.iter_mut().map(ScoreSample::auc).sum();
        self.stats.loss = loss;
        self.stats.auc = auc * self.stats.count as f64;
        if Side::BOTH.iter().all(|&side| !spec.disabled(side)) {
            self.stats.halve();
        }
        self.stats
    }
}

/// Greatest difference of scores that count as ties, relative to the largest score of an edge: a matrix product may
/// round equal rows differently in different columns.
const ROUNDING: f32 = 1e-6;
