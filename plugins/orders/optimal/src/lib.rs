//! Order that searches for the plan that reads the fewest bytes.
//!
//! It searches for the sequence of loads in which all partitions with edges between them meet and
//! which reads the fewest bytes. Partitions may differ in size, buckets without edges need no loads,
//! the two sides may be different entity types, and resident partitions cost nothing. It takes the
//! best of BETA, compositions of the best known sequences, and random greedy searches. Small grids
//! are then searched exactly, others improved by simulated annealing ([`pbg_order_search`]).
//!
//! Unless that is proven to be the best, it then makes the plans of all other standard orders with the
//! same seed, takes the one that reads the fewest bytes, and improves it by simulated annealing
//! ([`pbg_order_search::best_plan`]). So on grids of up to [`COMPARED`] buckets it never reads more
//! than any of them with its default parameters. On grids of up to [`VARIED`] buckets it also makes the
//! plans with other parameters ([`VARIANTS`]) and those of `overlap` for other rates ([`RATES`]). On
//! complete grids of equal partitions it makes the swaps listed in the table of records in `docs/orders.md`, for instance 8 at `p = 8, c = 4`
//! (`beta`: 9), 32 at `(12, 3)` (34), 16 at `(16, 8)` (17).
//!
//! The search counts its steps, since a plugin has no clock: `effort` 1 is about a million steps. The
//! default stays well below the deadline of a call on a slow machine.

use pbg_order_plans::overlap::{self, clock::Rates};
use pbg_order_plans::{PLANS, VARIANTS};
use pbg_order_search::Found;
use pbg_plugin_sdk::{Bucket, Metadata, Order, Parameter, Parameters, Pass, Result, export_order};
use serde::Deserialize;

/// Number of buckets of a grid above which the plans of other orders are not made, since they take too long.
pub const COMPARED: usize = 1 << 16;

/// The same for plans with other parameters, and those of `overlap` for other rates than the first of [`RATES`].
pub const VARIED: usize = 1 << 12;

/// Edges per second for which the plans of `overlap` are made: its default, and much slower and faster training.
pub const RATES: [f64; 3] = [4e5, 1e3, 1e7];

/// Returns those of [`RATES`] for which the plans of `overlap` are made on a grid of so many buckets.
fn rates(buckets: usize) -> impl Iterator<Item = Rates> {
    let count = if buckets <= VARIED { RATES.len() } else { 1 };
    RATES.into_iter().take(count).map(|edges_per_second| Rates {
        edges_per_second,
        ..Rates::default()
    })
}

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
        let mut rng = pass.rng();
        let found = pbg_order_search::search(pass, self.effort, &mut rng);
        let others = others(pass, &found);
        Ok(pbg_order_search::best_plan(
            pass,
            &found,
            others,
            self.effort,
            &mut rng,
        ))
    }
}

/// Returns the plans of the other standard orders, of which `overlap` would use `found` as well.
fn others(pass: &Pass, found: &Found) -> impl Iterator<Item = Vec<Bucket>> {
    let buckets = pass.edges.len();
    let up_to = |limit| if buckets <= limit { usize::MAX } else { 0 };
    let plans = PLANS.iter().map(|(_, plan)| plan(pass));
    let varied = VARIANTS.iter().map(|(_, plan)| plan(pass));
    let distributed =
        rates(buckets).flat_map(|rates| overlap::candidates(pass, found.states.clone(), rates));
    plans
        .take(up_to(COMPARED))
        .chain(varied.take(up_to(VARIED)))
        .chain(distributed.take(up_to(COMPARED)))
}

