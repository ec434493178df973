//! PBG's first order: a chain of mirrored pairs, the diagonal last.
//!
//! Source: the order of that name in the first releases of PyTorch-BigGraph (Lerer et al., 2019),
//! which was replaced by `affinity`. Shuffle the pairs of two partitions, take the last pair, then
//! always the first pair of the shuffled list that shares a partition with the previous one, or the
//! last remaining pair if there is none. A pair `{a, b}` is two buckets, `(a, b)` and `(b, a)`. All
//! buckets `(a, a)` follow at the end, where each may load its partition once more.
//!
//! The original searches the list at each step, `O(P⁴)`; a list per partition makes it `O(P²)`.
//! If the sides are not shared, each bucket is a pair of its own.

use pbg_plugin_sdk::{Bucket, Metadata, Order, Pass, Result, export_order};

/// The order; it has no parameters.
#[derive(Clone, Copy, Debug, Default)]
pub struct ChainedSymmetricPairs;

impl Order for ChainedSymmetricPairs {
    fn metadata() -> Metadata {
        Metadata::new(
            "chained_symmetric_pairs",
            env!("CARGO_PKG_VERSION"),
            "A chain of mirrored pairs, each of which shares a partition with the last; the diagonal comes last.",
        )
    }

    fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>> {
        Ok(pbg_order_plans::chained_symmetric_pairs::plan(pass))
    }
}

export_order!(ChainedSymmetricPairs);

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_plugin_sdk::testing;

    #[test]
    fn keeps_the_contract() {
        testing::assert_order::<ChainedSymmetricPairs>();
    }

    #[test]
    fn mirrored_buckets_are_neighbours_and_the_diagonal_comes_last() {
        let plan = testing::assert_plan::<ChainedSymmetricPairs>(&Pass::uniform(6, 6, 4));
        assert!(plan[30..].iter().all(|b| b.lhs == b.rhs));
        for pair in plan[..30].chunks(2) {
            assert_eq!(pair[0].transposed(), pair[1]);
        }
    }
}
