//! Grids of hypothetical graphs, of which only sizes are known.

use pbg_core::seed::{self, StreamPurpose};
use pbg_core::strategy::Pass;
use serde::{Deserialize, Serialize};

/// Sizes of a graph, and how evenly its entities and edges are spread over the grid.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct GraphSizes {
    /// Total number of entities.
    pub entities: u64,
    /// Total number of edges.
    pub edges: u64,
    /// Dimension of the embeddings.
    pub dimension: u64,
    /// Inequality of the partitions.
    pub skew: Skew,
}

/// Inequality of the partitions of a grid, as exponents of Zipf's law: partition `k`, counted from 1, has a share in
/// proportion to `k^-exponent`. 0 is even.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Skew {
    /// Exponent of the edges, on each side: bucket `(i, j)` has edges in proportion to `(i j)^-edges`.
    pub edges: f64,
    /// Exponent of the entities.
    pub entities: f64,
}

impl Skew {
    /// Returns the weights of `partitions` partitions.
    fn weights(exponent: f64, partitions: u32) -> Vec<f64> {
        (1..=partitions)
            .map(|k| f64::from(k).powf(-exponent))
            .collect()
    }
}

impl Default for GraphSizes {
    /// Sizes of Freebase86m as the literature trains it: dimension 100, and the edges of the training set.
    fn default() -> Self {
        Self {
            entities: 86_054_151,
            edges: 304_727_650,
            dimension: 100,
            skew: Skew::default(),
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
            let rows = spread(entities, &Skew::weights(self.skew.entities, partitions));
            rows.into_iter().map(|rows| rows * row_bytes).collect()
        };
        let columns = Skew::weights(self.skew.edges, rhs);
        let rows = Skew::weights(self.skew.edges, lhs);
        let of_row = |row: f64| columns.iter().map(move |column| row * column);
        let buckets: Vec<f64> = rows.into_iter().flat_map(of_row).collect();
        Pass {
            lhs_partitions: lhs,
            rhs_partitions: rhs,
            shared,
            edges: spread(self.edges, &buckets),
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

/// Splits `total` into integers in proportion to `weights`: equal weights give integers that differ by at most 1. What
/// rounding down leaves goes to the first parts.
fn spread(total: u64, weights: &[f64]) -> Vec<u64> {
    let sum: f64 = weights.iter().sum();
    let even = weights.windows(2).all(|pair| pair[0] == pair[1]);
    let share = |weight: &f64| match even {
        true => total / weights.len() as u64,
        false => (total as f64 * (weight / sum)) as u64,
    };
    let mut parts: Vec<u64> = weights.iter().map(share).collect();
    let mut left = total.saturating_sub(parts.iter().sum());
    while left > 0 && !parts.is_empty() {
        let taken = left.min(parts.len() as u64);
        parts[..taken as usize]
            .iter_mut()
            .for_each(|part| *part += 1);
        left -= taken;
    }
    parts
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
            skew: Skew::default(),
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

    #[test]
    fn skewed_partitions_follow_the_law_and_lose_nothing() {
        let sizes = GraphSizes {
            entities: 1003,
            edges: 100_001,
            dimension: 4,
            skew: Skew {
                edges: 1.0,
                entities: 0.5,
            },
        };
        let pass = sizes.pass(8, None, 3, 1);
        assert_eq!(pass.edges.iter().sum::<u64>(), 100_001);
        assert_eq!(pass.lhs_bytes.iter().sum::<u64>(), 1003 * 20);
        let close = |part: u64, whole: u64, ratio: f64| {
            let expected = whole as f64 / ratio;
            assert!(
                (part as f64 - expected).abs() < 0.02 * expected,
                "{part} {expected}"
            );
        };
        close(pass.edges[3], pass.edges[0], 4.0);
        close(pass.edges[63], pass.edges[0], 64.0);
        close(pass.lhs_bytes[3], pass.lhs_bytes[0], 2.0);
        assert!(pass.lhs_bytes.is_sorted_by(|a, b| a >= b));
    }
}
