//! The trait of executors of a comparator's formula, with which callers can run a formula without knowing the executor.

use super::definition::Candidates;

/// A query and its candidates, row by row. All embeddings have as many floats as the query.
#[derive(Clone, Copy, Debug)]
pub struct PairRows<'a> {
    /// Side of the candidates.
    pub side: Candidates,
    /// The query.
    pub query: &'a [f32],
    /// The candidates.
    pub candidates: &'a [f32],
}

/// Executor of a formula on pairs of a query and its candidates.
pub trait PairExecutor {
    /// Computes the score of each candidate.
    fn scores(&mut self, rows: PairRows<'_>, scores: &mut [f32]);

    /// Adds the gradients of the query and of each candidate to `query` and `candidates`, given those of the scores.
    fn add_gradients(
        &mut self,
        rows: PairRows<'_>,
        of_scores: &[f32],
        query: &mut [f32],
        candidates: &mut [f32],
    );
}
