//! Stratified order of Dist-KGE: rounds of buckets that share no partition.
//!
//! Source: Kochsiek and Gemulla, "Parallel Training of Knowledge Graph Embedding Models: A
//! Comparison of Techniques" (VLDB 2021), section 4.3. The grid of `n = 2^k` partitions is divided into
//! quadrants. Each off-diagonal quadrant is trained in `n / 2` rounds; a round is a cyclic shift of a
//! random permutation matrix, so `n / 2` trainers can share it without conflict. Then both diagonal
//! quadrants are treated in the same way, in parallel. With `combine_mirrored` a bucket is followed by
//! its mirror, which needs the same two partitions.
//!
//! Partitions are renumbered at random in each pass. If their number is not a power of two, partitions
//! without buckets are added. If the sides are not shared, the whole grid is one off-diagonal
//! quadrant.
//!
//! The order is meant for as many trainers as a round has buckets. A single trainer with a small
//! buffer loads two partitions for almost every pair of buckets.

use pbg_plugin_sdk::{Bucket, Metadata, Order, Parameter, Parameters, Pass, Result, export_order};
use serde::Deserialize;

/// The order.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct Stratified {
    combine_mirrored: bool,
}

impl Order for Stratified {
    fn metadata() -> Metadata {
        Metadata::new(
            "stratified",
            env!("CARGO_PKG_VERSION"),
            "Dist-KGE's rounds of buckets that share no partition, for several trainers.",
        )
        .parameter(Parameter::boolean(
            "combine_mirrored",
            true,
            "Whether a bucket is followed by its mirror, which needs the same partitions.",
        ))
    }

    fn configure(&mut self, parameters: &Parameters) -> Result<()> {
        *self = parameters.parse()?;
        Ok(())
    }

    fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>> {
        Ok(pbg_order_plans::stratified::plan(
            pass,
            self.combine_mirrored,
        ))
    }
}

export_order!(Stratified);

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_plugin_sdk::testing;

    #[test]
    fn keeps_the_contract() {
        testing::assert_order::<Stratified>();
    }

    /// Asserts that in each section of `length` buckets of the plan no two buckets share a partition.
    fn assert_conflict_free(plan: &[Bucket], length: usize) {
        for round in plan.chunks(length) {
            let mut ends: Vec<u32> = round.iter().flat_map(|b| [b.lhs, b.rhs]).collect();
            ends.sort_unstable();
            ends.dedup();
            let diagonal = round.iter().filter(|b| b.lhs == b.rhs).count();
            assert_eq!(ends.len() + diagonal, 2 * length, "{round:?}");
        }
    }

    #[test]
    fn rounds_share_no_partition() {
        let mut order = Stratified {
            combine_mirrored: false,
        };
        let plan = order.plan(&Pass::uniform(16, 16, 3)).expect("it plans");
        assert_conflict_free(&plan, 8);
    }

    #[test]
    fn mirrored_buckets_are_neighbours() {
        let plan = testing::assert_plan::<Stratified>(&Pass::uniform(16, 16, 3));
        let (pairs, diagonal) = plan.split_at(240);
        for pair in pairs.chunks(2) {
            assert_eq!(pair[0], pair[1].transposed());
        }
        let firsts: Vec<Bucket> = pairs.iter().step_by(2).copied().collect();
        assert_conflict_free(&firsts, 8);
        assert!(diagonal.iter().all(|b| b.lhs == b.rhs));
    }
}
