//! Simulations with an order that picks the nearest bucket.

use std::cmp::Reverse;

use pbg_core::seed::{StreamPurpose, derive};
use pbg_core::strategy::{StrategyError, StrategyId};

use super::*;
use crate::testing::{lexicographic, pass};

/// Picks the bucket with the fewest missing bytes, then with the partition that has the most free buckets, then the
/// first in grid order. This is the SDK's default.
struct Nearest(StrategyId);

fn id() -> StrategyId {
    StrategyId {
        name: "nearest".to_owned(),
        version: "1".to_owned(),
        sha256: String::new(),
    }
}

impl BucketOrder for Nearest {
    fn id(&self) -> &StrategyId {
        &self.0
    }

    fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>, StrategyError> {
        Ok(lexicographic(pass.lhs_partitions))
    }

    fn pick(&mut self, pass: &Pass, _: &[Bucket], free: &[Bucket]) -> Result<usize, StrategyError> {
        let lacks = |p: u32| usize::from(!pass.resident.contains(&(Side::Lhs, p)));
        let cost = |b: &Bucket| match b.lhs == b.rhs {
            true => lacks(b.lhs),
            false => lacks(b.lhs) + lacks(b.rhs),
        };
        let mut left = vec![0; pass.lhs_partitions as usize];
        for bucket in free {
            left[bucket.lhs as usize] += 1;
            left[bucket.rhs as usize] += usize::from(bucket.lhs != bucket.rhs);
        }
        let most = |b: &Bucket| left[b.lhs as usize].max(left[b.rhs as usize]);
        let best = (0..free.len()).min_by_key(|&at| (cost(&free[at]), Reverse(most(&free[at]))));
        Ok(best.unwrap_or(0))
    }
}

fn of(partitions: u32, trainers: u32, tree_init: bool) -> PassCost {
    let mut order = Nearest(id());
    simulate(&mut order, &pass(partitions, 4), trainers, tree_init).unwrap()
}

#[test]
fn one_trainer_takes_a_round_for_each_bucket() {
    let alone = of(4, 1, false);
    assert_eq!((alone.rounds, alone.ideal, alone.buckets), (16, 16, 16));
    assert!((alone.busy() - 1.0).abs() < 1e-12);
    // The buffer holds all partitions, so each is read once.
    assert_eq!((alone.loads, alone.bytes_read), (4, 400));
}

#[test]
fn several_wait_for_each_other_where_partitions_are_few() {
    for (partitions, trainers) in [(8, 2), (8, 4), (16, 4), (4, 4)] {
        let together = of(partitions, trainers, false);
        let parallel = trainers.min(partitions);
        assert!(together.rounds >= together.ideal, "{together:?}");
        assert!(
            together.rounds <= u64::from(partitions * partitions).div_ceil(u64::from(parallel / 2)),
            "{together:?}"
        );
        // Every partition is trained and therefore written at least once.
        assert!(together.writes >= u64::from(partitions), "{together:?}");
    }
}

#[test]
fn nobody_waits_long_where_partitions_are_many() {
    for (partitions, trainers) in [(16, 4), (32, 8)] {
        let together = of(partitions, trainers, false);
        assert!(together.busy() >= 0.95, "{together:?}");
    }
}

#[test]
fn tree_init_costs_rounds_at_the_beginning() {
    let (free, tree) = (of(16, 8, false), of(16, 8, true));
    assert!(tree.rounds > free.rounds, "{tree:?} {free:?}");
}

#[test]
fn buckets_without_edges_cost_nothing() {
    let mut pass = pass(4, 4);
    pass.edges[5] = 0;
    let mut order = Nearest(id());
    let rounds = simulate(&mut order, &pass, 1, false).unwrap();
    assert_eq!((rounds.rounds, rounds.buckets), (15, 15));
}

#[test]
fn hardly_anyone_waits_where_trainers_hold_all_partitions() {
    for (partitions, trainers) in [(6, 3), (8, 4), (16, 8), (20, 8)] {
        let together = of(partitions, trainers, false);
        assert!(together.busy() >= 0.92, "{together:?}");
    }
    // In the first rounds only one bucket can be trained, and then two.
    let tree = of(8, 4, true);
    assert!(tree.rounds <= 21, "{tree:?}");
}

