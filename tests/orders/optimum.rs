//! Closed forms, and how close the best orders come to the optimum.

use std::sync::atomic::{AtomicU32, Ordering};

use beta::Beta;
use optimal::Optimal;
use pbg_order_search::known_swaps;
use pbg_plugin_sdk::{Order, Parameters, Pass, Value};

use crate::{beta_formula, complete, cost, lower_bound, swaps};

#[test]
fn beta_makes_the_swaps_of_its_formula() {
    for p in 2..=40 {
        for c in 2..=12 {
            assert_eq!(
                swaps::<Beta>(&complete(p, c, 3)),
                beta_formula(p, c),
                "p={p} c={c}"
            );
        }
    }
    for (p, c, swaps_of_it) in [(64, 8, 308), (64, 16, 150), (128, 16, 588), (128, 32, 294)] {
        assert_eq!(swaps::<Beta>(&complete(p, c, 3)), swaps_of_it);
    }
}

#[test]
fn a_buffer_of_two_has_a_closed_optimum() {
    for p in 3..=40 {
        let least = u64::from(p * (p - 1) / 2 - 1);
        assert_eq!(lower_bound(p, 2), least);
        assert_eq!(swaps::<Beta>(&complete(p, 2, 3)), least);
        assert_eq!(swaps::<Optimal>(&complete(p, 2, 3)), least);
    }
}

fn assert_no_worse_than_beta(p: u32, c: u32) {
    let found = swaps::<Optimal>(&complete(p, c, 3));
    assert!(found <= beta_formula(p, c), "p={p} c={c}: {found}");
    assert!(
        found <= known_swaps(p as usize, c as usize),
        "p={p} c={c}: {found}"
    );
    assert!(found >= lower_bound(p, c), "p={p} c={c}: {found}");
}

#[test]
fn optimal_is_never_worse_than_beta() {
    for p in 2..=32 {
        for c in 2..=p {
            assert_no_worse_than_beta(p, c);
        }
    }
    for p in [33, 40, 47, 64, 65, 81, 100, 127, 128] {
        for c in [2, 3, 4, 5, 7, 8, 11, 16, 25, 32, 50, 64, 100] {
            assert_no_worse_than_beta(p, c.min(p));
        }
    }
}

/// Every grid of up to 32 partitions with every buffer, and some of up to 128; with `PBG_TEST_LONG`, all 8128 cases of
/// up to 128. The plans found without a search are good enough; a search only adds candidates.
#[test]
fn without_a_search_optimal_is_never_worse_than_beta_either() {
    let next = AtomicU32::new(2);
    let is_long = std::env::var_os("PBG_TEST_LONG").is_some();
    let check = || {
        loop {
            let p = next.fetch_add(1, Ordering::Relaxed);
            if p > 128 {
                return;
            }
            let is_chosen = |c: &u32| is_long || p <= 32 || (p % 16 <= 1 && c % 8 == p % 7);
            for c in (2..=p).filter(is_chosen) {
                let pass = complete(p, c, 3);
                let mut order = Optimal::default();
                order
                    .configure(&Parameters::new([("effort", Value::Integer(0))]))
                    .expect("it takes no effort");
                let found = cost(&pass, &order.plan(&pass).expect("it plans")).swaps;
                assert!(found <= beta_formula(p, c), "p={p} c={c}: {found}");
                assert!(found >= lower_bound(p, c), "p={p} c={c}: {found}");
            }
        }
    };
    std::thread::scope(|scope| {
        (0..std::thread::available_parallelism().map_or(1, usize::from)).for_each(|_| {
            scope.spawn(check);
        });
    });
}

/// The best values of the literature and of earlier searches, and those of `optimal`.
#[test]
fn optimal_is_at_the_best_known_values() {
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
        (12, 4, 20),
        (16, 4, 40),
        (8, 5, 6),
        (10, 5, 10),
        (12, 6, 12),
        (16, 8, 16),
        (20, 5, 48),
        (32, 8, 77),
    ] {
        let found = swaps::<Optimal>(&complete(p, c, 3));
        assert!(found <= best, "p={p} c={c}: {found}, known {best}");
    }
}

#[test]
fn what_is_resident_saves_its_loads() {
    use pbg_plugin_sdk::{Side, testing};
    let mut pass: Pass = complete(16, 4, 3);
    pass.resident = [1, 5, 9, 14].map(|p| (Side::Lhs, p)).to_vec();
    let plan = testing::with_defaults::<Optimal>()
        .plan(&pass)
        .expect("it plans");
    assert_eq!(cost(&pass, &plan).loads, known_swaps(16, 4));
}

/// Each certificate holds by the host's count: the plan derived from it has no more loads.
#[test]
fn certificates_hold() {
    let certificates = include_str!("../../plugins/search/src/certificates.txt");
    for line in certificates.lines() {
        let (sizes, loads) = line.split_once(": ").expect("sizes and loads");
        let (p, c) = sizes.split_once(' ').expect("two sizes");
        let (p, c) = (p.parse().expect("a number"), c.parse().expect("a number"));
        let found = swaps::<Optimal>(&complete(p, c, 5));
        assert!(
            found <= loads.split(", ").count() as u64,
            "p={p} c={c}: {found}"
        );
    }
}
