//! Compares results with formulas, bounds and an independent check of the pairs that meet.

use pbg_plugin_sdk::{Pass, Side, states};
use proptest::prelude::*;

use super::*;

fn uniform(p: u32, c: u32, seed: u64) -> Pass {
    let mut pass = Pass::uniform(p, p, seed);
    pass.buffer_partitions = c;
    pass
}

fn beta(p: u64, c: u64) -> u64 {
    let x = (p - c) / (c - 1);
    (p - c) + (x + 1) * (p - c) - x * (x + 1) * (c - 1) / 2
}

fn lower_bound(p: u64, c: u64) -> u64 {
    ((p * (p - 1) - c * (c - 1)) / 2).div_ceil(c - 1)
}

/// Asserts that the states fit the buffer, that all necessary pairs meet, and that the bytes are those of the plan.
fn assert_answer(pass: &Pass, found: &Found) {
    for bucket in pass.grid() {
        let needs: Vec<usize> = pass.needs(bucket).collect();
        let trained = found
            .states
            .iter()
            .any(|s| needs.iter().all(|p| s.contains(p)));
        assert!(trained, "{bucket:?} of {pass:?}");
    }
    assert!(
        found
            .states
            .iter()
            .all(|s| s.len() <= pass.buffer_partitions as usize)
    );
    let plan = states::assign_to_first(pass, &found.states);
    assert_eq!(pass.traffic(&plan).bytes, found.bytes);
}

/// Large grids are compared by their states alone, which is no less than what the plan reads.
#[test]
fn bytes_of_states_are_those_of_the_plan_at_least() {
    for (p, c) in [(16, 4), (40, 7), (362, 8), (363, 8)] {
        let pass = uniform(p, c, 5);
        let found = search(&pass, 10, &mut pass.rng());
        let replayed = pass.traffic(&states::assign_to_first(&pass, &found.states));
        assert_eq!(added_bytes(&pass, &found.states), replayed.bytes, "p={p}");
        assert_eq!(found.bytes, replayed.bytes, "p={p}");
        let known = known_swaps(p as usize, c as usize) + u64::from(c);
        assert_eq!(found.bytes >> 20, known, "p={p}");
    }
}

#[test]
fn known_sequences_are_never_worse_than_beta_nor_better_than_possible() {
    for c in 2..=40 {
        for p in c + 1..=128 {
            let known = known_swaps(p, c);
            assert!(known <= beta(p as u64, c as u64), "p={p} c={c}");
            assert!(known >= lower_bound(p as u64, c as u64), "p={p} c={c}");
        }
    }
}

#[test]
fn the_best_published_values_are_reached_or_beaten() {
    for (p, c, best) in [
        (5, 3, 4),
        (6, 3, 6),
        (7, 3, 9),
        (8, 3, 13),
        (9, 3, 17),
        (10, 3, 21),
        (12, 3, 32),
        (6, 4, 4),
        (7, 4, 6),
        (8, 4, 8),
        (9, 4, 11),
        (10, 4, 14),
        (12, 4, 21),
        (16, 4, 42),
        (8, 5, 6),
        (10, 5, 10),
        (12, 6, 12),
        (16, 8, 16),
        (20, 5, 51),
        (32, 8, 78),
    ] {
        let pass = uniform(p, c, 1);
        let found = search(&pass, 1, &mut pass.rng());
        assert_answer(&pass, &found);
        let swaps = (found.bytes >> 20) - u64::from(c);
        assert!(swaps <= best, "p={p} c={c}: {swaps}, published {best}");
        assert!(
            swaps <= known_swaps(p as usize, c as usize),
            "p={p} c={c}: {swaps}"
        );
    }
}

#[test]
fn what_is_resident_is_not_loaded() {
    let mut pass = uniform(16, 4, 3);
    pass.resident = [3, 9, 11, 2].map(|p| (Side::Lhs, p)).to_vec();
    let found = search(&pass, 1, &mut pass.rng());
    assert_answer(&pass, &found);
    assert_eq!(found.bytes >> 20, known_swaps(16, 4));
}

#[test]
fn a_small_search_is_exact() {
    // Optimal after the first fill: 6 swaps at (6, 3), 4 at (6, 4).
    for (p, c, swaps) in [(5, 3, 4), (6, 3, 6), (6, 4, 4)] {
        let pass = uniform(p, c, 1);
        let found = search(&pass, 300, &mut pass.rng());
        assert!(found.proven, "p={p} c={c}");
        assert_eq!(found.bytes >> 20, swaps + u64::from(c));
    }
}

/// Generates a pass with random shape, sizes, empty buckets and resident partitions.
fn any_pass() -> impl Strategy<Value = Pass> {
    let sizes = (
        1_u32..14,
        1_u32..14,
        any::<bool>(),
        2_u32..7,
        any::<u64>(),
        1_u64..4,
    );
    sizes.prop_map(|(lhs, rhs, square, buffer, seed, kinds)| {
        let mut pass = Pass::uniform(lhs, if square { lhs } else { rhs }, seed);
        pass.shared = square;
        pass.buffer_partitions = buffer;
        let mut rng = pbg_plugin_sdk::Rng::new(seed ^ 1);
        pass.edges
            .iter_mut()
            .for_each(|e| *e = rng.below(kinds) * 100);
        pass.lhs_bytes
            .iter_mut()
            .for_each(|b| *b = rng.below(4) * 1000);
        pass.rhs_bytes
            .iter_mut()
            .for_each(|b| *b = rng.below(4) * 1000);
        if square {
            pass.rhs_bytes = pass.lhs_bytes.clone();
        }
        if rng.below(2) == 0 {
            let loaded = (0..pass.lhs_partitions).filter(|&p| pass.lhs_bytes[p as usize] > 0);
            pass.resident = loaded
                .take(buffer as usize)
                .map(|p| (Side::Lhs, p))
                .collect();
        }
        pass
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn every_grid_has_an_answer_no_worse_than_beta(pass in any_pass()) {
        let found = search(&pass, 2, &mut pass.rng());
        assert_answer(&pass, &found);
        prop_assert_eq!(&found, &search(&pass, 2, &mut pass.rng()));
        let states = states::elimination(&pass, &mut pass.rng());
        let beta = pass.traffic(&states::assign_to_first(&pass, &states)).bytes;
        prop_assert!(found.bytes <= beta);
    }

    #[test]
    fn nothing_is_shorter_than_the_lower_bound(pass in any_pass()) {
        if let Some(problem) = Problem::new(&pass) {
            let bound = problem.lower_bound();
            prop_assert!(search(&pass, 2, &mut pass.rng()).bytes >= bound);
            let shorter = exact::search(&problem, bound, 20_000_000);
            prop_assert!(!matches!(shorter, Some(Some(_))), "{:?} below {}", shorter, bound);
        }
    }
}
