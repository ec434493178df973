//! Scores of a slice in one direction: the negatives that replace one side against the other side's positives.

use std::ops::Range;

use pbg_core::batch_graph::Negatives;
use pbg_core::graph::Side;
use pbg_core::strategy::MASKED;

use crate::error::StepError;
use crate::matmul::{Factor, MatrixBlock, product};
use crate::operators::formula::Evaluators;
use crate::score_function::{RowExtras, ScoreFunction};
use crate::step::buffers::{EntityBuffers, SliceSide};
use crate::step::common_products::{ChunkScores, CommonProducts, SharingOrder};
use crate::step::gather::ChunkLayout;
use crate::step::plan::{BatchPlan, Slice};
use crate::step::prepared_rows::PreparedRows;
use crate::step::score_buffers::ScoreBuffers;

/// A comparison of a slice in one direction.
pub(crate) struct SliceComparison<'a> {
    pub(crate) plan: &'a BatchPlan,
    pub(crate) slice: &'a Slice,
    /// The side that is replaced.
    pub(crate) side: Side,
    /// Layout of a chunk's rows, per side.
    pub(crate) layouts: [ChunkLayout; 2],
    pub(crate) comparison: ScoreFunction,
    /// Whether products have bf16 factors.
    pub(crate) rounded: bool,
    /// If the slice's two comparisons have products in common: which of them this is.
    pub(crate) sharing: Option<SharingOrder>,
    /// Whether the positives' scores are computed pair by pair. This is so for distances, since a difference of large
    /// numbers would spoil the small distances of positives. Otherwise they are the diagonal of the in-batch negatives'
    /// scores.
    pub(crate) pairs: bool,
    /// With all negatives: the entity of each positive on the replaced side.
    pub(crate) positive_entities: &'a [u32],
    /// Number of draws that are negatives of each positive; `None` if all are.
    pub(crate) draw_counts: Option<&'a [u32]>,
    pub(crate) entities: Range<usize>,
}

/// The buffers of a comparison.
pub(crate) struct ComparisonBuffers<'m> {
    /// Rows of the replaced side.
    pub(crate) candidates: &'m mut SliceSide,
    /// All entities of the replaced side, if all are negatives.
    pub(crate) entities: &'m mut EntityBuffers,
    /// Rows of the other side.
    pub(crate) queries: &'m mut SliceSide,
    pub(crate) scores: &'m mut ScoreBuffers,
}

