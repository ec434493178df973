//! Lower bound on the swaps of any order.
//!
//! Source: Mohoney et al., "Marius: Learning Massive Graph Embeddings on a Single Machine" (OSDI 2021), section 4:
//! every pair of partitions must be in the buffer together once, and a load brings a partition together with at most
//! all others in the buffer.

use crate::replay::index;
use crate::structure::PartitionPairs;
use pbg_core::graph::Bucket;
use pbg_core::plan::needed_partitions;
use pbg_core::strategy::Pass;

/// Returns a number of swaps that no order of the grid can get below. For a full grid with shared sides, it is Marius's
/// `ceil((p (p - 1) / 2 - c (c - 1) / 2) / (c - 1))`.
///
/// Pairs without edges need not meet. If the sides do not share partitions, only pairs of different sides count. The
/// bound is not always reached.
#[must_use]
pub fn swaps(pass: &Pass, slots: u32) -> u64 {
    let slots = u64::from(slots.max(2));
    let used = used(pass);
    let count = |units: &[bool]| units.iter().filter(|used| **used).count() as u64;
    let (lhs, rhs) = used.split_at(pass.lhs_partitions as usize);
    let (lhs, rhs) = (count(lhs), count(rhs));
    let filled = if pass.shared {
        let slots = slots.min(lhs);
        slots * slots.saturating_sub(1) / 2
    } else {
        most_pairs(slots, lhs, rhs)
    };
    let unmet = PartitionPairs::new(pass).count().saturating_sub(filled);
    let resident = pass.resident.iter();
    let there = resident.filter(|&&group| used[index(pass, group)]).count() as u64;
    let free = slots.saturating_sub(pass.resident.len() as u64);
    let missing = (lhs + rhs - there).saturating_sub(free);
    unmet.div_ceil(slots - 1).max(missing)
}

/// Returns which partitions some bucket needs, indexed by [`index`].
fn used(pass: &Pass) -> Vec<bool> {
    let mut used = vec![false; pass.lhs_partitions as usize + pass.rhs_partitions as usize];
    for lhs in 0..pass.lhs_partitions {
        for rhs in 0..pass.rhs_partitions {
            for group in needed_partitions(pass, Bucket::new(lhs, rhs)) {
                used[index(pass, group)] = true;
            }
        }
    }
    used
}

/// Returns the largest number of pairs of different sides among `slots` partitions.
fn most_pairs(slots: u64, lhs: u64, rhs: u64) -> u64 {
    (0..=slots.min(lhs))
        .map(|left| left * (slots - left).min(rhs))
        .max()
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{any_pass_and_plan, pass};
    use pbg_core::plan::cost;

    #[test]
    fn the_published_bounds() {
        // Marius's formula for these grids.
        for (p, c, bound) in [
            (8, 2, 27),
            (16, 2, 119),
            (32, 2, 495),
            (8, 4, 8),
            (16, 4, 38),
            (32, 4, 164),
            (16, 8, 14),
            (32, 8, 67),
            (64, 8, 284),
            (64, 16, 127),
            (128, 16, 534),
            (128, 32, 247),
            (4, 4, 0),
        ] {
            assert_eq!(swaps(&pass(p, c), c), bound, "p={p} c={c}");
        }
    }

    proptest! {
        #[test]
        fn no_plan_gets_below((pass, plan) in any_pass_and_plan()) {
            let swaps = swaps(&pass, pass.buffer_partitions);
            prop_assert!(swaps <= cost(&pass, &plan).swaps, "{swaps}");
        }
    }
}
