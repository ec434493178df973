//! Evaluation of a batch against sampled negatives: the step without its updates.

use pbg_core::graph::Side;
use pbg_core::strategy::MASKED;

use crate::step::job::Job;
use crate::step::side::pair;
use crate::step::{StepError, Trainer};
use crate::vector;

/// Metrics of one batch, summed over its edges; for each, the mean of the two sides.
///
/// A side without negatives is left out of the mean. Divide by `count` for means.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct EvalStats {
    /// Edges.
    pub count: usize,
    /// Loss with all weights: the sum, not the mean, of the two sides, as in training.
    pub loss: f64,
    /// Rank of the positive among itself and its negatives: 1 plus those above plus half of those that
    /// score the same (PBG counts these in full).
    pub pos_rank: f64,
    /// Reciprocal ranks.
    pub mrr: f64,
    /// Ranks of at most 1.
    pub r1: f64,
    /// Ranks of at most 3.
    pub r3: f64,
    /// Ranks of at most 10.
    pub r10: f64,
    /// Ranks of at most 50.
    pub r50: f64,
    /// Probability that a positive of the batch scores above a negative of the batch, times edges;
    /// estimated from one negative per positive.
    pub auc: f64,
}

impl std::ops::AddAssign for EvalStats {
    fn add_assign(&mut self, other: Self) {
        self.count += other.count;
        self.loss += other.loss;
        self.pos_rank += other.pos_rank;
        self.mrr += other.mrr;
        self.r1 += other.r1;
        self.r3 += other.r3;
        self.r10 += other.r10;
        self.r50 += other.r50;
        self.auc += other.auc;
    }
}

impl EvalStats {
    /// Counts one edge whose positive has `above` negatives above it and `equal` at its score.
    fn rank(&mut self, above: u32, equal: u32) {
        let rank = 1.0 + f64::from(above) + f64::from(equal) / 2.0;
        self.pos_rank += rank;
        self.mrr += 1.0 / rank;
        self.r1 += f64::from(u8::from(rank <= 1.0));
        self.r3 += f64::from(u8::from(rank <= 3.0));
        self.r10 += f64::from(u8::from(rank <= 10.0));
        self.r50 += f64::from(u8::from(rank <= 50.0));
    }

    /// Half of each metric but the count and the loss: the mean of two sides that were summed.
    fn halve(&mut self) {
        for metric in [
            &mut self.pos_rank,
            &mut self.mrr,
            &mut self.r1,
            &mut self.r3,
            &mut self.r10,
            &mut self.r50,
            &mut self.auc,
        ] {
            *metric /= 2.0;
        }
    }
}

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

impl Trainer {
    /// Ranks the positives of a batch among its negatives. Nothing is updated (but `max_norm` acts on rows
    /// that are looked up).
    ///
    /// `seed` chooses the negatives that enter the area under the curve.
    ///
    /// # Errors
    /// As [`Trainer::train`].
    pub fn evaluate(&mut self, job: &Job<'_>, seed: u64) -> Result<EvalStats, StepError> {
        let batch = job.batch;
        let mut stats = EvalStats {
            count: batch.len(),
            ..EvalStats::default()
        };
        if batch.is_empty() {
            return Ok(stats);
        }
        let plan = self.start(job)?;
        let weight = self.spec.relations[batch.spec_index()].weight;
        let mut samples = [Sample::default(), Sample::default()];
        for pass in plan.graph.loops.iter().map(|each| &each.pass) {
            self.gather_once(&plan, pass, job)?;
            for slice in plan.slices() {
                self.fill_slice(&plan, pass, job, &slice)?;
                for &side in pass.replaced {
                    let direction = self.direction(&plan, pass, job, &slice, side);
                    let (candidates, queries) = pair(&mut self.sides, side);
                    direction.score(candidates, queries, &mut self.scores)?;
                    let (positives, negatives) = self.scores.of(&slice);
                    let first = mix(seed ^ slice.rows.start as u64 ^ ((side as u64) << 63));
                    measure(
                        positives,
                        negatives,
                        &mut samples[side as usize],
                        &mut stats,
                        first,
                    );
                    let weights = batch.weight.map(|w| &w[slice.rows.clone()]);
                    stats.loss += direction
                        .lose(&mut self.scores, job.loss, weight, weights)?
                        .loss;
                }
            }
        }
        stats.auc = samples.iter_mut().map(Sample::auc).sum::<f64>() * batch.len() as f64;
        if Side::BOTH.iter().all(|&side| !self.spec.disabled(side)) {
            stats.halve();
        }
        Ok(stats)
    }
}

/// A matrix product may round the same pair differently in different columns, so a drawn negative that
/// is the true entity ties up to this.
const ROUNDING: f32 = 1e-6;

/// Ranks each positive among its negatives and samples one of these that is not masked.
fn measure(
    positives: &[f32],
    negatives: &[f32],
    sample: &mut Sample,
    stats: &mut EvalStats,
    seed: u64,
) {
    let columns = negatives.len() / positives.len();
    if columns == 0 {
        return;
    }
    for (row, (&positive, negatives)) in positives
        .iter()
        .zip(negatives.chunks_exact(columns))
        .enumerate()
    {
        let (above, equal) =
            vector::count_above_equal(negatives, positive, ROUNDING * (1.0 + positive.abs()));
        stats.rank(above, equal);
        let start = mix(seed.wrapping_add(row as u64)) as usize % columns;
        let (before, after) = negatives.split_at(start);
        if let Some(&negative) = after.iter().chain(before).find(|&&n| n != MASKED) {
            sample.positives.push(positive);
            sample.negatives.push(negative);
        }
    }
}

/// The finaliser of SplitMix64.
const fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
