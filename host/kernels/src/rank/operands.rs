//! Queries and candidates, prepared and interleaved.

use std::ops::Range;

use pbg_core::graph::Side;

use super::kernel;
use crate::score_function::RowExtras;

/// Known sides of edges, prepared for comparison with candidates.
#[derive(Clone, Debug, Default)]
pub struct PreparedQueries {
    pub(super) count: usize,
    pub(super) width: usize,
    /// The prepared rows, for [`Ranker::pair_scores`]; not kept for queries that were appended.
    pub(super) values: Vec<f32>,
    /// For comparators that are formulas, the rows one after the other.
    pub(super) interleaved: Vec<f32>,
    pub(super) extras: Vec<RowExtras>,
    /// For comparators that are formulas: the side that each query's candidates replace.
    pub(super) sides: Vec<Side>,
}

impl PreparedQueries {
    /// Number of queries that are interleaved; ranges of [`Ranker::scores`] start at its multiples.
    pub const GROUP: usize = kernel::GROUP;

    /// Creates an empty list with room for `count` queries of `width` floats, to be added by [`PreparedQueries::append`].
    #[must_use]
    pub fn with_capacity(count: usize, width: usize) -> Self {
        let padded = count.next_multiple_of(kernel::GROUP);
        Self {
            width,
            interleaved: Vec::with_capacity(padded * width),
            extras: Vec::with_capacity(count),
            ..Self::default()
        }
    }

    /// Appends `others`, without the data that only [`Ranker::pair_scores`] needs.
    ///
    /// # Panics
    /// If the number of queries so far is not a multiple of [`PreparedQueries::GROUP`], or the widths differ.
    pub fn append(&mut self, others: &Self) {
        assert_eq!(
            self.count % kernel::GROUP,
            0,
            "queries are appended to whole groups"
        );
        assert_eq!(self.width, others.width, "queries have the same width");
        self.count += others.count;
        self.interleaved.extend_from_slice(&others.interleaved);
        self.extras.extend_from_slice(&others.extras);
        self.sides.extend_from_slice(&others.sides);
    }

    /// Returns the vector of a query that was prepared and not appended.
    #[must_use]
    pub fn vector(&self, query: usize) -> &[f32] {
        let row = query * self.width..(query + 1) * self.width;
        self.values.get(row).unwrap_or_default()
    }

    /// Returns the number of queries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Returns whether there are no queries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// Consecutive entities of a table, prepared for comparison.
#[derive(Clone, Debug, Default)]
pub struct CandidateBlock {
    pub(super) first: usize,
    pub(super) count: usize,
    /// For comparators that are formulas, the rows one after the other.
    pub(super) panels: Vec<f32>,
    pub(super) extras: Vec<RowExtras>,
}

impl CandidateBlock {
    /// Returns the offsets of the entities in their table.
    #[must_use]
    pub fn entities(&self) -> Range<usize> {
        self.first..self.first + self.count
    }
}
