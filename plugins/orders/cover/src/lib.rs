//! COVER: states of the buffer from block designs, in rounds that several trainers can share.
//!
//! Source: the order of that name in GE2 (Zheng et al., "GE2: A General and Efficient Knowledge
//! Graph Embedding Learning System", SIGMOD 2024), which defines it for buffers of four and `p = 4^k`
//! or `2 · 4^k` partitions. Its states are the lines of the affine space over the field of four
//! elements. Any two points are on exactly one line, and the lines of one direction are disjoint and
//! contain every point, so they form a round. This works for every field and, with other resolvable
//! designs, for the sizes in between; the [`designs`] module describes the choice. Partitions are
//! numbered at random in each pass, and a bucket is trained in the first state that holds its
//! partitions.
//!
//! With `p = q^k` and a buffer of `q` there are `(p - 1) / (q - 1)` rounds of `p / q` states, and each
//! pair of partitions meets exactly once, the minimum for sequences that replace the whole buffer. For
//! one trainer these are too many loads (60 swaps at `p = 16, c = 4`, where `beta` makes 42); for
//! `p / q` trainers it is optimal.
//!
//! The parameter `sequence` sets the sequence of the states: `chained` continues with the state that
//! shares the most partitions with the previous one, for one trainer; `rounds` keeps rounds together,
//! for several trainers; `shuffled` is random.

mod designs;
mod field;
mod kirkman;

use pbg_plugin_sdk::{
    Bucket, Metadata, Order, Parameter, Parameters, Pass, Result, Rng, export_order, states,
};
use serde::Deserialize;

/// Partitions in the buffer, numbered as in [`Pass::partitions`].
type State = Vec<usize>;

/// States that share no partition.
type Round = Vec<State>;

/// The order.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub struct Cover {
    sequence: Sequence,
}

/// Sequence of the states.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Sequence {
    #[default]
    Chained,
    Rounds,
    Shuffled,
}

impl Order for Cover {
    fn metadata() -> Metadata {
        Metadata::new(
            "cover",
            env!("CARGO_PKG_VERSION"),
            "GE2's order of buffer states from block designs, for every buffer size.",
        )
        .parameter(Parameter::choice(
            "sequence",
            &["chained", "rounds", "shuffled"],
            "Sequence of the states: each shares the most partitions with the previous one (for one trainer), \
             rounds of disjoint states (for several trainers), or random.",
        ))
    }

    fn configure(&mut self, parameters: &Parameters) -> Result<()> {
        *self = parameters.parse()?;
        Ok(())
    }

    fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>> {
        let mut rng = pass.rng();
        let mut rounds = designs::rounds(pass);
        rename(pass, &mut rounds, &mut rng);
        rng.shuffle(&mut rounds);
        for round in &mut rounds {
            rng.shuffle(round);
        }
        let mut states = rounds.concat();
        match self.sequence {
            Sequence::Chained => states = chained(pass.partitions(), states),
            Sequence::Rounds => {}
            Sequence::Shuffled => rng.shuffle(&mut states),
        }
        Ok(states::assign_to_first(pass, &states))
    }
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

export_order!(Cover);

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_plugin_sdk::testing;

    #[test]
    fn keeps_the_contract() {
        testing::assert_order::<Cover>();
    }

    fn swaps(sequence: Sequence, p: u32, c: u32) -> u64 {
        let mut pass = Pass::uniform(p, p, 1);
        pass.buffer_partitions = c;
        let plan = Cover { sequence }.plan(&pass).expect("it plans");
        pass.traffic(&plan).swaps
    }

    #[test]
    fn chains_reuse_a_partition_at_each_step() {
        // 20 lines of 4 points; a line that is not parallel to the last one shares a point with it.
        assert!(swaps(Sequence::Chained, 16, 4) <= 19 * 3 + 4);
        assert!(swaps(Sequence::Chained, 64, 4) <= swaps(Sequence::Shuffled, 64, 4));
    }

    #[test]
    fn rounds_stay_together() {
        let mut pass = Pass::uniform(16, 16, 1);
        pass.buffer_partitions = 4;
        let mut cover = Cover {
            sequence: Sequence::Rounds,
        };
        let plan = cover.plan(&pass).expect("it plans");
        // The first round trains 4 states of 16 buckets that meet every partition once.
        let mut ends: Vec<u32> = plan[..64].iter().step_by(16).map(|b| b.lhs).collect();
        ends.sort_unstable();
        ends.dedup();
        assert_eq!(ends.len(), 4);
        for state in plan[..64].chunks(16) {
            let mut held: Vec<u32> = state.iter().flat_map(|b| [b.lhs, b.rhs]).collect();
            held.sort_unstable();
            held.dedup();
            assert_eq!(held.len(), 4);
        }
    }
}
