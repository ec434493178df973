//! Swaps of one plan with buffers of every size.
//!
//! With both eviction policies, the contents of a buffer are always contained in those of a larger one. So a single
//! walk over the plan with one stack counts for all sizes at once: a buffer of `c` partitions holds the top `c` entries
//! of the stack, and the depth at which a partition is found decides which buffers must load it (Mattson et al.,
//! "Evaluation techniques for storage hierarchies", IBM Systems Journal, 1970).

use serde::{Deserialize, Serialize};

use crate::replay::index;
use crate::reuse::ReuseDistances;
use pbg_core::graph::Bucket;
use pbg_core::plan::needed_partitions;
use pbg_core::strategy::Pass;

/// Swaps of one plan as a function of the buffer size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MissCurve {
    /// Buffer sizes in partitions, ascending.
    pub slots: Vec<u32>,
    /// Swaps with Belady's eviction, which is optimal.
    pub belady: Vec<u64>,
    /// Swaps with least-recently-used eviction.
    pub lru: Vec<u64>,
}

/// Largest number of points of the curve.
const SIZES: u32 = 256;

impl MissCurve {
    /// Computes the curve of `plan` for buffers from 2 partitions to all of them. `reuse` must be the reuse distances
    /// of the plan.
    #[must_use]
    pub fn new(pass: &Pass, plan: &[Bucket], reuse: &ReuseDistances) -> Self {
        let slots = sizes(reuse.first as u32);
        let belady = belady_swaps(pass, plan);
        Self {
            belady: slots
                .iter()
                .map(|&slots| belady.get(slots as usize).copied().unwrap_or(0))
                .collect(),
            lru: slots.iter().map(|&slots| reuse.lru_swaps(slots)).collect(),
            slots,
        }
    }
}

/// Returns all sizes from 2 to `most`, or [`SIZES`] geometrically spaced ones if there are more.
fn sizes(most: u32) -> Vec<u32> {
    let most = most.max(2);
    if most <= SIZES + 1 {
        return (2..=most).collect();
    }
    let factor = (f64::from(most) / 2.0).powf(1.0 / f64::from(SIZES - 1));
    let mut sizes: Vec<u32> = (0..SIZES)
        .map(|step| (2.0 * factor.powi(step as i32)).round() as u32)
        .collect();
    sizes.dedup();
    sizes
}

/// Returns the swaps with Belady's eviction, indexed by the buffer size. Larger buffers have none.
fn belady_swaps(pass: &Pass, plan: &[Bucket]) -> Vec<u64> {
    let (uses, first) = uses(pass, plan);
    let resident = pass.resident.iter().map(|&group| index(pass, group));
    let leaves = first.into_iter().enumerate();
    let leaves = leaves.map(|(unit, next)| key(PartitionUse { unit, next }));
    let mut stack = Stack {
        held: resident.collect(),
        leaves: leaves.collect(),
        swaps_above: vec![0; 2 + pass.lhs_partitions as usize + pass.rhs_partitions as usize],
    };
    for (at, uses) in uses.into_iter().enumerate() {
        // Neither partition of a bucket is evicted to make room for the other.
        for &PartitionUse { unit, .. } in uses.iter().flatten() {
            stack.leaves[unit] = key(PartitionUse { unit, next: at });
        }
        for &PartitionUse { unit, .. } in uses.iter().flatten() {
            stack.take(unit);
        }
        for &needed in uses.iter().flatten() {
            stack.leaves[needed.unit] = key(needed);
        }
    }
    let mut swaps = stack.swaps_above;
    for size in (1..swaps.len()).rev() {
        swaps[size - 1] += swaps[size];
    }
    swaps
}

/// Use of a partition by a bucket.
#[derive(Clone, Copy)]
struct PartitionUse {
    /// Index of the partition.
    unit: usize,
    /// Position of the next bucket that needs it.
    next: usize,
}

/// Returns the partitions that each bucket needs, each with the position of the next bucket that needs it; and for each
/// partition the first bucket that needs it. [`usize::MAX`] stands for none.
fn uses(pass: &Pass, plan: &[Bucket]) -> (Vec<[Option<PartitionUse>; 2]>, Vec<usize>) {
    let mut next = vec![usize::MAX; pass.lhs_partitions as usize + pass.rhs_partitions as usize];
    let mut uses = vec![[None; 2]; plan.len()];
    for (at, &bucket) in plan.iter().enumerate().rev() {
        for (slot, group) in uses[at].iter_mut().zip(needed_partitions(pass, bucket)) {
            let unit = index(pass, group);
            *slot = Some(PartitionUse {
                unit,
                next: std::mem::replace(&mut next[unit], at),
            });
        }
    }
    (uses, next)
}

/// Returns the eviction key. The partition that is needed furthest in the future has the largest key. Of those that are
/// not needed again, the one with the smallest index has it, as in [`pbg_core::plan::Belady`].
fn key(PartitionUse { unit, next }: PartitionUse) -> (usize, usize) {
    (next, usize::MAX - unit)
}

/// The contents of buffers of all sizes.
struct Stack {
    /// Indices of partitions. A buffer of size `c` holds the first `c` of them.
    held: Vec<usize>,
    /// Eviction key of each partition. Among the partitions in a buffer, the one with the largest [`key`] is evicted.
    leaves: Vec<(usize, usize)>,
    /// `swaps_above[c]` is the number of uses for which exactly the full buffers of at most `c` partitions swapped.
    swaps_above: Vec<u64>,
}

impl Stack {
    /// Brings a partition into the buffers of all sizes.
    fn take(&mut self, unit: usize) {
        let mut moving = unit;
        for (depth, held) in self.held.iter_mut().enumerate() {
            let found = *held == unit;
            if found || depth == 0 || self.leaves[moving] < self.leaves[*held] {
                std::mem::swap(held, &mut moving);
            }
            if found {
                self.swaps_above[depth] += 1;
                return;
            }
        }
        self.swaps_above[self.held.len()] += 1;
        self.held.push(moving);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::replay::BufferReplay;
    use super::*;
    use crate::testing::{any_pass_and_plan, lexicographic, pass};
    use pbg_core::plan::cost;

    fn curve(pass: &Pass, plan: &[Bucket]) -> MissCurve {
        MissCurve::new(pass, plan, &ReuseDistances::new(pass, plan))
    }

    proptest! {
        #[test]
        fn one_walk_counts_what_a_buffer_of_each_size_swaps((pass, plan) in any_pass_and_plan()) {
            let swaps = belady_swaps(&pass, &plan);
            for (slots, swaps) in swaps.into_iter().enumerate().skip(2) {
                let replay = BufferReplay::new(&pass, &plan, slots as u32);
                prop_assert_eq!(swaps, replay.swaps(), "a buffer of {}", slots);
            }
        }
    }

    #[test]
    fn a_curve_reaches_from_two_partitions_to_all() {
        for p in [2, 3, 20, 64, 300] {
            let curve = curve(&pass(p, 2), &lexicographic(p));
            assert!(curve.slots.is_sorted_by(|a, b| a < b));
            assert_eq!(curve.slots.first(), Some(&2));
            assert_eq!(curve.slots.last(), Some(&p));
            assert_eq!(
                (curve.belady.last(), curve.lru.last()),
                (Some(&0), Some(&0))
            );
            let mut both = curve.belady.iter().zip(&curve.lru);
            assert!(both.all(|(best, lru)| best <= lru));
        }
        let swaps = cost(&pass(20, 2), &lexicographic(20)).swaps;
        assert_eq!(curve(&pass(20, 9), &lexicographic(20)).belady[0], swaps);
    }
}
