//! Scores of a slice in one direction - the negatives that replace one side against the other side's
//! positives - and their gradients.

use pbg_core::batch_graph::Negatives;
use pbg_core::graph::Side;
use pbg_core::model::Precision;
use pbg_core::strategy::{Loss, MASKED};
use tch::TchError;

use crate::buffer::FloatBuffer;
use crate::comparators::{Comparison, RowExtras};
use crate::matmul::{Block, Factor, product};
use crate::rows::HalfBuffer;
use crate::step::StepError;
use crate::step::plan::{Plan, Slice};
use crate::step::side::{Layout, Rows, SideBuffers};
use crate::vector;

/// Scores of one slice in one direction; after the loss, their gradients in the same place.
#[derive(Debug)]
pub(crate) struct Scores {
    /// Negatives, `[padded positives, columns]`.
    pub(crate) negatives: FloatBuffer,
    /// With bf16 products: the scores, then their gradients.
    half: HalfBuffer,
    /// With bf16 products: gradients of rows as they leave a product.
    half_gradients: HalfBuffer,
    /// For `l2`: distances of the negatives.
    distances: Vec<f32>,
    /// Positives.
    pub(crate) positive: Vec<f32>,
    positive_distance: Vec<f32>,
    positive_gradient: Vec<f32>,
    /// Loss of each positive, without weights.
    pub(crate) loss: Vec<f32>,
    /// Candidates per positive.
    pub(crate) columns: usize,
}

/// Scores that are turned into gradients at a time: 256 KiB.
const SCORES_AT_ONCE: usize = 64 << 10;

/// Sums over the rows of a slice.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sums {
    /// Weighted loss.
    pub(crate) loss: f64,
    /// Negatives that score above their positive.
    pub(crate) violators: u64,
}

/// A direction and the buffers it works on.
pub(crate) struct Direction<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) slice: &'a Slice,
    /// The side that is replaced.
    pub(crate) side: Side,
    /// Rows per chunk of the candidates' and the queries' side.
    pub(crate) layouts: [Layout; 2],
    pub(crate) comparison: Comparison,
    pub(crate) precision: Precision,
    /// With all negatives: the true entity of each row of the slice, and how many there are.
    pub(crate) truth: &'a [u32],
    pub(crate) entities: usize,
}

impl Scores {
    pub(crate) fn new() -> Result<Self, TchError> {
        Ok(Self {
            negatives: FloatBuffer::zeros(0),
            half: HalfBuffer::zeros(0)?,
            half_gradients: HalfBuffer::zeros(0)?,
            distances: Vec::new(),
            positive: Vec::new(),
            positive_distance: Vec::new(),
            positive_gradient: Vec::new(),
            loss: Vec::new(),
            columns: 0,
        })
    }

    /// Scores of the positives and negatives of `slice`, without padding.
    pub(crate) fn of(&self, slice: &Slice) -> (&[f32], &[f32]) {
        let rows = slice.rows.len();
        (
            &self.positive[..rows],
            &self.negatives.as_slice()[..rows * self.columns],
        )
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
            + 4 * (self.negatives.len() + vectors.iter().map(|v| v.capacity()).sum::<usize>())
    }

    fn reserve(&mut self, padded: usize, columns: usize, distances: bool) -> Result<(), TchError> {
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
        Ok(())
    }
}

/// Room for `len` floats, exactly, so that the memory is what was announced.
fn grow(vector: &mut Vec<f32>, len: usize) {
    if vector.len() < len {
        vector.reserve_exact(len - vector.len());
        vector.resize(len, 0.0);
    }
}

