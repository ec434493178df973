//! Scores of a slice in one direction: the negatives that replace one side against the other side's positives.

use pbg_core::batch_graph::Negatives;
use pbg_core::graph::Side;
use pbg_core::strategy::{LossWorker, MASKED, Scores};
use pbg_gemm::buffer::FloatBuffer;

use crate::comparators::{Comparison, RowExtras};
use crate::error::StepError;
use crate::half::HalfBuffer;
use crate::matmul::{Block, Factor, product};
use crate::rows::Mode;
use crate::step::buffers::{EntitySide, PreparedRows, SliceSide};
use crate::step::gather::Layout;
use crate::step::plan::{Plan, Slice};
use crate::vector;

/// A comparison of a slice: which side is replaced, and how.
pub(crate) struct Direction<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) slice: &'a Slice,
    /// The side that is replaced.
    pub(crate) side: Side,
    /// Rows per chunk of either side.
    pub(crate) layouts: [Layout; 2],
    pub(crate) comparison: Comparison,
    /// Whether products have bf16 factors.
    pub(crate) rounded: bool,
    /// Whether the positives' scores are computed pair by pair. Distances are: their differences of large numbers
    /// would spoil the positives' small ones. Otherwise they are the diagonal of the in-batch negatives' scores.
    pub(crate) pairs: bool,
    /// With all negatives: the entity that each positive has on the side, and how many there are.
    pub(crate) positive_entities: &'a [u32],
    pub(crate) entities: usize,
}

/// The buffers that a comparison works on.
pub(crate) struct Compared<'m> {
    /// Of the side that is replaced.
    pub(crate) candidates: &'m mut SliceSide,
    /// Of all its entities, where all are negatives.
    pub(crate) entities: &'m mut EntitySide,
    /// Of the other side.
    pub(crate) queries: &'m mut SliceSide,
    pub(crate) scores: &'m mut ScoreBuffers,
}

/// Sums over the rows of a slice.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sums {
    /// Weighted loss.
    pub(crate) loss: f64,
    /// Negatives that score above their positive.
    pub(crate) violators: u64,
}

/// Factors of the losses of a slice's edges.
#[derive(Clone, Copy)]
pub(crate) struct Weights<'a> {
    pub(crate) relation: f32,
    /// Of each edge; none: 1.
    pub(crate) edges: Option<&'a [f32]>,
}

impl Weights<'_> {
    fn of(&self, row: usize) -> f32 {
        self.relation * self.edges.map_or(1.0, |weights| weights[row])
    }
}

/// Scores that are turned into gradients at a time: 256 KiB.
const SCORES_AT_ONCE: usize = 64 << 10;

