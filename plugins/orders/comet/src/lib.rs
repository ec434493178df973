//! COMET: BETA over random groups of partitions.
//!
//! Source: Waleffe et al., "MariusGNN: Resource-Efficient Out-of-Core Training of Graph Neural
//! Networks" (EuroSys 2023), section 5.1. It differs from `beta` in three ways:
//!
//! * Groups of `r = fine_to_coarse_ratio` physical partitions are loaded together. The groups are
//!   drawn again in each pass, so that different partitions meet.
//! * The groups follow BETA with room for `c / r` groups, so it makes `r` times the swaps of BETA
//!   with `p / r` partitions in a buffer of `c / r`.
//! * A bucket is trained in a random one of the states that hold both of its partitions, so that
//!   each load is followed by about the same work.
//!
//! The published settings of its authors have `c / r = 2`, which is the default here. It swaps more
//! than `beta` and mixes more. If `r` does not divide the number of partitions, group sizes differ by
//! one.

use pbg_plugin_sdk::{Bucket, Metadata, Order, Parameter, Parameters, Pass, Result, export_order};
use serde::Deserialize;

/// The order.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct Comet {
    fine_to_coarse_ratio: usize,
}

impl Order for Comet {
    fn metadata() -> Metadata {
        Metadata::new(
            "comet",
            env!("CARGO_PKG_VERSION"),
            "MariusGNN's two-level order: BETA over random groups, buckets at random states.",
        )
        .parameter(Parameter::integer(
            "fine_to_coarse_ratio",
            0,
            0..=1 << 20,
            "Partitions per group; at most half the buffer. 0 means half the buffer.",
        ))
    }

    fn configure(&mut self, parameters: &Parameters) -> Result<()> {
        *self = parameters.parse()?;
        Ok(())
    }

    fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>> {
        Ok(pbg_order_plans::comet::plan(
            pass,
            self.fine_to_coarse_ratio,
        ))
    }
}

export_order!(Comet);

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_plugin_sdk::testing;

    #[test]
    fn keeps_the_contract() {
        testing::assert_order::<Comet>();
    }

    #[test]
    fn swaps_are_beta_s_times_the_ratio() {
        // BETA makes 27 swaps of 8 groups in a buffer of 2.
        for (p, c) in [(64, 16), (32, 8), (16, 4)] {
            let mut pass = Pass::uniform(p, p, 5);
            pass.buffer_partitions = c;
            let plan = testing::assert_plan::<Comet>(&pass);
            assert_eq!(
                pass.traffic(&plan).swaps,
                u64::from(27 * c / 2),
                "p={p} c={c}"
            );
        }
    }

    #[test]
    fn a_ratio_of_one_is_beta_and_one_beyond_the_buffer_is_cut() {
        let swaps = |ratio: usize| {
            let mut pass = Pass::uniform(16, 16, 5);
            pass.buffer_partitions = 8;
            let mut order = Comet {
                fine_to_coarse_ratio: ratio,
            };
            pass.traffic(&order.plan(&pass).expect("it plans")).swaps
        };
        assert_eq!(swaps(1), 17);
        assert_eq!(swaps(99), swaps(4));
    }
}
