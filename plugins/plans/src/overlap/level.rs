//! Assigns buckets to states so that each load overlaps with training.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use pbg_plugin_sdk::{Bucket, Pass};

use super::clock::Rates;

/// Splits the first state into the steps in which the buffer fills, so that training begins with the
/// first partition. Resident partitions are in the buffer from the start.
pub(super) fn filled_one_by_one(pass: &Pass, states: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
    let Some(first) = states.first() else {
        return states;
    };
    let resident: Vec<usize> = pass.resident_partitions().collect();
    let (mut there, loaded): (Vec<usize>, Vec<usize>) = first
        .iter()
        .partition(|partition| resident.contains(partition));
    let mut steps = Vec::new();
    for partition in loaded {
        there.push(partition);
        steps.push(there.clone());
    }
    steps.extend(states.into_iter().skip(usize::from(!steps.is_empty())));
    steps
}

/// Returns for each bucket the number of the last state that can train it.
pub(super) fn last_chances(pass: &Pass, states: &[Vec<usize>]) -> Vec<usize> {
    let mut last_chance = vec![usize::MAX; pass.edges.len()];
    for (number, state) in states.iter().enumerate() {
        for bucket in held(pass, state) {
            last_chance[pass.index(bucket)] = number;
        }
    }
    last_chance
}

/// Returns the plan in which each state trains the buckets that no later state can train, and more
/// buckets until `share` of the next load's time is covered, those with the earliest of their [`last_chances`] first.
pub(super) fn plan(
    pass: &Pass,
    states: &[Vec<usize>],
    last_chance: &[usize],
    rates: &Rates,
    share: f64,
) -> Vec<Bucket> {
    let mut left: Vec<bool> = pass.edges.iter().map(|&edges| edges > 0).collect();
    let mut plan = Vec::with_capacity(left.len());
    for (number, state) in states.iter().enumerate() {
        let next = states.get(number + 1);
        let enters = |p: &&usize| !state.contains(p);
        let leaves: Vec<usize> = match next {
            Some(next) => state
                .iter()
                .copied()
                .filter(|p| !next.contains(p))
                .collect(),
            None => Vec::new(),
        };
        let reads: f64 = next
            .into_iter()
            .flatten()
            .filter(enters)
            .map(|&p| rates.reading(pass, p))
            .sum();
        let writes: f64 = leaves.iter().map(|&p| rates.writing(pass, p)).sum();

        let held: Vec<Bucket> = held(pass, state).filter(|&b| left[pass.index(b)]).collect();
        // A heap, since most states train few of the buckets that they hold.
        let mut waiting: BinaryHeap<Reverse<(usize, usize)>> = held
            .iter()
            .enumerate()
            .map(|(n, &bucket)| Reverse((last_chance[pass.index(bucket)], n)))
            .collect();
        let mut work = 0.0;
        let mut ready = Vec::new();
        while let Some(Reverse((last, n))) = waiting.pop() {
            if last != number && work >= share * (reads + writes) {
                break;
            }
            let bucket = held[n];
            work += rates.training(pass, bucket);
            left[pass.index(bucket)] = false;
            ready.push(bucket);
        }
        // Buckets of the partitions that are evicted next come first, so that these partitions are not
        // in use while their successors are read.
        let leaves = |bucket: &Bucket| pass.ends(*bucket).iter().any(|end| leaves.contains(end));
        plan.extend(ready.iter().copied().filter(leaves));
        plan.extend(ready.into_iter().filter(|bucket| !leaves(bucket)));
    }
    // Buckets without edges need no partitions.
    plan.extend(
        pass.grid()
            .into_iter()
            .filter(|&b| pass.edges_of(b) == 0 || left[pass.index(b)]),
    );
    plan
}

/// Returns the buckets that a state can train.
fn held<'a>(pass: &'a Pass, state: &'a [usize]) -> impl Iterator<Item = Bucket> + 'a {
    state
        .iter()
        .enumerate()
        .flat_map(move |(at, &a)| state[..=at].iter().flat_map(move |&b| pass.between(a, b)))
}
