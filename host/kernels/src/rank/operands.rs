//! What is compared: queries and candidates, prepared and interleaved.

use std::ops::Range;

use super::kernel;
use crate::comparators::RowExtras;

/// What the known sides of edges are compared with candidates as.
#[derive(Clone, Debug, Default)]
pub struct Queries {
    pub(super) count: usize,
    pub(super) width: usize,
    /// Row by row, for [`Ranker::pair_scores`]; not kept of those that were appended.
    pub(super) values: Vec<f32>,
    pub(super) interleaved: Vec<f32>,
    pub(super) extras: Vec<RowExtras>,
}

impl Queries {
    /// How many are interleaved with each other: ranges of [`Ranker::scores`] start at multiples of it.
    pub const GROUP: usize = kernel::GROUP;

    /// Room for `count` queries of `width` floats that come by [`Queries::append`].
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

    /// Adds `others` behind, without what only [`Ranker::pair_scores`] needs.
    ///
    /// # Panics
    /// If those before are not whole groups of [`Queries::GROUP`], or the widths differ.
    pub fn append(&mut self, others: &Self) {
        assert_eq!(self.count % kernel::GROUP, 0, "whole groups come before");
        assert_eq!(self.width, others.width, "all are as wide");
        self.count += others.count;
        self.interleaved.extend_from_slice(&others.interleaved);
        self.extras.extend_from_slice(&others.extras);
    }

    /// How many.
    #[must_use]
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// Consecutive entities of a table, prepared for comparison.
#[derive(Clone, Debug, Default)]
pub struct Candidates {
    pub(super) first: usize,
    pub(super) count: usize,
    pub(super) panels: Vec<f32>,
    pub(super) extras: Vec<RowExtras>,
}

impl Candidates {
    /// Offsets of the entities in their table.
    #[must_use]
    pub fn entities(&self) -> Range<usize> {
        self.first..self.first + self.count
    }
}