export_order!(Optimal);

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_plugin_sdk::{Rng, Side, testing};
    use proptest::prelude::*;

    /// Generates grids of one and two entity types, with partitions of all sizes, empty buckets and resident partitions.
    fn any_pass() -> impl Strategy<Value = Pass> {
        let side = prop_oneof![1_u32..6, 1_u32..18];
        let kinds = prop_oneof![Just(1_u64), 2_u64..5];
        let sizes = (side.clone(), side, any::<bool>(), 2_u32..9, any::<u64>());
        (sizes, kinds.clone(), kinds, any::<bool>()).prop_map(
            |((lhs, rhs, shared, buffer, seed), edges, bytes, resident)| {
                let mut pass = Pass::uniform(lhs, if shared { lhs } else { rhs }, seed);
                (pass.shared, pass.buffer_partitions) = (shared, buffer);
                let mut rng = Rng::new(!seed);
                let full = u64::from(edges == 1);
                let mut fill = |sizes: &mut Vec<u64>, kinds: u64, scale: u64, least: u64| {
                    sizes
                        .iter_mut()
                        .for_each(|size| *size = (rng.below(kinds) + least) * scale);
                };
                fill(&mut pass.edges, edges, 100_000, full);
                fill(&mut pass.lhs_bytes, bytes, 16 << 20, 1);
                fill(&mut pass.rhs_bytes, bytes, 48 << 20, 1);
                if shared {
                    pass.rhs_bytes = pass.lhs_bytes.clone();
                }
                if resident {
                    let first = 0..buffer.min(lhs);
                    pass.resident = first.map(|p| (Side::Lhs, p)).collect();
                }
                pass
            },
        )
    }

    /// Generates grids of more than [`VARIED`] and at most [`COMPARED`] buckets, whose edges and bytes are skewed.
    fn any_large_pass() -> impl Strategy<Value = Pass> {
        let sides = (66_u32..256, 66_u32..256, any::<bool>());
        let exponent = prop_oneof![Just(0), 1_i32..3];
        let numbers = (2_u32..12, any::<u64>());
        (sides, numbers, exponent.clone(), exponent).prop_map(
            |((lhs, rhs, shared), (buffer, seed), edges, bytes)| {
                let mut pass = Pass::uniform(lhs, if shared { lhs } else { rhs }, seed);
                (pass.shared, pass.buffer_partitions) = (shared, buffer);
                skew(&mut pass, edges, bytes);
                pass
            },
        )
    }

    /// Gives each bucket edges in proportion to `l^-edges r^-edges` and each partition bytes in proportion to `k^-bytes`,
    /// as `orders compare` does with `--skew` and `--entity-skew`.
    fn skew(pass: &mut Pass, edges: i32, bytes: i32) {
        let share = |place: usize, exponent: i32| ((place + 1) as f64).powi(-exponent);
        for bucket in pass.grid() {
            let index = pass.index(bucket);
            let [left, right] =
                [bucket.lhs, bucket.rhs].map(|partition| share(partition as usize, edges));
            pass.edges[index] = (3e8 * left * right) as u64;
        }
        for sizes in [&mut pass.lhs_bytes, &mut pass.rhs_bytes] {
            for (place, size) in sizes.iter_mut().enumerate() {
                *size = 400 + (1e10 * share(place, bytes)) as u64;
            }
        }
    }

    /// Number of grids for the properties below, of small and of large ones.
    fn grids() -> [u32; 2] {
        let long = std::env::var_os("PBG_TEST_LONG").is_some();
        if long { [2000, 60] } else { [150, 6] }
    }

    /// Ensures that no other order reads fewer bytes on a grid, with its default parameters or the others that are
    /// compared on grids of its size.
    fn assert_fewest_bytes(pass: &Pass) {
        let bytes = |plan: Vec<Bucket>| pass.traffic(&plan).bytes;
        let mut order: Optimal = testing::with_defaults();
        let ours = bytes(order.plan(pass).expect("it plans"));
        let is_small = pass.edges.len() <= VARIED;
        let variants = VARIANTS.into_iter().filter(|_| is_small);
        for (name, plan) in PLANS.into_iter().chain(variants) {
            assert!(
                ours <= bytes(plan(pass)),
                "{name} reads less than {ours} bytes"
            );
        }
        for rates in rates(pass.edges.len()) {
            let overlap = bytes(overlap::plan(pass, &rates, order.effort));
            assert!(
                ours <= overlap,
                "overlap reads {overlap} bytes at {} edges/s, less than {ours}",
                rates.edges_per_second
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(grids()[0]))]

        #[test]
        fn it_never_reads_more_than_another_order(pass in any_pass()) {
            assert_fewest_bytes(&pass);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(grids()[1]))]

        #[test]
        fn it_never_reads_more_than_another_order_on_large_grids(pass in any_large_pass()) {
            assert_fewest_bytes(&pass);
        }
    }

    /// Grids on which spreading buckets over the loads, as `overlap` does, reads less than the first possible states.
    #[test]
    fn what_overlap_finds_on_large_grids_is_tried() {
        for (lhs, rhs, buffer, edges, bytes) in
            [(153, 78, 4, 2, 2), (180, 174, 10, 0, 2), (242, 65, 8, 2, 2)]
        {
            let mut pass = Pass::uniform(lhs, rhs, 0);
            (pass.shared, pass.buffer_partitions) = (false, buffer);
            skew(&mut pass, edges, bytes);
            assert_fewest_bytes(&pass);
        }
    }

    /// The case of 16 and 4 partitions of two entity types: two of the four stay at a time.
    #[test]
    fn two_entity_types_read_less_than_any_other_order_did() {
        let mut pass = Pass::uniform(16, 4, 0);
        pass.shared = false;
        pass.buffer_partitions = 4;
        pass.rhs_bytes = vec![4 << 20; 4];
        let plan = testing::assert_plan::<Optimal>(&pass);
        // 4 loads of 4 MiB, and 16 + 14 of 1 MiB.
        assert_eq!(pass.traffic(&plan).bytes >> 20, 46);
    }

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
