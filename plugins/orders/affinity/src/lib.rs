//! PBG's `AFFINITY` bucket order: the next bucket shares a partition with the last one.
//!
//! Source: Lerer et al., "PyTorch-BigGraph: A Large-scale Graph Embedding System" (2019), and
//! the order of that name in its implementation. A random walk:
//!
//! 1. Start with a random bucket `b`.
//! 2. If the mirror of `b`, `(b.rhs, b.lhs)`, is not yet planned, train it: it needs no new partition.
//! 3. Take an unused bucket that shares partition `b.lhs` or `b.rhs`, chosen with probability
//!    proportional to the lengths of their lists; if both lists are empty, a random bucket.
//!    That bucket is the new `b`. Repeat from 2.
//!
//! With a buffer of two, step 2 loads nothing and step 3 usually loads one partition.

use pbg_plugin_sdk::{Bucket, Metadata, Order, Pass, Result, export_order};

/// The order; it has no parameters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Affinity;

impl Order for Affinity {
    fn metadata() -> Metadata {
        Metadata::new(
            "affinity",
            env!("CARGO_PKG_VERSION"),
            "A random walk whose next bucket shares a partition with the last one.",
        )
    }

    fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>> {
        Ok(pbg_order_plans::affinity::plan(pass))
    }
}

export_order!(Affinity);

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_plugin_sdk::testing;
    use proptest::prelude::*;

    #[test]
    fn keeps_the_contract() {
        testing::assert_order::<Affinity>();
    }

    /// Returns whether two buckets have a partition number in common, on any side.
    fn touch(a: Bucket, b: Bucket) -> bool {
        [a.lhs, a.rhs].iter().any(|p| [b.lhs, b.rhs].contains(p))
    }

    proptest! {
        #[test]
        fn plans_are_permutations(lhs in 1_u32..12, rhs in 1_u32..12, seed: u64) {
            testing::assert_plan::<Affinity>(&Pass::uniform(lhs, rhs, seed));
        }

        #[test]
        fn a_mirrored_bucket_follows(lhs in 1_u32..9, rhs in 1_u32..9, seed: u64) {
            let pass = Pass::uniform(lhs, rhs, seed);
            let plan = testing::assert_plan::<Affinity>(&pass);
            let at = |bucket| plan.iter().position(|&b| b == bucket);
            for (position, &bucket) in plan.iter().enumerate() {
                let mirror = bucket.transposed();
                if mirror != bucket && pass.contains(mirror) {
                    prop_assert_eq!(at(mirror).map(|m| m.abs_diff(position)), Some(1));
                }
            }
        }

        #[test]
        fn the_walk_jumps_only_where_both_lists_ran_dry(size in 1_u32..9, seed: u64) {
            let plan = testing::assert_plan::<Affinity>(&Pass::uniform(size, size, seed));
            for (position, pair) in plan.windows(2).enumerate() {
                if !touch(pair[0], pair[1]) {
                    let rest = &plan[position + 1..];
                    prop_assert!(rest.iter().all(|&b| !touch(pair[0], b)));
                }
            }
        }
    }

    #[test]
    fn seeds_give_different_plans() {
        let plans: std::collections::BTreeSet<_> = (0..50)
            .map(|seed| testing::assert_plan::<Affinity>(&Pass::uniform(4, 4, seed)))
            .collect();
        assert_eq!(plans.len(), 50);
    }
}
