//! Rounds of an order that takes what is nearest.

use std::cmp::Reverse;

use pbg_core::strategy::{StrategyError, StrategyId};

use super::*;
use crate::testing::{lexicographic, pass};

/// Fewest bytes that are not resident, then the partition with most free buckets, then the order of the grid: the SDK's
/// default.
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

fn of(partitions: u32, trainers: u32, tree_init: bool) -> Rounds {
    let mut order = Nearest(id());
    rounds(&mut order, &pass(partitions, 4), trainers, tree_init).unwrap()
}

#[test]
fn one_trainer_takes_a_round_for_each_bucket() {
    let alone = of(4, 1, false);
    assert_eq!((alone.rounds, alone.ideal, alone.buckets), (16, 16, 16));
    assert!((alone.busy() - 1.0).abs() < 1e-12);
    // The buffer holds all partitions: each is read once.
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
        // Every trained bucket changes its partitions, which are written at least once.
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
    let rounds = rounds(&mut order, &pass, 1, false).unwrap();
    assert_eq!((rounds.rounds, rounds.buckets), (15, 15));
}

#[test]
fn hardly_anyone_waits_where_trainers_hold_all_partitions() {
    for (partitions, trainers) in [(6, 3), (8, 4), (16, 8), (20, 8)] {
        let together = of(partitions, trainers, false);
        assert!(together.busy() >= 0.92, "{together:?}");
    }
    // The first rounds have one bucket, and then two.
    let tree = of(8, 4, true);
    assert!(tree.rounds <= 21, "{tree:?}");
}
