//! PBG's `RANDOM` bucket order: a uniform shuffle of the `lhs x rhs` grid.
//!
//! Source: Lerer et al., "PyTorch-BigGraph: A Large-scale Graph Embedding System" (2019),
//! section 4.1. Successive buckets rarely share a partition, so with a buffer of two most buckets
//! load both: about `2 · (1 - 1/P)` loads per bucket on a `P x P` grid. In return the order of the
//! edges of an epoch has the least bias.

use pbg_plugin_sdk::{Bucket, Metadata, Order, Pass, Result, export_order};

/// The order; it has no parameters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Random;

impl Order for Random {
    fn metadata() -> Metadata {
        Metadata::new(
            "random",
            env!("CARGO_PKG_VERSION"),
            "Buckets in uniformly random order.",
        )
    }

    fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>> {
        Ok(pbg_order_plans::grid::random(pass))
    }
}

export_order!(Random);

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_plugin_sdk::testing;
    use proptest::prelude::*;

    #[test]
    fn keeps_the_contract() {
        testing::assert_order::<Random>();
    }

    #[test]
    fn seeds_give_different_plans() {
        let plans: std::collections::BTreeSet<_> = (0..50)
            .map(|seed| testing::assert_plan::<Random>(&Pass::uniform(4, 4, seed)))
            .collect();
        assert_eq!(plans.len(), 50);
    }

    proptest! {
        #[test]
        fn plans_are_permutations(lhs in 1_u32..12, rhs in 1_u32..12, seed: u64) {
            testing::assert_plan::<Random>(&Pass::uniform(lhs, rhs, seed));
        }
    }
}
