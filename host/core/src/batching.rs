//! Cutting of a bucket's edges into batches: edge chunks, hold-out, shuffle, workers' shares, groups by relation.
//!
//! Everything works on indices into the bucket's edges, so the edges themselves are not moved.

use std::ops::Range;

use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Returns the rows of edge chunk `chunk` of `chunks` in a bucket of `edges` edges. Chunks are contiguous and of equal
/// length, except for the last.
#[must_use]
pub fn chunk_range(edges: u64, chunk: u32, chunks: u32) -> Range<u64> {
    let size = edges.div_ceil(u64::from(chunks.max(1)));
    let start = (u64::from(chunk) * size).min(edges);
    start..(start + size).min(edges)
}

/// Returns the number of edge chunks with which the largest bucket has at most `max_edges` edges per chunk.
#[must_use]
pub fn derive_edge_chunks(largest_bucket: u64, max_edges: u64) -> u32 {
    u32::try_from(largest_bucket.div_ceil(max_edges.max(1)).max(1)).unwrap_or(u32::MAX)
}

/// Returns the number of edges that [`hold_out`] holds out of `edges` edges.
#[must_use]
pub fn held_out(edges: u64, fraction: f64) -> u64 {
    (edges as f64 * fraction) as u64
}

/// Splits `0..edges` into held-out and training indices, which are disjoint and both ascending.
///
/// The number held out is `fraction` of the edges, rounded down. If the generator depends on the bucket but not on the
/// epoch, the split is the same in every epoch.
#[must_use]
pub fn hold_out(edges: u32, fraction: f64, rng: &mut Xoshiro256PlusPlus) -> (Vec<u32>, Vec<u32>) {
    let wanted = held_out(u64::from(edges), fraction) as u32;
    let mut left = wanted;
    let mut held = Vec::with_capacity(wanted as usize);
    let mut kept = Vec::with_capacity((edges - wanted) as usize);
    for index in 0..edges {
        // Selection sampling (Knuth, TAOCP 2, 3.4.2, algorithm S): uniform, in one pass.
        if left > 0 && rng.random_range(0..edges - index) < left {
            held.push(index);
            left -= 1;
        } else {
            kept.push(index);
        }
    }
    (held, kept)
}

/// Shuffles uniformly (Fisher-Yates).
pub fn shuffle(indices: &mut [u32], rng: &mut Xoshiro256PlusPlus) {
    for i in (1..indices.len()).rev() {
        indices.swap(i, rng.random_range(0..=i));
    }
}

/// Returns contiguous equal parts of `0..edges`, one per worker; the last ones may be shorter or empty.
pub fn shares(edges: usize, workers: usize) -> impl Iterator<Item = Range<usize>> {
    let size = edges.div_ceil(workers.max(1));
    (0..workers).map(move |w| (w * size).min(edges)..((w + 1) * size).min(edges))
}

/// A worker's share of edges, grouped by relation. Within a relation, the order is that of the share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ByRelation {
    /// Indices of the edges, grouped.
    pub order: Vec<u32>,
    /// Start of each relation's group in `order`; one more entry than relations.
    pub starts: Vec<u32>,
}

impl ByRelation {
    /// Groups `share` by `rel[index]`, which must be below `relations`.
    #[must_use]
    pub fn new(share: &[u32], rel: &[u32], relations: usize) -> Self {
        let mut starts = vec![0_u32; relations + 1];
        for &index in share {
            starts[rel[index as usize] as usize + 1] += 1;
        }
        for r in 0..relations {
            starts[r + 1] += starts[r];
        }
        let mut next = starts.clone();
        let mut order = vec![0; share.len()];
        for &index in share {
            let slot = &mut next[rel[index as usize] as usize];
            order[*slot as usize] = index;
            *slot += 1;
        }
        Self { order, starts }
    }

    /// Returns the number of edges of each relation.
    #[must_use]
    pub fn counts(&self) -> Vec<u64> {
        self.starts
            .windows(2)
            .map(|w| u64::from(w[1] - w[0]))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::seed::{StreamPurpose, stream};

    proptest! {
        #[test]
        fn chunks_cover_a_bucket_once(edges in 0_u64..500, chunks in 1_u32..20) {
            let all: Vec<u64> = (0..chunks).flat_map(|k| chunk_range(edges, k, chunks)).collect();
            prop_assert_eq!(all, (0..edges).collect::<Vec<_>>());
        }

        #[test]
        fn hold_out_is_disjoint_complete_and_the_same_again(
            edges in 0_u32..2000, fraction in 0.0_f64..0.99, seed in any::<u64>(),
        ) {
            let split = || hold_out(edges, fraction, &mut stream(seed, StreamPurpose::HoldOut, &[1, 2]));
            let (held, kept) = split();
            prop_assert_eq!(held.len(), (f64::from(edges) * fraction) as usize);
            let mut all = [held.clone(), kept.clone()].concat();
            all.sort_unstable();
            prop_assert_eq!(all, (0..edges).collect::<Vec<_>>());
            prop_assert_eq!((held, kept), split());
        }

        #[test]
        fn shares_and_groups_keep_every_edge(
            rel in proptest::collection::vec(0_u32..7, 0..300), workers in 1_usize..9, seed in any::<u64>(),
        ) {
            let mut order: Vec<u32> = (0..rel.len() as u32).collect();
            shuffle(&mut order, &mut stream(seed, StreamPurpose::Shuffle, &[]));
            let mut all = Vec::new();
            for range in shares(order.len(), workers) {
                let grouped = ByRelation::new(&order[range.clone()], &rel, 7);
                prop_assert!(grouped.order.iter().map(|&i| rel[i as usize]).is_sorted());
                // The grouping is stable: within a relation, the share's order is kept.
                for r in 0..7 {
                    let expected: Vec<u32> =
                        order[range.clone()].iter().copied().filter(|&i| rel[i as usize] == r).collect();
                    let found = grouped.starts[r as usize] as usize..grouped.starts[r as usize + 1] as usize;
                    prop_assert_eq!(&grouped.order[found], &expected[..]);
                }
                all.extend(grouped.order);
            }
            all.sort_unstable();
            prop_assert_eq!(all, (0..rel.len() as u32).collect::<Vec<_>>());
        }
    }

    #[test]
    fn the_hold_out_is_uniform() {
        let mut hits = [0_u32; 20];
        for seed in 0..20_000 {
            for index in hold_out(20, 0.25, &mut stream(seed, StreamPurpose::HoldOut, &[])).0 {
                hits[index as usize] += 1;
            }
        }
        // Each of the 20 edges is held out with probability 1/4: mean 5000, deviation 61.
        assert!(hits.iter().all(|h| (4600..5400).contains(h)), "{hits:?}");
    }
}
