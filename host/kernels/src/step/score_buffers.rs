//! The scores of a slice, and their replacement by gradients.

use std::mem;

use pbg_core::strategy::{LossWorker, ScoreBlock};
use pbg_gemm::buffer::FloatBuffer;
use pbg_rows::vector;

use crate::error::StepError;
use crate::half::HalfBuffer;
use crate::step::common_products::CommonProducts;
use crate::step::plan::Slice;
use crate::step::share::{self, ShareExchange};
use crate::subnormal::SubnormalMode;

/// Loss of a slice, and its violators.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct SliceLoss {
    /// Weighted sum over the rows.
    pub(crate) loss: f64,
    /// Number of negatives that score above their positive.
    pub(crate) violators: u64,
}

/// Weights of the losses of a slice's edges.
#[derive(Clone, Copy)]
pub(crate) struct Weights<'a> {
    pub(crate) relation: f32,
    /// Weight of each edge; `None` if every weight is 1.
    pub(crate) edges: Option<&'a [f32]>,
}

impl Weights<'_> {
    fn of(&self, row: usize) -> f32 {
        self.relation * self.edges.map_or(1.0, |weights| weights[row])
    }
}

/// Number of scores that are replaced by gradients at once: 256 KiB of them.
const SCORES_AT_ONCE: usize = 64 << 10;

/// Scores of one slice in one direction, which the loss replaces by their gradients.
#[derive(Debug, Default)]
pub(crate) struct ScoreBuffers {
    /// Scores of the negatives, `[padded positives, columns]`.
    pub(crate) negatives: FloatBuffer,
    /// With bf16 products: the scores, then their gradients.
    pub(super) half: HalfBuffer,
    /// With bf16 products: gradients of rows as a product returns them.
    pub(super) half_gradients: HalfBuffer,
    /// For `l2`: distances to the negatives.
    pub(super) distances: Vec<f32>,
    /// Scores of the positives.
    pub(crate) positive: Vec<f32>,
    pub(super) positive_distance: Vec<f32>,
    pub(super) positive_gradient: Vec<f32>,
    /// Unweighted loss of each positive.
    pub(crate) loss: Vec<f32>,
    /// Candidates per positive.
    pub(crate) columns: usize,
    /// What the two comparisons of a slice have in common.
    pub(super) common: CommonProducts,
}

impl ScoreBuffers {
    /// Returns the scores of the positives and negatives of `slice`, without padding.
    pub(crate) fn of(&self, slice: &Slice) -> (&[f32], &[f32]) {
        let rows = slice.rows.len();
        (
            &self.positive[..rows],
            &self.negatives.as_slice()[..rows * self.columns],
        )
    }

    /// Evaluates the loss, which replaces scores by weighted gradients.
    pub(crate) fn loss(
        &mut self,
        slice: &Slice,
        loss: &mut dyn LossWorker,
        weights: Weights<'_>,
    ) -> Result<SliceLoss, StepError> {
        let (rows, columns) = (slice.rows.len(), self.columns);
        let negatives = self.negatives.as_mut_slice();
        let scores = ScoreBlock {
            positive: &self.positive[..rows],
            negative: &mut negatives[..rows * columns],
            columns,
            positive_gradient: &mut self.positive_gradient[..rows],
            loss: &mut self.loss[..rows],
        };
        let found = evaluate(scores, loss, |row| weights.of(row), |_, _| {})?;
        // The products include the padding, so it must be zero.
        negatives[rows * columns..slice.padded() * columns].fill(0.0);
        Ok(found)
    }

