//! Orders as sequences of buffer states, and how buckets are assigned to states.
//!
//! A state is the set of partitions in the buffer, numbered as in [`Pass::partitions`]. A sequence of
//! states in which every two partitions meet, together with an assignment of each bucket to a state
//! that holds both of its partitions, is an order with known partition traffic: each state loads the
//! partitions that the previous state does not have.

use crate::{Bucket, Pass, Rng};

/// Assigns each bucket to the first state that holds both of its partitions, and returns the plan;
/// buckets that no state holds come last. So each bucket is trained as early as possible, and most of
/// the work is in early states.
///
/// ```
/// use pbg_plugin_sdk::{Bucket, Pass, states};
/// let pass = Pass::uniform(3, 3, 0);
/// let plan = states::assign_to_first(&pass, &[vec![0, 1], vec![1, 2], vec![2, 0]]);
/// assert_eq!(plan[4..6], [Bucket::new(2, 1), Bucket::new(1, 2)]);
/// assert_eq!(plan.len(), 9);
/// ```
#[must_use]
pub fn assign_to_first(pass: &Pass, states: &[Vec<usize>]) -> Vec<Bucket> {
    let mut planned = vec![false; pass.edges.len()];
    let mut plan = Vec::with_capacity(planned.len());
    let mut previous: &[usize] = &[];
    let mut held = Marks::new(pass.partitions());
    for state in states {
        held.set(previous);
        for (newcomer, &a) in state.iter().enumerate().filter(|&(_, &a)| !held.has(a)) {
            // The buckets between two new partitions of a state are planned with the later one.
            let met = state
                .iter()
                .enumerate()
                .filter(|&(at, &b)| at <= newcomer || held.has(b));
            for bucket in met.flat_map(|(_, &b)| pass.between(a, b)) {
                if !std::mem::replace(&mut planned[pass.index(bucket)], true) {
                    plan.push(bucket);
                }
            }
        }
        previous = state;
    }
    plan.extend(pass.grid().into_iter().filter(|&b| !planned[pass.index(b)]));
    plan
}

/// Assigns each bucket to a state drawn uniformly from those that hold both of its partitions, and
/// returns the plan, in random order within a state; buckets that no state holds come last. This
/// balances the work per state (Waleffe et al., "MariusGNN", EuroSys 2023, section 5.1).
///
/// ```
/// use pbg_plugin_sdk::{Pass, Rng, states};
/// let pass = Pass::uniform(3, 3, 0);
/// let plan = states::assign_at_random(&pass, &[vec![0, 1], vec![1, 2], vec![2, 0]], &mut Rng::new(1));
/// assert_eq!(plan.len(), 9);
/// ```
#[must_use]
pub fn assign_at_random(pass: &Pass, states: &[Vec<usize>], rng: &mut Rng) -> Vec<Bucket> {
    const NOWHERE: u32 = u32::MAX;
    let mut hosts = vec![0_u32; pass.edges.len()];
    let mut chosen = vec![NOWHERE; pass.edges.len()];
    for (number, state) in states.iter().enumerate() {
        for (at, &a) in state.iter().enumerate() {
            for bucket in state[..=at].iter().flat_map(|&b| pass.between(a, b)) {
                // Choosing the n-th possible state with probability 1/n makes all equally likely.
                let index = pass.index(bucket);
                hosts[index] += 1;
                if rng.below(u64::from(hosts[index])) == 0 {
                    chosen[index] = number as u32;
                }
            }
        }
    }
    let mut grid = pass.grid();
    rng.shuffle(&mut grid);
    let mut plan = vec![Vec::new(); states.len() + 1];
    for bucket in grid {
        let state = chosen[pass.index(bucket)] as usize;
        plan[state.min(states.len())].push(bucket);
    }
    plan.concat()
}

/// Returns the states of BETA, the elimination order of Marius, which loads one partition per state.
///
/// Source: Mohoney et al., "Marius: Learning Massive Graph Embeddings on a Single Machine" (OSDI
/// 2021), section 4.1, algorithm 3. With a buffer of `c`: keep `c - 1` random partitions and load
/// each of the others into the last slot once; the `c - 1` partitions are then finished and are
/// replaced one by one; repeat with the rest. After the first fill, the number of loads for `p`
/// partitions is
///
/// `(p - c) + (x + 1) · ((p - c) - x (c - 1) / 2)`, with `x = ⌊(p - c) / (c - 1)⌋`.
///
/// If the sides are not shared (our extension; the source has only one set of partitions): keep
/// `c - 1` partitions of one side and load every partition of the other side into the last slot, in
/// alternating directions. The kept side is the one that needs fewer loads: with `a` kept partitions,
/// `b` passing ones and `g = ⌈a / (c - 1)⌉`, it is `a + g b - (g - 1)` loads.
///
/// ```
/// use pbg_plugin_sdk::{Pass, states};
/// let mut pass = Pass::uniform(8, 8, 0);
/// pass.buffer_partitions = 4;
/// let states = states::elimination(&pass, &mut pass.rng());
/// assert_eq!(states.len(), 1 + 9);
/// assert!(states.iter().all(|state| state.len() == 4));
/// ```
#[must_use]
pub fn elimination(pass: &Pass, rng: &mut Rng) -> Vec<Vec<usize>> {
    let capacity = (pass.buffer_partitions as usize).max(2);
    if !pass.shared {
        return two_sided(pass, capacity, rng);
    }
    let mut buffer: Vec<usize> = (0..pass.partitions()).collect();
    rng.shuffle(&mut buffer);
    let mut disk = buffer.split_off(capacity.min(buffer.len()));
    let mut states = vec![buffer.clone()];
    while !disk.is_empty() {
        let last = buffer.len() - 1;
        for next in &mut disk {
            std::mem::swap(next, &mut buffer[last]);
            states.push(buffer.clone());
        }
        rng.shuffle(&mut disk);
        rng.shuffle(&mut buffer[..last]);
        for slot in 0..last {
            let Some(next) = disk.pop() else { break };
            buffer[slot] = next;
            states.push(buffer.clone());
        }
    }
    states
}

