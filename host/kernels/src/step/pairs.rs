//! Scores and gradients of comparators that are formulas, pair by pair.
//!
//! A tile of candidates is compared with all queries of a chunk before the next one, so that it and its gradients stay
//! in the cache.

use pbg_core::batch_graph::Negatives;

use crate::matmul::MatrixBlock;
use crate::operators::formula::pairs::{PairEvaluator, PairGradients, QueryPairs};
use crate::step::prepared_rows::PreparedRows;
use crate::step::score_buffers::ScoreBuffers;
use crate::step::scores::{ComparisonBuffers, SliceComparison};

/// Candidates of a chunk that are compared at once.
struct Tile {
    chunk: usize,
    /// First candidate, counted within the chunk.
    first: usize,
    count: usize,
}

impl SliceComparison<'_> {
    /// Computes the scores of the queries with the candidates, which are `block` of `rows`.
    pub(super) fn score_pairs(
        &self,
        evaluator: &mut PairEvaluator,
        queries: &PreparedRows,
        (rows, block): (&PreparedRows, MatrixBlock),
        scores: &mut ScoreBuffers,
    ) {
        let (columns, dimension) = (scores.columns, self.plan.dimension);
        for tile in self.tiles(block) {
            let first = block.offset + tile.chunk * block.stride + tile.first * dimension;
            for row in self.rows_of(tile.chunk) {
                let pairs = QueryPairs {
                    side: self.side,
                    query: queries.row(self.buffer_row(self.side.other(), row), dimension),
                    candidates: &rows.values.as_slice()[first..][..tile.count * dimension],
                };
                let scores = &mut scores.negatives.as_mut_slice()[row * columns + tile.first..];
                evaluator.scores(pairs, &mut scores[..tile.count]);
            }
        }
    }

    /// Returns the score of row `q` of the queries and row `k` of the candidates.
    pub(super) fn score_pair(
        &self,
        evaluator: &mut PairEvaluator,
        [queries, candidates]: [&PreparedRows; 2],
        [q, k]: [usize; 2],
    ) -> f32 {
        let pairs = QueryPairs {
            side: self.side,
            query: queries.row(q, self.plan.dimension),
            candidates: candidates.row(k, self.plan.dimension),
        };
        let mut score = [0.0];
        evaluator.scores(pairs, &mut score);
        match self.comparison.bias {
            true => score[0] + (queries.extras[q].bias + candidates.extras[k].bias),
            false => score[0],
        }
    }

    /// Computes the gradients of both sides' rows from the gradients of the scores.
    pub(super) fn differentiate_pairs(
        &self,
        evaluator: &mut PairEvaluator,
        compared: &mut ComparisonBuffers<'_>,
    ) {
        let (dimension, padded) = (self.plan.dimension, self.slice.padded());
        compared.queries.positives.ensure(padded, dimension);
        if compared.scores.columns > 0 {
            self.differentiate_negatives(evaluator, compared);
        }
        if self.pairs {
            compared.candidates.positives.ensure(padded, dimension);
            self.differentiate_positive_pairs(evaluator, compared);
        }
        if self.comparison.bias {
            self.clear_places_of_biases(compared);
        }
    }

    /// Removes the gradients of the zeros that comparators see in the places of biases.
    fn clear_places_of_biases(&self, compared: &mut ComparisonBuffers<'_>) {
        let (dimension, padded) = (self.plan.dimension, self.slice.padded());
        let (candidates, columns) = match self.negatives() {
            Negatives::All => (&mut compared.entities.gradients, compared.scores.columns),
            _ => (
                &mut compared.candidates.candidates,
                self.slice.chunks * compared.scores.columns,
            ),
        };
        let sides = [
            (candidates, columns),
            (&mut compared.queries.positives, padded),
            (&mut compared.candidates.positives, padded),
        ];
        for (gradients, rows) in sides {
            if gradients.started {
                let rows = &mut gradients.values.as_mut_slice()[..rows * dimension];
                rows.iter_mut().step_by(dimension).for_each(|g| *g = 0.0);
            }
        }
    }

    fn differentiate_negatives(
        &self,
        evaluator: &mut PairEvaluator,
        compared: &mut ComparisonBuffers<'_>,
    ) {
        let ComparisonBuffers {
            candidates,
            entities,
            queries,
            scores,
        } = compared;
        let (columns, dimension) = (scores.columns, self.plan.dimension);
        let all = self.negatives() == Negatives::All;
        let (rows, gradients) = match all {
            true => (&entities.rows, &mut entities.gradients),
            false => (&candidates.rows, &mut candidates.candidates),
        };
        // Gradients of all entities are summed over the slices; others start anew in each slice.
        gradients.started &= all;
        gradients.ensure(self.slice.chunks * columns, dimension);
        let (block, _) = self.candidate_block();
        for tile in self.tiles(block) {
            let first = block.offset + tile.chunk * block.stride + tile.first * dimension;
            let floats = tile.count * dimension;
            let sums = (tile.chunk * columns + tile.first) * dimension;
            for row in self.rows_of(tile.chunk) {
                let query = self.buffer_row(self.side.other(), row);
                let pairs = QueryPairs {
                    side: self.side,
                    query: queries.rows.row(query, dimension),
                    candidates: &rows.values.as_slice()[first..][..floats],
                };
                let of_scores = &scores.negatives.as_slice()[row * columns + tile.first..];
                let of_queries = queries.positives.values.as_mut_slice();
                let mut sums = PairGradients {
                    query: &mut of_queries[row * dimension..][..dimension],
                    candidates: &mut gradients.values.as_mut_slice()[sums..][..floats],
                };
                evaluator.add_gradients(pairs, &of_scores[..tile.count], &mut sums);
            }
        }
    }

    /// Adds the gradients through the scores of positives that are not among the negatives.
    fn differentiate_positive_pairs(
        &self,
        evaluator: &mut PairEvaluator,
        compared: &mut ComparisonBuffers<'_>,
    ) {
        let ComparisonBuffers {
            candidates,
            queries,
            scores,
            ..
        } = compared;
        let dimension = self.plan.dimension;
        for row in 0..self.slice.rows.len() {
            let gradient = scores.positive_gradient[row];
            let query = self.buffer_row(self.side.other(), row);
            let pairs = QueryPairs {
                side: self.side,
                query: queries.rows.row(query, dimension),
                candidates: candidates
                    .rows
                    .row(self.buffer_row(self.side, row), dimension),
            };
            let range = row * dimension..(row + 1) * dimension;
            let mut sums = PairGradients {
                query: &mut queries.positives.values.as_mut_slice()[range.clone()],
                candidates: &mut candidates.positives.values.as_mut_slice()[range],
            };
            evaluator.add_gradients(pairs, &[gradient], &mut sums);
            if self.comparison.bias {
                queries.positives.bias[row] += gradient;
                candidates.positives.bias[row] += gradient;
            }
        }
    }

    /// Returns the tiles of all chunks whose candidates are `block`.
    fn tiles(&self, block: MatrixBlock) -> impl Iterator<Item = Tile> + use<> {
        let step = PairEvaluator::rows_at_once(self.plan.dimension);
        (0..block.count).flat_map(move |chunk| {
            (0..block.rows).step_by(step).map(move |first| Tile {
                chunk,
                first,
                count: step.min(block.rows - first),
            })
        })
    }

    /// Returns the positives of a chunk, without padding.
    fn rows_of(&self, chunk: usize) -> std::ops::Range<usize> {
        let first = chunk * self.slice.chunk;
        first..first + self.slice.filled(chunk)
    }
}