    /// Evaluates the loss where these are the scores of this worker's share of `entities` candidates. Workers exchange
    /// their scores, and each evaluates the loss of its share of the positives; the other positives get no gradient
    /// here.
    pub(crate) fn loss_of_share(
        &mut self,
        slice: &Slice,
        loss: &mut dyn LossWorker,
        weights: Weights<'_>,
        (exchange, index): (&ShareExchange, usize),
        entities: usize,
    ) -> Result<SliceLoss, StepError> {
        let (rows, workers) = (slice.rows.len(), exchange.workers());
        let columns = |worker| share::part(entities, worker, workers);
        mem::swap(&mut self.negatives, &mut exchange.block_mut(index));
        exchange.wait()?;
        let own = share::part(rows, index, workers);
        let found = {
            let blocks: Vec<_> = (0..workers).map(|worker| exchange.block(worker)).collect();
            let mut whole = exchange.rows_mut(index);
            whole.reserve(own.len() * entities);
            let scores = ScoreBlock {
                positive: &self.positive[own.clone()],
                negative: &mut whole.as_mut_slice()[..own.len() * entities],
                columns: entities,
                positive_gradient: &mut self.positive_gradient[own.clone()],
                loss: &mut self.loss[own.clone()],
            };
            let assemble = |row: usize, whole: &mut [f32]| {
                for (worker, block) in blocks.iter().enumerate() {
                    let columns = columns(worker);
                    let first = (own.start + row) * columns.len();
                    let scores = &block.as_slice()[first..first + columns.len()];
                    whole[columns].copy_from_slice(scores);
                }
            };
            evaluate(scores, loss, |row| weights.of(own.start + row), assemble)?
        };
        exchange.wait()?;
        mem::swap(&mut self.negatives, &mut exchange.block_mut(index));
        let mine = columns(index);
        let gradients = self.negatives.as_mut_slice();
        for worker in 0..workers {
            let whole = exchange.rows(worker);
            let positives = share::part(rows, worker, workers);
            let whole = whole.as_slice().chunks_exact(entities.max(1));
            for (row, whole) in positives.zip(whole) {
                gradients[row * mine.len()..(row + 1) * mine.len()]
                    .copy_from_slice(&whole[mine.clone()]);
            }
        }
        gradients[rows * mine.len()..slice.padded() * mine.len()].fill(0.0);
        self.positive_gradient[..own.start].fill(0.0);
        self.positive_gradient[own.end..].fill(0.0);
        Ok(found)
    }

    pub(crate) fn bytes(&self) -> usize {
        let vectors = [
            &self.distances,
            &self.positive,
            &self.positive_distance,
            &self.positive_gradient,
            &self.loss,
        ];
        self.common.bytes()
            + 2 * (self.half.len() + self.half_gradients.len())
            + 4 * (self.negatives.floats() + vectors.iter().map(|v| v.capacity()).sum::<usize>())
    }

    /// Makes room for `padded` rows.
    pub(super) fn reserve(&mut self, padded: usize, columns: usize, distances: bool) {
        self.negatives.reserve(padded * columns);
        if distances {
            grow(&mut self.distances, padded * columns);
        }
        for vector in [
            &mut self.positive,
            &mut self.positive_distance,
            &mut self.positive_gradient,
            &mut self.loss,
        ] {
            grow(vector, padded);
        }
        self.columns = columns;
    }
}

/// Evaluates the loss of whole rows of scores, which are replaced by gradients, and multiplies each row by its weight.
/// `assemble` writes the negatives' scores of a row before the row is used.
fn evaluate(
    whole: ScoreBlock<'_>,
    loss: &mut dyn LossWorker,
    weight: impl Fn(usize) -> f32,
    mut assemble: impl FnMut(usize, &mut [f32]),
) -> Result<SliceLoss, StepError> {
    // A loss that is not a formula may execute a guest's code.
    let mode = loss.formula().is_none().then(SubnormalMode::exact);
    let (mut found, mut next) = (SliceLoss::default(), 0);
    let columns = whole.columns;
    let mut left = ScoreBlock {
        positive: whole.positive,
        negative: &mut *whole.negative,
        columns,
        positive_gradient: &mut *whole.positive_gradient,
        loss: &mut *whole.loss,
    };
    // Blocks of rows that stay in the cache between their uses.
    left.in_blocks(SCORES_AT_ONCE / columns.max(1), |mut block| {
        let rows = block.negative.chunks_exact_mut(columns.max(1));
        for ((row, scores), &positive) in (next..).zip(rows).zip(block.positive) {
            assemble(row, scores);
            found.violators += u64::from(vector::count_above(scores, positive));
        }
        next += block.rows();
        loss.evaluate(&mut block)
    })?;
    drop(mode);
    for row in 0..whole.positive.len() {
        let weight = weight(row);
        found.loss += f64::from(whole.loss[row]) * f64::from(weight);
        if weight != 1.0 {
            whole.positive_gradient[row] *= weight;
            let scores = &mut whole.negative[row * columns..(row + 1) * columns];
            vector::scale(scores, weight);
        }
    }
    let gradient: f32 = whole.positive_gradient.iter().sum();
    match found.loss.is_finite() && gradient.is_finite() {
        true => Ok(found),
        false => Err(StepError::NonFinite("loss")),
    }
}

/// Grows `vector` to `len` floats, exactly, so that it takes the announced memory.
fn grow(vector: &mut Vec<f32>, len: usize) {
    if vector.len() < len {
        vector.reserve_exact(len - vector.len());
        vector.resize(len, 0.0);
    }
}