impl Direction<'_> {
    pub(super) fn negatives(&self) -> Negatives {
        self.plan.negatives[self.side as usize]
    }

    fn columns(&self) -> usize {
        match self.negatives() {
            Negatives::All => self.entities,
            _ => self.plan.columns(self.side),
        }
    }

    pub(super) fn layout(&self, side: Side) -> Layout {
        self.layouts[side as usize]
    }

    /// Row of the buffers that holds positive `row` of the slice.
    pub(super) fn buffer_row(&self, side: Side, row: usize) -> usize {
        self.layout(side).first(row / self.slice.chunk) + row % self.slice.chunk
    }

    /// The positives of `side`, as matrices of the chunks.
    pub(super) fn positives(&self, side: Side) -> Block {
        let dimension = self.plan.dimension;
        Block {
            offset: 0,
            count: self.slice.chunks,
            stride: self.layout(side).rows() * dimension,
            rows: self.slice.chunk,
            columns: dimension,
        }
    }

    /// The candidates, as matrices of the chunks; the same matrix for all with all negatives.
    pub(super) fn candidates<'b>(
        &self,
        side: &'b SliceSide,
        entities: &'b EntitySide,
    ) -> (&'b PreparedRows, Block, usize) {
        let dimension = self.plan.dimension;
        if self.negatives() == Negatives::All {
            return (&entities.rows, Block::one(0, self.entities, dimension), 0);
        }
        let layout = self.layout(self.side);
        let skipped = if self.plan.in_batch(self.side) {
            0
        } else {
            layout.chunk
        };
        let block = Block {
            offset: skipped * dimension,
            count: self.slice.chunks,
            stride: layout.rows() * dimension,
            rows: layout.rows() - skipped,
            columns: dimension,
        };
        (&side.rows, block, skipped)
    }

    /// Scores per chunk.
    pub(super) fn score_block(&self) -> Block {
        let columns = self.columns();
        let (rows, stride) = (self.slice.chunk, self.slice.chunk * columns);
        Block {
            offset: 0,
            count: self.slice.chunks,
            stride,
            rows,
            columns,
        }
    }

    /// Computes positive and negative scores, masks included.
    pub(crate) fn score(&self, compared: &mut Compared<'_>) -> Result<(), StepError> {
        let Compared {
            candidates,
            entities,
            queries,
            scores,
        } = compared;
        let columns = self.columns();
        let keep_distances = self.comparison.is_distance();
        scores.reserve(self.slice.padded(), columns, keep_distances);
        if columns > 0 {
            let (rows, block, skipped) = self.candidates(candidates, entities);
            self.multiply(&queries.rows, rows, block, scores)?;
            if self.comparison.has_epilogue() {
                self.finish_products(rows, skipped, &queries.rows.extras, scores);
            }
        }
        self.score_positives(&candidates.rows, &queries.rows, scores);
        self.mask(scores);
        Ok(())
    }

    /// Inner products of the queries with the candidates, which are `block` of `rows`.
    fn multiply(
        &self,
        queries: &PreparedRows,
        rows: &PreparedRows,
        block: Block,
        scores: &mut ScoreBuffers,
    ) -> Result<(), StepError> {
        let (of_queries, to) = (self.positives(self.side.other()), self.score_block());
        match self.rounded {
            false => product(
                &mut scores.negatives,
                to,
                Factor::plain(&queries.values, of_queries),
                Factor::transposed(&rows.values, block),
                false,
            ),
            true => {
                let floats = self.slice.padded() * scores.columns;
                scores.half.reserve(floats);
                product(
                    &mut scores.half,
                    to,
                    Factor::plain(&queries.half, of_queries),
                    Factor::transposed(&rows.half, block),
                    false,
                )?;
                scores
                    .half
                    .store(&mut scores.negatives.as_mut_slice()[..floats]);
                Ok(())
            }
        }
    }

    /// Turns inner products into scores.
    fn finish_products(
        &self,
        candidates: &PreparedRows,
        skipped: usize,
        queries: &[RowExtras],
        scores: &mut ScoreBuffers,
    ) {
        let columns = scores.columns;
        for row in 0..self.slice.rows.len() {
            let chunk = row / self.slice.chunk;
            let first = match self.negatives() {
                Negatives::All => 0,
                _ => self.layout(self.side).first(chunk) + skipped,
            };
            let range = row * columns..(row + 1) * columns;
            let distances = match self.comparison.is_distance() {
                true => &mut scores.distances[range.clone()],
                false => &mut [],
            };
            self.comparison.finish_scores(
                &mut scores.negatives.as_mut_slice()[range],
                queries[self.buffer_row(self.side.other(), row)],
                &candidates.extras[first..first + columns],
                distances,
            );
        }
    }

    fn score_positives(
        &self,
        candidates: &PreparedRows,
        queries: &PreparedRows,
        scores: &mut ScoreBuffers,
    ) {
        let (columns, dimension) = (scores.columns, self.plan.dimension);
        for row in 0..self.slice.rows.len() {
            if !self.pairs {
                scores.positive[row] =
                    scores.negatives.as_slice()[row * columns + row % self.slice.chunk];
                continue;
            }
            let (q, k) = (
                self.buffer_row(self.side.other(), row),
                self.buffer_row(self.side, row),
            );
            (scores.positive[row], scores.positive_distance[row]) = self.comparison.score(
                queries.row(q, dimension),
                queries.extras.get(q).copied().unwrap_or_default(),
                candidates.row(k, dimension),
                candidates.extras.get(k).copied().unwrap_or_default(),
            );
        }
    }

    /// Masks each positive among its own negatives, and padding.
    fn mask(&self, scores: &mut ScoreBuffers) {
        let columns = scores.columns;
        let negatives = scores.negatives.as_mut_slice();
        for row in 0..self.slice.rows.len() {
            let scores = &mut negatives[row * columns..(row + 1) * columns];
            match self.negatives() {
                Negatives::None => {}
                Negatives::All => scores[self.positive_entities[row] as usize] = MASKED,
                Negatives::Sampled { own: false, .. } => {}
                Negatives::Sampled { own: true, .. } => {
                    scores[row % self.slice.chunk] = MASKED;
                    scores[self.slice.filled(row / self.slice.chunk)..self.slice.chunk]
                        .fill(MASKED);
                }
            }
        }
    }
}