impl SliceComparison<'_> {
    pub(super) fn negatives(&self) -> Negatives {
        self.plan.negatives[self.side as usize]
    }

    fn columns(&self) -> usize {
        match self.negatives() {
            Negatives::All => self.entities.len(),
            _ => self.plan.columns(self.side),
        }
    }

    pub(super) fn layout(&self, side: Side) -> ChunkLayout {
        self.layouts[side as usize]
    }

    /// Returns the row of the buffers that holds positive `row` of the slice.
    pub(super) fn buffer_row(&self, side: Side, row: usize) -> usize {
        self.layout(side).first(row / self.slice.chunk) + row % self.slice.chunk
    }

    /// Returns the block of the positives of `side`, one matrix per chunk.
    pub(super) fn positives(&self, side: Side) -> MatrixBlock {
        let dimension = self.plan.dimension;
        MatrixBlock {
            offset: 0,
            count: self.slice.chunks,
            stride: self.layout(side).rows() * dimension,
            rows: self.slice.chunk,
            columns: dimension,
            row_stride: dimension,
        }
    }

    /// Returns the rows of the candidates, their block with one matrix per chunk (with all negatives, one matrix for
    /// all chunks), and the number of rows per chunk that precede them.
    pub(super) fn candidates<'b>(
        &self,
        side: &'b SliceSide,
        entities: &'b EntityBuffers,
    ) -> (&'b PreparedRows, MatrixBlock, usize) {
        let (block, skipped) = self.candidate_block();
        match self.negatives() {
            Negatives::All => (&entities.rows, block, skipped),
            _ => (&side.rows, block, skipped),
        }
    }

    /// Returns the block of the candidates in their rows, and the number of rows per chunk that precede them.
    pub(super) fn candidate_block(&self) -> (MatrixBlock, usize) {
        let dimension = self.plan.dimension;
        if self.negatives() == Negatives::All {
            return (MatrixBlock::one(0, self.entities.len(), dimension), 0);
        }
        let layout = self.layout(self.side);
        let skipped = if self.plan.in_batch(self.side) {
            0
        } else {
            layout.chunk
        };
        let block = MatrixBlock {
            offset: skipped * dimension,
            count: self.slice.chunks,
            stride: layout.rows() * dimension,
            rows: layout.rows() - skipped,
            columns: dimension,
            row_stride: dimension,
        };
        (block, skipped)
    }

    /// Returns the block of the scores, one matrix per chunk.
    pub(super) fn score_block(&self) -> MatrixBlock {
        MatrixBlock::dense(self.slice.chunks, self.slice.chunk, self.columns())
    }

    /// Computes the scores of positives and negatives, and masks them.
    pub(crate) fn score(
        &self,
        compared: &mut ComparisonBuffers<'_>,
        evaluators: &mut Evaluators,
    ) -> Result<(), StepError> {
        let ComparisonBuffers {
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
            match self.comparison.formula() {
                None => self.multiply(&queries.rows, rows, block, scores)?,
                Some(formula) => {
                    let evaluator = evaluators.pairs(formula);
                    self.score_pairs(evaluator, &queries.rows, (rows, block), scores);
                }
            }
            if self.comparison.has_epilogue() {
                self.finish_products(rows, skipped, &queries.rows.extras, scores);
            }
        }
        self.score_positives(&candidates.rows, &queries.rows, scores, evaluators);
        self.mask(scores);
        Ok(())
    }

    /// Returns the scores, and what this comparison has in common with the other one.
    pub(super) fn split<'s>(
        &self,
        scores: &'s mut ScoreBuffers,
    ) -> (ChunkScores<'s>, &'s mut CommonProducts) {
        let ScoreBuffers {
            negatives,
            columns,
            common,
            ..
        } = scores;
        let values = &mut negatives.as_mut_slice()[..self.slice.padded() * *columns];
        let (chunk, columns) = (self.slice.chunk, *columns);
        let scores = ChunkScores {
            values,
            chunk,
            columns,
        };
        (scores, common)
    }

    /// Computes the inner products of the queries with the candidates, which are `block` of `rows`.
    fn multiply(
        &self,
        queries: &PreparedRows,
        rows: &PreparedRows,
        block: MatrixBlock,
        scores: &mut ScoreBuffers,
    ) -> Result<(), StepError> {
        let (of_queries, to) = (self.positives(self.side.other()), self.score_block());
        match self.rounded {
            false => {
                let columns = SharingOrder::scored(self.sharing, self.slice.chunk, to.columns);
                product(
                    &mut scores.negatives,
                    to.with_columns(columns.clone()),
                    Factor::plain(&queries.values, of_queries),
                    Factor::transposed(&rows.values, block.with_rows(columns)),
                    false,
                )?;
                let (scores, common) = self.split(scores);
                match self.sharing {
                    None => {}
                    Some(SharingOrder::First) => common.keep_products(scores),
                    Some(SharingOrder::Second) => common.fill_products(scores),
                }
                Ok(())
            }
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

    /// Converts inner products into scores.
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
        evaluators: &mut Evaluators,
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
            if let Some(formula) = self.comparison.formula() {
                let evaluator = evaluators.pairs(formula);
                scores.positive[row] = self.score_pair(evaluator, [queries, candidates], [q, k]);
                continue;
            }
            (scores.positive[row], scores.positive_distance[row]) = self.comparison.score(
                queries.row(q, dimension),
                queries.extras.get(q).copied().unwrap_or_default(),
                candidates.row(k, dimension),
                candidates.extras.get(k).copied().unwrap_or_default(),
            );
        }
    }

    /// Masks each positive among its own negatives, padding, and the draws that are no negatives of a positive.
    fn mask(&self, scores: &mut ScoreBuffers) {
        let columns = scores.columns;
        let drawn = match self.plan.in_batch(self.side) {
            true => self.slice.chunk,
            false => 0,
        };
        let negatives = scores.negatives.as_mut_slice();
        for row in 0..self.slice.rows.len() {
            let scores = &mut negatives[row * columns..(row + 1) * columns];
            if let Some(counts) = self.draw_counts {
                let counted = drawn + counts[row] as usize;
                scores[counted.min(columns)..].fill(MASKED);
            }
            match self.negatives() {
                Negatives::None => {}
                Negatives::All => {
                    let entity = self.positive_entities[row] as usize;
                    if self.entities.contains(&entity) {
                        scores[entity - self.entities.start] = MASKED;
                    }
                }
                Negatives::Sampled {
                    in_batch: false, ..
                } => {}
                Negatives::Sampled { in_batch: true, .. } => {
                    scores[row % self.slice.chunk] = MASKED;
                    scores[self.slice.filled(row / self.slice.chunk)..self.slice.chunk]
                        .fill(MASKED);
                }
            }
        }
    }
}
