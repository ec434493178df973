//! GE2's COVER: states of the buffer from block designs, in rounds that several trainers can share.

mod designs;
mod field;
mod kirkman;

use pbg_plugin_sdk::{Bucket, Pass, Rng, states};
use serde::Deserialize;

/// Partitions in the buffer, numbered as in [`Pass::partitions`].
type State = Vec<usize>;

/// States that share no partition.
type Round = Vec<State>;

/// Sequence of the states.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sequence {
    /// Each state is followed by one that shares the most partitions with it, for one trainer.
    #[default]
    Chained,
    /// Rounds of disjoint states, for several trainers.
    Rounds,
    /// Random.
    Shuffled,
}

/// Returns the plan of `cover`.
#[must_use]
pub fn plan(pass: &Pass, sequence: Sequence) -> Vec<Bucket> {
    let mut rng = pass.rng();
    let mut rounds = designs::rounds(pass);
    rename(pass, &mut rounds, &mut rng);
    rng.shuffle(&mut rounds);
    for round in &mut rounds {
        rng.shuffle(round);
    }
    let mut states = rounds.concat();
    match sequence {
        Sequence::Chained => states = chained(pass.partitions(), states),
        Sequence::Rounds => {}
        Sequence::Shuffled => rng.shuffle(&mut states),
    }
    states::assign_to_first(pass, &states)
}

/// Renumbers the partitions of each side at random.
fn rename(pass: &Pass, rounds: &mut [Round], rng: &mut Rng) {
    let mut names: Vec<usize> = (0..pass.partitions()).collect();
    let (lhs, rhs) = names.split_at_mut(pass.lhs_partitions as usize);
    rng.shuffle(lhs);
    rng.shuffle(rhs);
    for partition in rounds.iter_mut().flatten().flatten() {
        *partition = names[*partition];
    }
}

/// Reorders the states so that each is followed by the first unused state that shares the most partitions with it.
fn chained(partitions: usize, states: Vec<State>) -> Vec<State> {
    let mut holding = vec![Vec::new(); partitions];
    for (number, state) in states.iter().enumerate().rev() {
        for &partition in state {
            holding[partition].push(number);
        }
    }
    let mut left = vec![true; states.len()];
    let mut first_left = 0;
    let mut shared = vec![0_u32; states.len()];
    let mut chain: Vec<State> = Vec::with_capacity(states.len());
    while chain.len() < states.len() {
        let mut near = Vec::new();
        for &partition in chain.last().into_iter().flatten() {
            holding[partition].retain(|&number| left[number]);
            for &number in &holding[partition] {
                if shared[number] == 0 {
                    near.push(number);
                }
                shared[number] += 1;
            }
        }
        while !left[first_left] && first_left + 1 < left.len() {
            first_left += 1;
        }
        let best = near
            .iter()
            .copied()
            .max_by_key(|&number| (shared[number], std::cmp::Reverse(number)));
        let next = best.unwrap_or(first_left);
        near.iter().for_each(|&number| shared[number] = 0);
        left[next] = false;
        chain.push(states[next].clone());
    }
    chain
}
