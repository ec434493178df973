//! Reuse distances: a single walk over a plan determines the loads of every buffer size.
//!
//! Source: Mattson et al., "Evaluation techniques for storage hierarchies" (IBM Systems Journal, 1970): a buffer that
//! evicts the least recently used partition holds the top of one stack, so the depth at which a partition is found
//! decides which buffers contain it.

use serde::{Deserialize, Serialize};

use crate::structure::ratio;
use pbg_core::graph::{Bucket, SidePartition};
use pbg_core::plan::needed_partitions;
use pbg_core::strategy::Pass;

/// Reuse distances of the partitions of a plan. The buffer is empty before the first bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReuseDistances {
    /// Number of first uses, that is, of distinct partitions.
    pub first: u64,
    /// `distances[d]` is the number of uses of a partition after `d` other partitions were used since its last use.
    pub distances: Vec<u64>,
}

impl ReuseDistances {
    /// Computes the distances of `plan`.
    #[must_use]
    pub fn new(pass: &Pass, plan: &[Bucket]) -> Self {
        let mut reuse = Self::default();
        // The most recently used partition is last.
        let mut stack: Vec<SidePartition> = Vec::new();
        for &bucket in plan {
            let depth = |group: SidePartition| stack.iter().rev().position(|&held| held == group);
            let mut uses: Vec<(Option<usize>, SidePartition)> = needed_partitions(pass, bucket)
                .map(|group| (depth(group), group))
                .collect();
            // The two partitions of a bucket are in the buffer together. The more recently used one is used first, so
            // that it is not evicted for the other.
            uses.sort_by_key(|&(depth, _)| depth.unwrap_or(usize::MAX));
            for (depth, group) in uses {
                match depth {
                    None => reuse.first += 1,
                    Some(depth) => {
                        stack.remove(stack.len() - 1 - depth);
                        if reuse.distances.len() <= depth {
                            reuse.distances.resize(depth + 1, 0);
                        }
                        reuse.distances[depth] += 1;
                    }
                }
                stack.push(group);
            }
        }
        reuse
    }

    /// Returns the mean distance, or 0 if no partition is reused.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let sum = (0..)
            .zip(&self.distances)
            .map(|(d, n): (u64, _)| d * n)
            .sum();
        ratio(sum, self.distances.iter().sum())
    }

    /// Returns the loads of a buffer of `slots` partitions with least-recently-used eviction.
    #[must_use]
    pub fn lru_loads(&self, slots: u32) -> u64 {
        let far = self.distances.iter().skip(slots as usize);
        self.first + far.sum::<u64>()
    }

    /// Returns the same without the loads that fill the buffer for the first time.
    #[must_use]
    pub fn lru_swaps(&self, slots: u32) -> u64 {
        self.lru_loads(slots) - self.first.min(u64::from(slots))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::replay::BufferReplay;
    use crate::testing::{any_pass_and_plan, lexicographic, pass};

    /// Simulates a buffer of one size with least-recently-used eviction. Of the two partitions of a bucket, the more
    /// recently used one is used first.
    fn simulated(pass: &Pass, plan: &[Bucket], slots: usize) -> u64 {
        let mut last_use = std::collections::HashMap::new();
        let mut held: Vec<SidePartition> = Vec::new();
        let (mut loads, mut time) = (0, 0_u64);
        for &bucket in plan {
            let mut needed: Vec<SidePartition> = needed_partitions(pass, bucket).collect();
            needed.sort_by_key(|group| std::cmp::Reverse(last_use.get(group).copied()));
            for group in needed {
                time += 1;
                last_use.insert(group, time);
                if !held.contains(&group) {
                    loads += 1;
                    held.push(group);
                }
                if held.len() > slots {
                    held.sort_by_key(|group| last_use[group]);
                    held.remove(0);
                }
            }
        }
        loads
    }

    proptest! {
        #[test]
        fn one_walk_counts_for_every_size((pass, plan) in any_pass_and_plan()) {
            let reuse = ReuseDistances::new(&pass, &plan);
            for slots in 2..10 {
                prop_assert_eq!(reuse.lru_loads(slots), simulated(&pass, &plan, slots as usize));
            }
        }

        #[test]
        fn belady_never_loads_more((pass, plan) in any_pass_and_plan()) {
            let pass = Pass { resident: Vec::new(), ..pass };
            let reuse = ReuseDistances::new(&pass, &plan);
            for slots in 2..8 {
                let best = BufferReplay::new(&pass, &plan, slots).loads.len() as u64;
                prop_assert!(best <= reuse.lru_loads(slots));
            }
        }
    }

    #[test]
    fn rows_reuse_their_partition_at_once_and_the_others_after_a_row() {
        let reuse = ReuseDistances::new(&pass(4, 2), &lexicographic(4));
        assert_eq!(reuse.first, 4);
        // In a row of four buckets, the diagonal needs one partition and the others two.
        assert_eq!(
            reuse.distances.iter().sum::<u64>() + reuse.first,
            4 + 12 * 2
        );
        assert_eq!(reuse.lru_swaps(4), 0);
    }
}
