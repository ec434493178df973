//! Properties of every order on every grid.

use pbg_order_plans::overlap::clock::{self, Rates};
use pbg_order_tests::cost;
use pbg_plugin_sdk::{Bucket, Order, Pass, Rng, Side, testing};
use proptest::prelude::*;

use crate::{complete, lower_bound};

type Plan = fn(&Pass) -> Vec<Bucket>;

/// Returns all standard orders.
fn orders() -> Vec<(&'static str, Plan)> {
    vec![
        ("affinity", planned::<affinity::Affinity>),
        ("beta", planned::<beta::Beta>),
        (
            "chained_symmetric_pairs",
            planned::<chained_symmetric_pairs::ChainedSymmetricPairs>,
        ),
        ("comet", planned::<comet::Comet>),
        ("cover", planned::<cover::Cover>),
        ("hilbert", planned::<hilbert::Hilbert>),
        (
            "hilbert_symmetric",
            planned::<hilbert_symmetric::HilbertSymmetric>,
        ),
        ("inside_out", planned::<inside_out::InsideOut>),
        ("legend", planned::<legend::Legend>),
        ("lexicographic", planned::<lexicographic::Lexicographic>),
        ("optimal", planned::<optimal::Optimal>),
        ("outside_in", planned::<outside_in::OutsideIn>),
        ("overlap", planned::<overlap::Overlap>),
        ("random", planned::<random::Random>),
        (
            "random_symmetric",
            planned::<random_symmetric::RandomSymmetric>,
        ),
        ("snake", planned::<snake::Snake>),
        ("stratified", planned::<stratified::Stratified>),
    ]
}

fn planned<O: Order>(pass: &Pass) -> Vec<Bucket> {
    let mut order: O = testing::with_defaults();
    order.plan(pass).expect("it plans")
}

/// Generates grids of all shapes, with partitions of all sizes, empty buckets and resident partitions.
fn any_pass() -> impl Strategy<Value = Pass> {
    let side = prop_oneof![Just(1_u32), 1_u32..20];
    let sizes = (
        side.clone(),
        side,
        any::<bool>(),
        2_u32..9,
        any::<u64>(),
        1_u64..4,
    );
    sizes.prop_map(|(lhs, rhs, square, buffer, seed, kinds)| {
        let mut pass = Pass::uniform(lhs, if square { lhs } else { rhs }, seed);
        pass.shared = square;
        pass.buffer_partitions = buffer;
        let mut rng = Rng::new(!seed);
        pass.edges
            .iter_mut()
            .for_each(|e| *e = rng.below(kinds) * 100);
        pass.lhs_bytes
            .iter_mut()
            .for_each(|b| *b = rng.below(5) << 20);
        pass.rhs_bytes
            .iter_mut()
            .for_each(|b| *b = rng.below(5) << 20);
        if square {
            pass.rhs_bytes = pass.lhs_bytes.clone();
        }
        let loaded = (0..pass.lhs_partitions).filter(|&p| pass.lhs_bytes[p as usize] > 0);
        pass.resident = loaded
            .take(rng.below(u64::from(buffer)) as usize)
            .map(|p| (Side::Lhs, p))
            .collect();
        pass
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn plans_are_permutations_and_depend_on_the_pass_alone(pass in any_pass()) {
        for (name, plan) in orders() {
            let first = plan(&pass);
            let host = cost(&pass, &first);
            prop_assert!(first == plan(&pass), "{name} is not deterministic");
            let own = pass.traffic(&first);
            prop_assert_eq!(
                (own.loads, own.swaps, own.bytes),
                (host.loads, host.swaps, host.bytes),
                "{} by the SDK's count", name
            );
        }
    }

    #[test]
    fn no_order_beats_the_lower_bound(p in 2_u32..20, c in 2_u32..9, seed: u64) {
        for (name, plan) in orders() {
            let pass = complete(p, c, seed);
            let swaps = cost(&pass, &plan(&pass)).swaps;
            prop_assert!(swaps >= lower_bound(p, c), "{name}: {swaps}");
        }
    }

    #[test]
    fn ours_are_no_worse_than_beta(pass in any_pass()) {
        let of = |name: &str| {
            let order = orders().into_iter().find(|&(n, _)| n == name);
            order.map(|(_, plan)| plan(&pass)).expect("a standard order")
        };
        let (beta, optimal, overlap) = (of("beta"), of("optimal"), of("overlap"));
        prop_assert!(cost(&pass, &optimal).bytes <= cost(&pass, &beta).bytes);
        let rates = Rates::default();
        let stall = |plan: &[Bucket]| clock::stall(&pass, plan, &rates);
        prop_assert!(stall(&overlap) <= stall(&beta));
    }
}

#[test]
fn grids_of_one_row_or_column_load_each_partition_once() {
    for (lhs, rhs) in [(1, 40), (40, 1), (1, 1)] {
        for c in [2, 3, 7] {
            let mut pass = Pass::uniform(lhs, rhs, 1);
            pass.shared = false;
            pass.buffer_partitions = c;
            for (name, plan) in orders() {
                let loads = cost(&pass, &plan(&pass)).loads;
                assert_eq!(
                    loads,
                    u64::from(lhs + rhs),
                    "{name} on {lhs} x {rhs}, c={c}"
                );
            }
        }
    }
}
