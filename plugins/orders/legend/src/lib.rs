//! Order for reading ahead: the evicted partition is not in use while its successor is read.
//!
//! Source: the schedule released with Legend (arXiv 2505.09258), for 12 partitions and a buffer of
//! 3, and its idea; the general form is ours. In a buffer of `c`, `c - 2` slots hold pivots. The other
//! two alternate: each load replaces the partition that was loaded earlier of these two. So a new
//! partition meets the pivots and the previously loaded one, `c - 1` partitions as in `beta`. While it
//! is read, the buckets between the previously loaded partition and the pivots are trained. None of
//! them needs the partition that is being replaced, so reading ahead takes no spare slot. A pivot that
//! has met every partition is replaced itself, and the older of the other two becomes a pivot.
//!
//! Each load takes the partition with the most unmet partitions in the buffer, on a tie one that has
//! not met the newest; among several sequences with random ties, the one with the fewest loads is
//! taken. It makes fewer swaps than `beta` in small grids and at most a tenth more in large ones (32
//! for 12 partitions and a buffer of 3, the least possible; the source has 34). With a buffer of two
//! there are no pivots, and only the diagonal bucket of the previously loaded partition can be trained
//! meanwhile.

use pbg_plugin_sdk::{Bucket, Metadata, Order, Pass, Result, export_order};

/// The order; it has no parameters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Legend;

impl Order for Legend {
    fn metadata() -> Metadata {
        Metadata::new(
            "legend",
            env!("CARGO_PKG_VERSION"),
            "A prefetch-friendly order: the evicted partition is not in use while its successor is read.",
        )
    }

    fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>> {
        Ok(pbg_order_plans::legend::plan(pass))
    }
}

export_order!(Legend);

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_plugin_sdk::testing;

    #[test]
    fn keeps_the_contract() {
        testing::assert_order::<Legend>();
    }

    fn planned(p: u32, c: u32) -> (Pass, Vec<Bucket>) {
        let mut pass = Pass::uniform(p, p, 1);
        pass.buffer_partitions = c;
        let plan = testing::assert_plan::<Legend>(&pass);
        (pass, plan)
    }

    #[test]
    fn it_swaps_about_as_much_as_beta() {
        for (p, c, beta) in [
            (12, 3, 34),
            (16, 4, 42),
            (32, 8, 78),
            (32, 4, 173),
            (64, 8, 308),
        ] {
            let (pass, plan) = planned(p, c);
            let swaps = pass.traffic(&plan).swaps;
            assert!(swaps * 10 <= beta * 11, "p={p} c={c}: {swaps}, beta {beta}");
        }
    }

    #[test]
    fn what_is_evicted_is_seldom_in_use_in_the_bucket_before() {
        for (p, c) in [(12, 3), (16, 4), (32, 8), (64, 8)] {
            let (pass, plan) = planned(p, c);
            let (mut swaps, mut free) = (0, 0);
            pass.replay(&plan, |at, _, evicted| {
                if let Some(evicted) = evicted {
                    swaps += 1;
                    free += u32::from(pass.needs(plan[at - 1]).all(|p| p != evicted));
                }
            });
            assert!(free * 10 >= swaps * 9, "p={p} c={c}: {free} of {swaps}");
        }
    }
}