impl Direction<'_> {
    fn negatives(&self) -> Negatives {
        self.plan.negatives[self.side as usize]
    }

    /// Whether the positives' scores are the diagonal of the candidates' scores. Distances are not: their
    /// differences of large numbers would spoil the positives' small ones.
    fn positive_on_diagonal(&self) -> bool {
        self.plan.own(self.side) && !self.comparison.is_distance()
    }

    fn columns(&self) -> usize {
        match self.negatives() {
            Negatives::All => self.entities,
            _ => self.plan.columns(self.side),
        }
    }

    fn layout(&self, side: Side) -> Layout {
        self.layouts[side as usize]
    }

    /// Row of the buffers that holds positive `row` of the slice.
    fn buffer_row(&self, side: Side, row: usize) -> usize {
        self.layout(side).first(row / self.slice.chunk) + row % self.slice.chunk
    }

    /// The positives of `side`, as matrices of the chunks.
    fn positives(&self, side: Side) -> Block {
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
    fn candidates<'b>(&self, buffers: &'b SideBuffers) -> (&'b Rows, Block, usize) {
        let dimension = self.plan.dimension;
        if self.negatives() == Negatives::All {
            return (&buffers.all, Block::one(0, self.entities, dimension), 0);
        }
        let layout = self.layout(self.side);
        let skipped = if self.plan.own(self.side) {
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
        (&buffers.rows, block, skipped)
    }

    /// Scores per chunk.
    fn score_block(&self) -> Block {
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
    pub(crate) fn score(
        &self,
        candidates: &SideBuffers,
        queries: &SideBuffers,
        scores: &mut Scores,
    ) -> Result<(), TchError> {
        let columns = self.columns();
        let keep_distances = self.comparison.is_distance();
        scores.reserve(self.slice.padded(), columns, keep_distances)?;
        if columns > 0 {
            let (rows, block, skipped) = self.candidates(candidates);
            self.multiply(&queries.rows, rows, block, scores)?;
            if self.comparison.has_epilogue() {
                self.finish(rows, skipped, &queries.rows.extras, scores);
            }
        }
        self.score_positives(&candidates.rows, &queries.rows, scores);
        self.mask(scores);
        Ok(())
    }

    /// Inner products of the queries with the candidates, which are `block` of `rows`.
    fn multiply(
        &self,
        queries: &Rows,
        rows: &Rows,
        block: Block,
        scores: &mut Scores,
    ) -> Result<(), TchError> {
        let (of_queries, to) = (self.positives(self.side.other()), self.score_block());
        match self.precision {
            Precision::Fp32 => product(
                &mut scores.negatives,
                to,
                Factor::plain(&queries.values, of_queries),
                Factor::transposed(&rows.values, block),
                false,
            ),
            Precision::Bf16 => {
                let floats = self.slice.padded() * scores.columns;
                scores.half.reserve(floats)?;
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
    fn finish(
        &self,
        candidates: &Rows,
        skipped: usize,
        queries: &[RowExtras],
        scores: &mut Scores,
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

    fn score_positives(&self, candidates: &Rows, queries: &Rows, scores: &mut Scores) {
        let (columns, dimension) = (scores.columns, self.plan.dimension);
        for row in 0..self.slice.rows.len() {
            if self.positive_on_diagonal() {
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
    fn mask(&self, scores: &mut Scores) {
        let columns = scores.columns;
        let negatives = scores.negatives.as_mut_slice();
        for row in 0..self.slice.rows.len() {
            let scores = &mut negatives[row * columns..(row + 1) * columns];
            match self.negatives() {
                Negatives::None => {}
                Negatives::All => scores[self.truth[row] as usize] = MASKED,
                Negatives::Sampled { own: false, .. } => {}
                Negatives::Sampled { own: true, .. } => {
                    scores[row % self.slice.chunk] = MASKED;
                    scores[self.slice.filled(row / self.slice.chunk)..self.slice.chunk]
                        .fill(MASKED);
                }
            }
        }
    }

    /// Evaluates the loss: scores become gradients, weighted.
    pub(crate) fn lose(
        &self,
        scores: &mut Scores,
        loss: &dyn Loss,
        weight: f32,
        weights: Option<&[f32]>,
    ) -> Result<Sums, StepError> {
        let (rows, columns) = (self.slice.rows.len(), scores.columns);
        let negatives = scores.negatives.as_mut_slice();
        let mut sums = Sums::default();
        // As many rows at a time as stay in the cache between their uses.
        let at_once = (SCORES_AT_ONCE / columns.max(1)).max(1);
        for first in (0..rows).step_by(at_once) {
            let some = first..(first + at_once).min(rows);
            let scored = &mut negatives[some.start * columns..some.end * columns];
            let positive = &scores.positive[some.clone()];
            for (row, &positive) in scored.chunks_exact(columns.max(1)).zip(positive) {
                sums.violators += u64::from(vector::count_above(row, positive));
            }
            loss.evaluate(
                positive,
                scored,
                columns,
                &mut scores.positive_gradient[some.clone()],
                &mut scores.loss[some],
            )?;
        }
        for row in 0..rows {
            let weight = weight * weights.map_or(1.0, |w| w[row]);
            sums.loss += f64::from(scores.loss[row]) * f64::from(weight);
            if weight != 1.0 {
                scores.positive_gradient[row] *= weight;
                vector::scale(&mut negatives[row * columns..(row + 1) * columns], weight);
            }
        }
        if !sums.loss.is_finite()
            || !scores.positive_gradient[..rows]
                .iter()
                .sum::<f32>()
                .is_finite()
        {
            return Err(StepError::NonFinite("loss"));
        }
        // Padding takes part in the products.
        negatives[rows * columns..self.slice.padded() * columns].fill(0.0);
        Ok(sums)
    }

    /// Gradients of both sides' rows from the gradients of the scores.
    pub(crate) fn differentiate(
        &self,
        candidates: &mut SideBuffers,
        queries: &mut SideBuffers,
        scores: &mut Scores,
    ) -> Result<(), TchError> {
        let dimension = self.plan.dimension;
        if self.positive_on_diagonal() {
            self.put_on_diagonal(scores);
        }
        if self.comparison.has_epilogue() {
            self.undo_finish(candidates, queries, scores);
        }
        if scores.columns > 0 {
            let (rows, block, _) = self.candidates(candidates);
            let queried = Block {
                offset: 0,
                count: self.slice.chunks,
                stride: self.slice.chunk * dimension,
                rows: self.slice.chunk,
                columns: dimension,
            };
            let gradients = &mut queries.positives;
            match self.precision {
                Precision::Fp32 => product(
                    &mut gradients.values,
                    queried,
                    Factor::plain(&scores.negatives, self.score_block()),
                    Factor::plain(&rows.values, block),
                    gradients.started,
                )?,
                Precision::Bf16 => {
                    let floats = self.slice.padded() * scores.columns;
                    scores.half.load(&scores.negatives.as_slice()[..floats]);
                    scores.half_gradients.reserve(queried.floats())?;
                    product(
                        &mut scores.half_gradients,
                        queried,
                        Factor::plain(&scores.half, self.score_block()),
                        Factor::plain(&rows.half, block),
                        false,
                    )?;
                    gradients.receive(&scores.half_gradients, queried.floats());
                }
            }
            gradients.started = true;
            self.differentiate_candidates(candidates, &queries.rows, scores)?;
        }
        if !self.positive_on_diagonal() {
            self.differentiate_positives(candidates, queries, scores);
        }
        Ok(())
    }

    fn differentiate_candidates(
        &self,
        candidates: &mut SideBuffers,
        queries: &Rows,
        scores: &mut Scores,
    ) -> Result<(), TchError> {
        let (columns, dimension) = (scores.columns, self.plan.dimension);
        let block = Block {
            offset: 0,
            count: self.slice.chunks,
            stride: columns * dimension,
            rows: columns,
            columns: dimension,
        };
        let gradients = match self.negatives() {
            Negatives::All => &mut candidates.all_gradients,
            _ => &mut candidates.candidates,
        };
        // Only gradients of all entities outlive their slice.
        gradients.started &= self.negatives() == Negatives::All;
        let (of_scores, of_queries) = (self.score_block(), self.positives(self.side.other()));
        match self.precision {
            Precision::Fp32 => product(
                &mut gradients.values,
                block,
                Factor::transposed(&scores.negatives, of_scores),
                Factor::plain(&queries.values, of_queries),
                gradients.started,
            )?,
            Precision::Bf16 => {
                scores.half_gradients.reserve(block.floats())?;
                product(
                    &mut scores.half_gradients,
                    block,
                    Factor::transposed(&scores.half, of_scores),
                    Factor::plain(&queries.half, of_queries),
                    false,
                )?;
                gradients.receive(&scores.half_gradients, block.floats());
            }
        }
        gradients.started = true;
        Ok(())
    }

    fn put_on_diagonal(&self, scores: &mut Scores) {
        let columns = scores.columns;
        let negatives = scores.negatives.as_mut_slice();
        for row in 0..self.slice.rows.len() {
            negatives[row * columns + row % self.slice.chunk] = scores.positive_gradient[row];
        }
    }

    /// Gradients of biases, and of distances: what remains are factors of inner products.
    fn undo_finish(
        &self,
        candidates: &mut SideBuffers,
        queries: &mut SideBuffers,
        scores: &mut Scores,
    ) {
        let columns = scores.columns;
        let all = self.negatives() == Negatives::All;
        let gradients = if all {
            &mut candidates.all_gradients
        } else {
            &mut candidates.candidates
        };
        for row in 0..self.slice.rows.len() {
            let range = row * columns..(row + 1) * columns;
            let factors = &mut scores.negatives.as_mut_slice()[range.clone()];
            let first = if all {
                0
            } else {
                (row / self.slice.chunk) * columns
            };
            if self.comparison.bias {
                queries.positives.bias[row] += vector::sum(factors);
                vector::add(&mut gradients.bias[first..first + columns], factors);
            }
            if self.comparison.is_distance() {
                for (factor, &distance) in factors.iter_mut().zip(&scores.distances[range]) {
                    *factor *= self.comparison.slope(distance);
                }
                queries.positives.pull[row] += vector::sum(factors);
                vector::add(&mut gradients.pull[first..first + columns], factors);
            }
        }
    }

    /// Gradients through the positives' scores where the products do not carry them.
    fn differentiate_positives(
        &self,
        candidates: &mut SideBuffers,
        queries: &mut SideBuffers,
        scores: &Scores,
    ) {
        let (dimension, padded) = (self.plan.dimension, self.slice.padded());
        for row in 0..self.slice.rows.len() {
            let gradient = scores.positive_gradient[row];
            let factor = match self.comparison.is_distance() {
                true => gradient * self.comparison.slope(scores.positive_distance[row]),
                false => gradient,
            };
            let q = queries
                .rows
                .row(self.buffer_row(self.side.other(), row), dimension);
            let k = candidates
                .rows
                .row(self.buffer_row(self.side, row), dimension);
            queries.positives.add_scaled(row, factor, k);
            candidates.positives.add_scaled(row, factor, q);
            for gradients in [&mut queries.positives, &mut candidates.positives] {
                gradients.bias[row] += if self.comparison.bias { gradient } else { 0.0 };
                gradients.pull[row] += if self.comparison.is_distance() {
                    factor
                } else {
                    0.0
                };
            }
        }
        for gradients in [&mut queries.positives, &mut candidates.positives] {
            gradients.finish(self.slice.rows.len()..padded, dimension);
        }
    }
}
