//! Gradients of the compared rows of a slice, from gradients of its scores.

use std::ops::Range;

use pbg_core::batch_graph::Negatives;
use pbg_rows::vector;

use crate::error::StepError;
use crate::matmul::{Factor, MatrixBlock, product};
use crate::operators::formula::Evaluators;
use crate::step::common_products::SharingOrder;
use crate::step::score_buffers::ScoreBuffers;
use crate::step::scores::{ComparisonBuffers, SliceComparison};

impl SliceComparison<'_> {
    /// Computes the gradients of both sides' rows from the gradients of the scores.
    pub(crate) fn differentiate(
        &self,
        compared: &mut ComparisonBuffers<'_>,
        evaluators: &mut Evaluators,
    ) -> Result<(), StepError> {
        if !self.pairs {
            self.put_on_diagonal(compared.scores);
        }
        if self.comparison.has_epilogue() {
            self.undo_finish(compared);
        }
        if let Some(formula) = self.comparison.formula() {
            self.differentiate_pairs(evaluators.pairs(formula), compared);
            return Ok(());
        }
        if compared.scores.columns > 0 {
            self.share_gradients(compared.scores);
            self.differentiate_queries(compared)?;
            self.differentiate_candidates(compared)?;
        }
        if self.pairs {
            self.differentiate_positives(compared);
        }
        Ok(())
    }

    /// Keeps the gradients of products that the other comparison multiplies, or adds the kept ones.
    fn share_gradients(&self, scores: &mut ScoreBuffers) {
        let (scores, common) = self.split(scores);
        match self.sharing {
            None => {}
            Some(SharingOrder::First) => common.keep_gradients(scores),
            Some(SharingOrder::Second) => common.add_gradients(scores),
        }
    }

    /// Returns the columns of scores whose gradients are multiplied here.
    fn multiplied(&self, columns: usize) -> Range<usize> {
        SharingOrder::differentiated(self.sharing, self.slice.chunk, columns)
    }

    fn differentiate_queries(&self, compared: &mut ComparisonBuffers<'_>) -> Result<(), StepError> {
        let ComparisonBuffers {
            candidates,
            entities,
            queries,
            scores,
        } = compared;
        let dimension = self.plan.dimension;
        let (rows, block, _) = self.candidates(candidates, entities);
        let queried = MatrixBlock::dense(self.slice.chunks, self.slice.chunk, dimension);
        let gradients = &mut queries.positives;
        let multiplied = self.multiplied(scores.columns);
        if multiplied.is_empty() {
            return Ok(());
        }
        match self.rounded {
            false => product(
                &mut gradients.values,
                queried,
                Factor::plain(
                    &scores.negatives,
                    self.score_block().with_columns(multiplied.clone()),
                ),
                Factor::plain(&rows.values, block.with_rows(multiplied)),
                gradients.started,
            )?,
            true => {
                let floats = self.slice.padded() * scores.columns;
                scores.half.load(&scores.negatives.as_slice()[..floats]);
                scores.half_gradients.reserve(queried.floats());
                product(
                    &mut scores.half_gradients,
                    queried,
                    Factor::plain(&scores.half, self.score_block()),
                    Factor::plain(&rows.half, block),
                    false,
                )?;
                gradients.store_or_add(&scores.half_gradients, queried.floats());
            }
        }
        gradients.started = true;
        Ok(())
    }

    fn differentiate_candidates(
        &self,
        compared: &mut ComparisonBuffers<'_>,
    ) -> Result<(), StepError> {
        let ComparisonBuffers {
            candidates,
            entities,
            queries,
            scores,
        } = compared;
        let queries = &queries.rows;
        let (columns, dimension) = (scores.columns, self.plan.dimension);
        let block = MatrixBlock::dense(self.slice.chunks, columns, dimension);
        let gradients = match self.negatives() {
            Negatives::All => &mut entities.gradients,
            _ => &mut candidates.candidates,
        };
        // Gradients of all entities are summed over the slices; others start anew in each slice.
        gradients.started &= self.negatives() == Negatives::All;
        let multiplied = self.multiplied(columns);
        gradients.first_row = multiplied.start;
        let (of_scores, of_queries) = (self.score_block(), self.positives(self.side.other()));
        match self.rounded {
            false => product(
                &mut gradients.values,
                block.with_rows(multiplied.clone()),
                Factor::transposed(&scores.negatives, of_scores.with_columns(multiplied)),
                Factor::plain(&queries.values, of_queries),
                gradients.started,
            )?,
            true => {
                scores.half_gradients.reserve(block.floats());
                product(
                    &mut scores.half_gradients,
                    block,
                    Factor::transposed(&scores.half, of_scores),
                    Factor::plain(&queries.half, of_queries),
                    false,
                )?;
                gradients.store_or_add(&scores.half_gradients, block.floats());
            }
        }
        gradients.started = true;
        Ok(())
    }

    fn put_on_diagonal(&self, scores: &mut ScoreBuffers) {
        let columns = scores.columns;
        let negatives = scores.negatives.as_mut_slice();
        for row in 0..self.slice.rows.len() {
            negatives[row * columns + row % self.slice.chunk] = scores.positive_gradient[row];
        }
    }

    /// Adds the gradients of biases, and replaces gradients of scores by factors of inner products.
    fn undo_finish(&self, compared: &mut ComparisonBuffers<'_>) {
        let ComparisonBuffers {
            candidates,
            entities,
            queries,
            scores,
        } = compared;
        let columns = scores.columns;
        let all = self.negatives() == Negatives::All;
        let gradients = match all {
            true => &mut entities.gradients,
            false => &mut candidates.candidates,
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
                queries.positives.row_factors[row] += vector::sum(factors);
                vector::add(&mut gradients.row_factors[first..first + columns], factors);
            }
        }
    }

    /// Adds the gradients through the positives' scores, if the matrix products do not include them.
    fn differentiate_positives(&self, compared: &mut ComparisonBuffers<'_>) {
        let ComparisonBuffers {
            candidates,
            queries,
            scores,
            ..
        } = compared;
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
                gradients.row_factors[row] += if self.comparison.is_distance() {
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
