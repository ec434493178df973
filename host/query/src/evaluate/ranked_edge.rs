//! An edge to rank.

use pbg_core::graph::{Bucket, EdgeColumns, Side};

/// Edge with the partitions of its sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RankedEdge {
    pub(crate) bucket: Bucket,
    pub(crate) lhs: u32,
    pub(crate) rel: u32,
    pub(crate) rhs: u32,
}

impl RankedEdge {
    /// Returns edge `i` of `edges`, which were read from `bucket`.
    pub(super) fn of(bucket: Bucket, edges: &EdgeColumns, i: usize) -> Self {
        Self {
            bucket,
            lhs: edges.lhs[i],
            rel: edges.rel[i],
            rhs: edges.rhs[i],
        }
    }

    /// Returns the offset of the entity on `side`.
    pub(crate) fn offset(&self, side: Side) -> u32 {
        match side {
            Side::Lhs => self.lhs,
            Side::Rhs => self.rhs,
        }
    }
}
