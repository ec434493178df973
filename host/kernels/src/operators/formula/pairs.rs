//! Execution of comparators that are formulas: one query with many candidates.
//!
//! The query takes the place of an operator's parameters, which all rows share, so values that depend on it alone are
//! computed once. Scores of a pair have the same bits wherever the candidate is.

use pbg_core::graph::Side;
use pbg_formula::comparator::ComparatorHandle;
use pbg_formula::comparator::definition::Candidates;

use super::block::RowsShape;
use super::compiled::{Block, CompiledProgram, Packed};
use super::program::{OperatorProgram, Output};
use super::run::{add_scaled, first_elements};

/// Floats of candidates per block, unless a single row has more: 4 KiB, so that they, their gradients and a few values
/// fit the first-level cache together.
const BLOCK: usize = 1024;

/// Evaluator of one comparator, for one worker.
#[derive(Debug)]
pub(crate) struct PairEvaluator {
    formula: ComparatorHandle,
    /// Programs for candidates of each side.
    sides: [PairPrograms; 2],
}

#[derive(Debug)]
struct PairPrograms {
    score: CompiledProgram,
    slopes: CompiledProgram,
}

/// A query with its candidates, row by row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QueryPairs<'a> {
    /// The side of the candidates.
    pub(crate) side: Side,
    pub(crate) query: &'a [f32],
    pub(crate) candidates: &'a [f32],
}

/// Destinations of the gradients of a query and of its candidates, to which they are added.
#[derive(Debug)]
pub(crate) struct PairGradients<'a> {
    pub(crate) query: &'a mut [f32],
    pub(crate) candidates: &'a mut [f32],
}

impl PairEvaluator {
    pub(super) fn new(formula: ComparatorHandle) -> Self {
        let programs = |candidates| {
            let pairs = formula.formula().pairs(candidates);
            PairPrograms {
                score: CompiledProgram::new(OperatorProgram::of_pairs(&pairs.score)),
                slopes: CompiledProgram::new(OperatorProgram::of_pairs(&pairs.slopes)),
            }
        };
        Self {
            formula,
            sides: [Candidates::Left, Candidates::Right].map(programs),
        }
    }

    pub(super) fn formula(&self) -> ComparatorHandle {
        self.formula
    }

    /// Returns the number of candidates of `dimension` floats that are best compared at once, so that they stay in the
    /// first-level cache.
    pub(crate) fn rows_at_once(dimension: usize) -> usize {
        (BLOCK / dimension.max(1)).max(1)
    }

    fn extent(&self, dimension: usize) -> RowsShape {
        RowsShape {
            rows: Self::rows_at_once(dimension),
            width: dimension / self.formula.components(),
        }
    }

    /// Computes the score of each candidate.
    pub(crate) fn scores(&mut self, pairs: QueryPairs<'_>, scores: &mut [f32]) {
        let dimension = pairs.query.len();
        let extent = self.extent(dimension);
        let program = &mut self.sides[pairs.side as usize].score;
        let packed = prepared(program, pairs.query, extent);
        let candidates = pairs.candidates.chunks(extent.rows * dimension);
        for (embeddings, scores) in candidates.zip(scores.chunks_mut(extent.rows)) {
            program.pairs(
                block(embeddings, dimension),
                packed,
                |outputs, inputs, buffers| {
                    let score = outputs.first().copied().unwrap_or(Output::Zero);
                    first_elements(score, inputs, buffers, scores);
                },
            );
        }
    }

    /// Adds the gradients of the query and of each candidate, given those of the scores. A score without a gradient has
    /// no influence, even where the derivative is infinite.
    pub(crate) fn add_gradients(
        &mut self,
        pairs: QueryPairs<'_>,
        of_scores: &[f32],
        sums: &mut PairGradients<'_>,
    ) {
        let dimension = pairs.query.len();
        let (components, extent) = (self.formula.components(), self.extent(dimension));
        let program = &mut self.sides[pairs.side as usize].slopes;
        let mut packed = None;
        for (index, of_scores) in of_scores.chunks(extent.rows).enumerate() {
            let counts = |gradient: &f32| *gradient != 0.0;
            let Some(skipped) = of_scores.iter().position(counts) else {
                continue;
            };
            let end = of_scores
                .iter()
                .rposition(counts)
                .map_or(0, |last| last + 1);
            let packed = *packed.get_or_insert_with(|| prepared(program, pairs.query, extent));
            let first = index * extent.rows + skipped;
            let of_scores = &of_scores[skipped..end];
            let range = first * dimension..(first + of_scores.len()) * dimension;
            let embeddings = &pairs.candidates[range.clone()];
            let of_candidates = &mut sums.candidates[range];
            let of_query = &mut *sums.query;
            program.pairs(
                block(embeddings, dimension),
                packed,
                |outputs, inputs, buffers| {
                    let (candidate, query) = outputs.split_at(components);
                    let rows = of_candidates.chunks_exact_mut(dimension);
                    for (row, (&gradient, sum)) in of_scores.iter().zip(rows).enumerate() {
                        if gradient != 0.0 {
                            add_scaled(candidate, inputs, buffers, (row, gradient), sum);
                            add_scaled(query, inputs, buffers, (row, gradient), of_query);
                        }
                    }
                },
            );
        }
    }

    /// Returns the current size of the buffers in bytes.
    pub(super) fn bytes(&self) -> usize {
        let bytes = |side: &PairPrograms| side.score.bytes() + side.slopes.bytes();
        self.sides.iter().map(bytes).sum()
    }

    /// Returns the size in bytes of the buffers for embeddings of all these dimensions.
    pub(super) fn bytes_for(&self, dimensions: &[usize]) -> usize {
        let shapes: Vec<RowsShape> = dimensions.iter().map(|&d| self.extent(d)).collect();
        let bytes =
            |side: &PairPrograms| side.score.bytes_for(&shapes) + side.slopes.bytes_for(&shapes);
        self.sides.iter().map(bytes).sum()
    }
}

/// Computes the values that depend on the query alone.
fn prepared<'a>(program: &mut CompiledProgram, query: &'a [f32], extent: RowsShape) -> Packed<'a> {
    let packed = Packed {
        values: query,
        stride: 0,
    };
    program.fit(extent);
    program.prepare(packed, extent);
    packed
}

fn block(embeddings: &[f32], dimension: usize) -> Block<'_> {
    Block {
        embeddings,
        gradients: &[],
        dimension,
        rows: embeddings.len() / dimension,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of 512 floats have two rows, and those of 600 floats one.
    #[test]
    fn the_bytes_of_several_dimensions_are_announced() {
        let mut evaluator = PairEvaluator::new(pbg_formula::comparator::distances::complex_l1());
        for dimension in [600, 512] {
            let (query, candidates) = (vec![0.5; dimension], vec![0.25; 4 * dimension]);
            for side in [Side::Lhs, Side::Rhs] {
                let pairs = QueryPairs {
                    side,
                    query: &query,
                    candidates: &candidates,
                };
                let (mut of_query, mut of_candidates) = (query.clone(), candidates.clone());
                let mut sums = PairGradients {
                    query: &mut of_query,
                    candidates: &mut of_candidates,
                };
                evaluator.scores(pairs, &mut [0.0; 4]);
                evaluator.add_gradients(pairs, &[1.0; 4], &mut sums);
            }
        }
        let used = evaluator.bytes();
        assert!(used <= evaluator.bytes_for(&[600, 512]), "{used}");
        assert!(used > evaluator.bytes_for(&[600]), "{used}");
    }
}
