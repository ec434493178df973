//! Order that searches for the plan that reads the fewest bytes.
//!
//! It searches for the sequence of loads in which all partitions with edges between them meet and
//! which reads the fewest bytes. Partitions may differ in size, buckets without edges need no loads,
//! the two sides may be different entity types, and resident partitions cost nothing. It takes the
//! best of BETA, compositions of the best known sequences, and random greedy searches. Small grids
//! are then searched exactly, others improved by simulated annealing ([`pbg_order_search`]).
//!
//! It never reads more than `beta` with the same seed. On complete grids of equal partitions it makes
//! the swaps listed in the table of records in `docs/orders.md`, for instance 8 at `p = 8, c = 4`
//! (`beta`: 9), 32 at `(12, 3)` (34), 16 at `(16, 8)` (17).
//!
//! The search counts its steps, since a plugin has no clock: `effort` 1 is about a million steps. The
//! default stays well below the deadline of a call on a slow machine.

use pbg_plugin_sdk::{
    Bucket, Metadata, Order, Parameter, Parameters, Pass, Result, export_order, states,
};
use serde::Deserialize;

/// The order.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct Optimal {
    effort: u64,
}

impl Order for Optimal {
    fn metadata() -> Metadata {
        Metadata::new(
            "optimal",
            env!("CARGO_PKG_VERSION"),
            "Searches for the fewest bytes read: best known sequences, exact and local search.",
        )
        .parameter(Parameter::integer(
            "effort",
            10,
            0..=1_000_000,
            "Work of the search in millions of steps; beyond some hundreds, raise \
             plugins.limits.deadline_ms too.",
        ))
    }

    fn configure(&mut self, parameters: &Parameters) -> Result<()> {
        *self = parameters.parse()?;
        Ok(())
    }

    fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>> {
        let found = pbg_order_search::search(pass, self.effort, &mut pass.rng());
        Ok(states::assign_to_first(pass, &found.states))
    }
}

export_order!(Optimal);

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_plugin_sdk::testing;

    #[test]
    fn keeps_the_contract() {
        testing::assert_order::<Optimal>();
    }

    #[test]
    fn large_partitions_are_loaded_seldom() {
        let mut pass = Pass::uniform(8, 8, 1);
        pass.buffer_partitions = 4;
        for p in [2, 5] {
            pass.lhs_bytes[p] *= 10;
            pass.rhs_bytes[p] *= 10;
        }
        let plan = testing::assert_plan::<Optimal>(&pass);
        // Each large partition is loaded once, and small ones are not loaded more often than without large ones.
        let mut large = 0;
        pass.replay(&plan, |_, loaded, _| {
            large += u32::from(loaded == 2 || loaded == 5)
        });
        assert_eq!(large, 2);
        assert!(pass.traffic(&plan).bytes >> 20 <= 20 + 12);
    }

    #[test]
    fn only_pairs_with_edges_meet() {
        // A ring: each partition has edges to itself and the next one.
        let mut pass = Pass::uniform(12, 12, 1);
        pass.buffer_partitions = 3;
        for bucket in pass.grid() {
            if (bucket.lhs + 1) % 12 != bucket.rhs && bucket.lhs != bucket.rhs {
                let index = pass.index(bucket);
                pass.edges[index] = 0;
            }
        }
        let plan = testing::assert_plan::<Optimal>(&pass);
        assert_eq!(pass.traffic(&plan).loads, 12);
    }
}