/// Returns the elimination states of a grid whose sides are not shared.
fn two_sided(pass: &Pass, capacity: usize, rng: &mut Rng) -> Vec<Vec<usize>> {
    let lhs = pass.lhs_partitions as usize;
    let mut kept: Vec<usize> = (0..lhs).collect();
    let mut passing: Vec<usize> = (lhs..pass.partitions()).collect();
    let loads = |kept: usize, passing: usize| {
        let groups = kept.div_ceil(capacity - 1);
        kept + groups * passing - (groups - 1)
    };
    if loads(passing.len(), kept.len()) < loads(kept.len(), passing.len()) {
        std::mem::swap(&mut kept, &mut passing);
    }
    rng.shuffle(&mut kept);
    rng.shuffle(&mut passing);
    let mut states: Vec<Vec<usize>> = Vec::new();
    for group in kept.chunks(capacity - 1) {
        let stays = passing[0];
        states.extend((1..=group.len()).map(|n| {
            // The partitions of the previous group are replaced one by one.
            let mut state = group[..n].to_vec();
            state.push(stays);
            state
        }));
        for &next in &passing[1..] {
            let mut state = group.to_vec();
            state.push(next);
            states.push(state);
        }
        // Reverse the direction, since the partition that passed last is still in the buffer.
        passing[..].reverse();
        let others = passing.len().min(1);
        rng.shuffle(&mut passing[others..]);
    }
    states
}

/// Set of small numbers that can be replaced in time proportional to the new members.
struct Marks {
    round: u32,
    rounds: Vec<u32>,
}

impl Marks {
    fn new(numbers: usize) -> Self {
        Self {
            round: 0,
            rounds: vec![0; numbers],
        }
    }

    fn set(&mut self, members: &[usize]) {
        self.round += 1;
        for &member in members {
            self.rounds[member] = self.round;
        }
    }

    fn has(&self, number: usize) -> bool {
        self.rounds[number] == self.round
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn pass(lhs: u32, rhs: u32, shared: bool, buffer: u32, seed: u64) -> Pass {
        let mut pass = Pass::uniform(lhs, rhs, seed);
        pass.shared = shared && lhs == rhs;
        pass.buffer_partitions = buffer;
        pass
    }

    fn loads(states: &[Vec<usize>]) -> usize {
        let mut before: &[usize] = &[];
        let mut loads = 0;
        for state in states {
            loads += state.iter().filter(|p| !before.contains(p)).count();
            before = state;
        }
        loads
    }

    proptest! {
        #[test]
        fn elimination_loads_what_its_formula_says(p in 1_u32..40, c in 2_u32..12, seed: u64) {
            let pass = pass(p, p, true, c, seed);
            let states = elimination(&pass, &mut pass.rng());
            let (p, c) = (u64::from(p), u64::from(c));
            let expected = if p <= c { p } else {
                let x = (p - c) / (c - 1);
                c + (p - c) + (x + 1) * (p - c) - x * (x + 1) * (c - 1) / 2
            };
            prop_assert_eq!(loads(&states) as u64, expected);
        }

        #[test]
        fn elimination_of_two_sides_loads_what_its_formula_says(
            a in 1_u32..20, b in 1_u32..20, c in 2_u32..12, seed: u64,
        ) {
            let pass = pass(a, b, false, c, seed);
            let states = elimination(&pass, &mut pass.rng());
            prop_assert!(states.iter().all(|state| state.len() <= c as usize));
            let formula = |kept: u32, passing: u32| {
                let groups = kept.div_ceil(c - 1);
                kept + groups * passing - (groups - 1)
            };
            prop_assert_eq!(loads(&states) as u32, formula(a, b).min(formula(b, a)));
        }

        #[test]
        fn every_bucket_is_assigned_once_and_to_a_state_of_both_ends(
            a in 1_u32..12, b in 1_u32..12, square: bool, c in 2_u32..6, seed: u64,
        ) {
            let pass = pass(a, if square { a } else { b }, square, c, seed);
            let states = elimination(&pass, &mut pass.rng());
            for plan in [
                assign_to_first(&pass, &states),
                assign_at_random(&pass, &states, &mut pass.rng()),
            ] {
                let mut sorted = plan.clone();
                sorted.sort_unstable();
                prop_assert_eq!(sorted, pass.grid());
                let mut state = 0;
                for bucket in plan {
                    let hosts = |state: &Vec<usize>| {
                        pass.ends(bucket).iter().all(|end| state.contains(end))
                    };
                    while state < states.len() && !hosts(&states[state]) {
                        state += 1;
                    }
                    prop_assert!(state < states.len(), "{bucket:?} after its states");
                }
            }
        }
    }

    #[test]
    fn what_no_state_holds_comes_last() {
        let pass = pass(3, 3, true, 2, 0);
        let first = assign_to_first(&pass, &[vec![0, 2]]);
        assert_eq!(
            first[4..],
            [
                Bucket::new(0, 1),
                Bucket::new(1, 0),
                Bucket::new(1, 1),
                Bucket::new(1, 2),
                Bucket::new(2, 1)
            ]
        );
        let random = assign_at_random(&pass, &[vec![0, 2]], &mut pass.rng());
        assert!(random[..4].iter().all(|b| b.lhs != 1 && b.rhs != 1));
    }
}
