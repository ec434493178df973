//! Random order with mirrored buckets together.
//!
//! Source: `RandomSymmetric` of Marius (branch `osdi2021`). Go through the grid in random order; for
//! each bucket `(i, j)` that is not yet planned, train those of `(i, j)`, `(j, i)`, `(i, i)`, `(j, j)`
//! that are not yet planned. Two partitions then serve up to four buckets, which halves the loads of
//! `random` and keeps much of its mixing. If the sides are not shared, mirrored buckets share no
//! partition, and the order is that of `random`.

use pbg_plugin_sdk::{Bucket, Metadata, Order, Pass, Result, export_order};

/// The order; it has no parameters.
#[derive(Clone, Copy, Debug, Default)]
pub struct RandomSymmetric;

impl Order for RandomSymmetric {
    fn metadata() -> Metadata {
        Metadata::new(
            "random_symmetric",
            env!("CARGO_PKG_VERSION"),
            "Buckets in random order, each with its mirror and the diagonal of both its partitions.",
        )
    }

    fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>> {
        Ok(pbg_order_plans::grid::random_symmetric(pass))
    }
}

export_order!(RandomSymmetric);

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_plugin_sdk::testing;

    #[test]
    fn keeps_the_contract() {
        testing::assert_order::<RandomSymmetric>();
    }

    #[test]
    fn a_mirrored_bucket_follows_and_seeds_differ() {
        let plans: std::collections::BTreeSet<_> = (0..50)
            .map(|seed| testing::assert_plan::<RandomSymmetric>(&Pass::uniform(5, 5, seed)))
            .collect();
        assert_eq!(plans.len(), 50);
        for plan in plans {
            let at = |bucket| plan.iter().position(|&b| b == bucket);
            for &bucket in plan.iter().filter(|b| b.lhs != b.rhs) {
                let distance = at(bucket)
                    .zip(at(bucket.transposed()))
                    .map(|(a, b)| a.abs_diff(b));
                assert_eq!(distance, Some(1));
            }
        }
    }
}
