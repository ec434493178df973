//! Grids of hypothetical graphs, of which only sizes are known.

use pbg_core::seed::{self, StreamPurpose};
use pbg_core::strategy::Pass;
use serde::{Deserialize, Serialize};

/// Sizes of a graph whose entities and edges are spread evenly over the grid.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GraphSizes {
    /// Total number of entities.
    pub entities: u64,
    /// Total number of edges.
    pub edges: u64,
    /// Dimension of the embeddings.
    pub dimension: u64,
}

impl Default for GraphSizes {
    /// Sizes of Freebase86m as the literature trains it: dimension 100, and the edges of the training set.
    fn default() -> Self {
        Self {
            entities: 86_054_151,
            edges: 304_727_650,
            dimension: 100,
        }
    }
}

impl GraphSizes {
    /// Returns the first pass over a grid of `lhs` x `rhs` partitions. If `rhs` is `None`, the grid is square and has
    /// one entity type; otherwise it has two types of equal size.
    #[must_use]
    pub fn pass(&self, lhs: u32, rhs: Option<u32>, buffer: u32, seed: u64) -> Pass {
        let shared = rhs.is_none();
        let rhs = rhs.unwrap_or(lhs);
        let row_bytes = 4 * self.dimension + 4;
        let entities = if shared {
            self.entities
        } else {
            self.entities / 2
        };
        let bytes = |partitions: u32| -> Vec<u64> {
            spread(entities, u64::from(partitions))
                .map(|rows| rows * row_bytes)
                .collect()
        };
        Pass {
            lhs_partitions: lhs,
            rhs_partitions: rhs,
            shared,
            edges: spread(self.edges, u64::from(lhs) * u64::from(rhs)).collect(),
            lhs_bytes: bytes(lhs),
            rhs_bytes: bytes(rhs),
            buffer_partitions: buffer,
            resident: Vec::new(),
            epoch: 0,
            edge_set: 0,
            edge_chunk: 0,
            seed: seed::derive(seed, StreamPurpose::Order, &[0, 0, 0]),
        }
    }
}

/// Splits `total` into `parts` integers that differ by at most 1.
fn spread(total: u64, parts: u64) -> impl Iterator<Item = u64> {
    (0..parts).map(move |part| total / parts + u64::from(part < total % parts))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_lost_in_partitions() {
        let sizes = GraphSizes {
            entities: 103,
            edges: 1001,
            dimension: 4,
        };
        let pass = sizes.pass(7, None, 3, 1);
        assert_eq!(pass.edges.iter().sum::<u64>(), 1001);
        assert_eq!(pass.lhs_bytes.iter().sum::<u64>(), 103 * 20);
        assert!(pass.shared);
        let pass = sizes.pass(7, Some(2), 3, 1);
        assert_eq!(
            (pass.buckets(), pass.rhs_bytes.len(), pass.shared),
            (14, 2, false)
        );
        assert_eq!(pass.edges.iter().sum::<u64>(), 1001);
    }
}