/// Returns the rounds that a bucket takes: log-normally distributed, and `slow` times as long for trainer 0.
fn pace(seed: u64, sigma: f64, slow: f64) -> impl FnMut(u32, Bucket) -> f64 {
    move |trainer, bucket| {
        let at = [bucket.lhs.into(), bucket.rhs.into()];
        let draw = |n: u64| {
            let bits = derive(seed + n, StreamPurpose::Generate, &at) >> 11;
            bits as f64 / (1_u64 << 53) as f64
        };
        // The sum of twelve uniform numbers is nearly normal.
        let normal = (0..12).map(|n| draw(1000 * n)).sum::<f64>() - 6.0;
        (sigma * normal).exp() * if trainer == 0 { slow } else { 1.0 }
    }
}

/// Simulates 20 passes with different plans, where the logarithm of a bucket's time has the deviation `sigma` and
/// trainer 0 takes `slow` times as long. Returns the rounds, and the share of the time in which trainers trained.
fn paced(
    (partitions, trainers): (u32, u32),
    tree_init: bool,
    (sigma, slow): (f64, f64),
) -> Vec<(PassCost, f64)> {
    let once = |seed| {
        let mut sum = 0.0;
        let mut pace = pace(seed, sigma, slow);
        let mut takes = |trainer, bucket| {
            let takes = pace(trainer, bucket);
            sum += takes;
            takes
        };
        let (mut order, pass) = (Shuffled(id(), seed), pass(partitions, 2));
        let rounds =
            simulate_with_durations(&mut order, &pass, trainers, tree_init, &mut takes).unwrap();
        let busy = sum / (rounds.rounds * u64::from(trainers)) as f64;
        (rounds, busy)
    };
    (0..20).map(once).collect()
}

#[test]
fn a_pair_costs_a_load_whatever_buckets_take_where_trainers_keep_step() {
    for sigma in [0.0, 0.1, 0.2, 0.3] {
        for (rounds, busy) in paced((8, 2), false, (sigma, 1.0)) {
            // One load for each of the 28 pairs, and one more for each trainer at the start. Each pair writes two
            // partitions.
            assert_eq!(
                (rounds.loads, rounds.writes),
                (30, 56),
                "{sigma} {rounds:?}"
            );
            assert!(busy > 0.9, "{busy} {rounds:?}");
        }
    }
    for (rounds, _) in paced((8, 2), true, (0.0, 1.0)) {
        assert_eq!((rounds.loads, rounds.writes), (30, 56), "{rounds:?}");
    }
}

#[test]
fn a_pair_costs_little_more_where_they_do_not_keep_step() {
    for grid in [(8, 2), (10, 2), (12, 3), (16, 4)] {
        for (tree_init, pace) in [(true, (0.3, 1.0)), (false, (0.2, 1.5))] {
            let paced = paced(grid, tree_init, pace);
            let mean = |of: &dyn Fn(&(PassCost, f64)) -> f64| {
                paced.iter().map(of).sum::<f64>() / paced.len() as f64
            };
            let pairs = f64::from(grid.0 * (grid.0 - 1) / 2);
            let loads = mean(&|(rounds, _)| rounds.loads as f64) / pairs;
            let writes = mean(&|(rounds, _)| rounds.writes as f64) / pairs;
            let busy = mean(&|(_, busy)| *busy);
            assert!(loads <= 1.1 && writes <= 2.1, "{grid:?}: {loads} {writes}");
            assert!(busy >= 0.9, "{grid:?}: {busy}");
        }
    }
}

/// Picks like [`Nearest`], with a different plan for each seed.
struct Shuffled(StrategyId, u64);

impl BucketOrder for Shuffled {
    fn id(&self) -> &StrategyId {
        &self.0
    }

    fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>, StrategyError> {
        let mut plan = lexicographic(pass.lhs_partitions);
        plan.sort_by_key(|b| derive(self.1, StreamPurpose::Order, &[b.lhs.into(), b.rhs.into()]));
        Ok(plan)
    }

    fn pick(
        &mut self,
        pass: &Pass,
        held: &[Bucket],
        free: &[Bucket],
    ) -> Result<usize, StrategyError> {
        Nearest(id()).pick(pass, held, free)
    }
}