/// Scores of one slice in one direction; after the loss, their gradients in the same place.
#[derive(Debug)]
pub(crate) struct ScoreBuffers {
    /// Negatives, `[padded positives, columns]`.
    pub(crate) negatives: FloatBuffer,
    /// With bf16 products: the scores, then their gradients.
    pub(super) half: HalfBuffer,
    /// With bf16 products: gradients of rows as they leave a product.
    pub(super) half_gradients: HalfBuffer,
    /// For `l2`: distances of the negatives.
    pub(super) distances: Vec<f32>,
    /// Positives.
    pub(crate) positive: Vec<f32>,
    pub(super) positive_distance: Vec<f32>,
    pub(super) positive_gradient: Vec<f32>,
    /// Loss of each positive, without weights.
    pub(crate) loss: Vec<f32>,
    /// Candidates per positive.
    pub(crate) columns: usize,
}

impl ScoreBuffers {
    pub(crate) fn new() -> Self {
        Self {
            negatives: FloatBuffer::zeros(0),
            half: HalfBuffer::zeros(0),
            half_gradients: HalfBuffer::zeros(0),
            distances: Vec::new(),
            positive: Vec::new(),
            positive_distance: Vec::new(),
            positive_gradient: Vec::new(),
            loss: Vec::new(),
            columns: 0,
        }
    }

    /// Scores of the positives and negatives of `slice`, without padding.
    pub(crate) fn of(&self, slice: &Slice) -> (&[f32], &[f32]) {
        let rows = slice.rows.len();
        (
            &self.positive[..rows],
            &self.negatives.as_slice()[..rows * self.columns],
        )
    }

    /// Evaluates the loss: scores become gradients, weighted.
    pub(crate) fn loss(
        &mut self,
        slice: &Slice,
        loss: &mut dyn LossWorker,
        weights: Weights<'_>,
    ) -> Result<Sums, StepError> {
        let (rows, columns) = (slice.rows.len(), self.columns);
        let negatives = self.negatives.as_mut_slice();
        let mut scores = Scores {
            positive: &self.positive[..rows],
            negative: &mut negatives[..rows * columns],
            columns,
            positive_gradient: &mut self.positive_gradient[..rows],
            loss: &mut self.loss[..rows],
        };
        // What is no formula may be the code of a guest.
        let mode = loss.formula().is_none().then(Mode::exact);
        let mut sums = Sums::default();
        // As many rows at a time as stay in the cache between their uses.
        scores.in_blocks(SCORES_AT_ONCE / columns.max(1), |mut block| {
            let rows = block.negative.chunks_exact(columns.max(1));
            for (row, &positive) in rows.zip(block.positive) {
                sums.violators += u64::from(vector::count_above(row, positive));
            }
            loss.evaluate(&mut block)
        })?;
        drop(mode);
        for row in 0..rows {
            let weight = weights.of(row);
            sums.loss += f64::from(self.loss[row]) * f64::from(weight);
            if weight != 1.0 {
                self.positive_gradient[row] *= weight;
                vector::scale(&mut negatives[row * columns..(row + 1) * columns], weight);
            }
        }
        if !sums.loss.is_finite()
            || !self.positive_gradient[..rows]
                .iter()
                .sum::<f32>()
                .is_finite()
        {
            return Err(StepError::NonFinite("loss"));
        }
        // Padding takes part in the products.
        negatives[rows * columns..slice.padded() * columns].fill(0.0);
        Ok(sums)
    }

    pub(crate) fn bytes(&self) -> usize {
        let vectors = [
            &self.distances,
            &self.positive,
            &self.positive_distance,
            &self.positive_gradient,
            &self.loss,
        ];
        2 * (self.half.len() + self.half_gradients.len())
            + 4 * (self.negatives.floats() + vectors.iter().map(|v| v.capacity()).sum::<usize>())
    }

    fn reserve(&mut self, padded: usize, columns: usize, distances: bool) {
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

/// Room for `len` floats, exactly, so that the memory is what was announced.
fn grow(vector: &mut Vec<f32>, len: usize) {
    if vector.len() < len {
        vector.reserve_exact(len - vector.len());
        vector.resize(len, 0.0);
    }
}
