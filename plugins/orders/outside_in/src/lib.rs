//! PBG's `OUTSIDE_IN` bucket order: layers of the grid, from the first row and column inwards.
//!
//! Source: Lerer et al., "PyTorch-BigGraph: A Large-scale Graph Embedding System" (2019), and
//! the order of that name in its implementation: `inside_out` with its layers reversed.
//!
//! Layer `i` holds the buckets with `min(lhs, rhs) = i`, for `i` from 0 to `min(L, R) - 1`: the
//! corner `(i, i)` and, for every `j > i`, the pair `(j, i)`, `(i, j)`. The order of pairs and the
//! order within each pair are random. Partition `i` stays loaded throughout its layer, so with a
//! buffer of two about one partition is loaded per pair.

use pbg_plugin_sdk::{Bucket, Metadata, Order, Pass, Result, export_order};

/// The order; it has no parameters.
#[derive(Clone, Copy, Debug, Default)]
pub struct OutsideIn;

impl Order for OutsideIn {
    fn metadata() -> Metadata {
        Metadata::new(
            "outside_in",
            env!("CARGO_PKG_VERSION"),
            "Layers of the grid, from its first row and column inwards.",
        )
    }

    fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>> {
        Ok(pbg_order_plans::grid::outside_in(pass))
    }
}

export_order!(OutsideIn);

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_plugin_sdk::testing;
    use proptest::prelude::*;

    #[test]
    fn keeps_the_contract() {
        testing::assert_order::<OutsideIn>();
    }

    #[test]
    fn seeds_give_different_plans() {
        let plans: std::collections::BTreeSet<_> = (0..50)
            .map(|seed| testing::assert_plan::<OutsideIn>(&Pass::uniform(4, 4, seed)))
            .collect();
        assert_eq!(plans.len(), 50);
    }

    proptest! {
        #[test]
        fn plans_are_permutations(lhs in 1_u32..12, rhs in 1_u32..12, seed: u64) {
            testing::assert_plan::<OutsideIn>(&Pass::uniform(lhs, rhs, seed));
        }

        #[test]
        fn layers_come_from_the_outside(lhs in 1_u32..9, rhs in 1_u32..9, seed: u64) {
            let plan = testing::assert_plan::<OutsideIn>(&Pass::uniform(lhs, rhs, seed));
            let layers = plan.iter().map(|b| b.lhs.min(b.rhs));
            prop_assert!(layers.is_sorted());
        }

        #[test]
        fn a_mirrored_bucket_is_a_neighbour(size in 1_u32..9, seed: u64) {
            let plan = testing::assert_plan::<OutsideIn>(&Pass::uniform(size, size, seed));
            for (position, &bucket) in plan.iter().enumerate().filter(|(_, b)| b.lhs != b.rhs) {
                let mirror = plan.iter().position(|&b| b == bucket.transposed());
                prop_assert_eq!(mirror.map(|m| m.abs_diff(position)), Some(1));
            }
        }
    }
}
