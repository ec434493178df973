//! Block designs that cover a grid: rounds of disjoint states in which every two partitions meet.
//!
//! Partitions may first be grouped, `r` to a point, so that designs of smaller blocks can be used for
//! larger buffers. The design then depends on the number `c / r` of points that a buffer holds:
//!
//! * 2: a round-robin tournament;
//! * 3: a Kirkman triple system;
//! * a prime power `q`: the lines of the affine space over the field of `q` elements.
//!
//! A design needs a certain number of points. If there are fewer partitions, the next larger design is
//! used without its last points, and without the states that then have only one point. For even `c`,
//! another candidate is two parallel designs of half the partitions each, followed by rounds that pair
//! half a buffer of one with half a buffer of the other: GE2's form for `2 · 4^k` partitions. Among
//! all candidates, the one with the smallest sum of state sizes is taken.
//!
//! If the sides are not shared, rounds pair a part of the buffer from one side with the rest from the
//! other.

use pbg_plugin_sdk::Pass;

use super::field::{self, Field};
use super::kirkman;
use super::{Round, State};

/// Returns the rounds of a pass; partitions are numbered as in [`Pass::partitions`].
pub(super) fn rounds(pass: &Pass) -> Vec<Round> {
    let buffer = (pass.buffer_partitions as usize).max(2);
    let lhs: State = (0..pass.lhs_partitions as usize).collect();
    if pass.shared {
        return covering(lhs.len(), buffer);
    }
    let rhs: State = (lhs.len()..pass.partitions()).collect();
    let share = |of_lhs: usize| paired(&lhs, of_lhs, &rhs, buffer - of_lhs);
    let candidates = (1..buffer.min(lhs.len() + 1)).map(share);
    candidates
        .min_by_key(|rounds| size(rounds))
        .unwrap_or_default()
}

/// Returns the sum of state sizes, which is the number of loads if no state shares a partition with the previous one.
fn size(rounds: &[Round]) -> usize {
    rounds.iter().flatten().map(Vec::len).sum()
}

/// Returns the smallest of the designs in which every two of `partitions` meet in a state of `buffer`.
fn covering(partitions: usize, buffer: usize) -> Vec<Round> {
    if partitions <= buffer {
        return vec![vec![(0..partitions).collect()]];
    }
    let mut best = bundled(
        round_robin(partitions.div_ceil(buffer / 2)),
        partitions,
        buffer / 2,
    );
    let mut consider = |rounds: Vec<Round>| {
        if size(&rounds) < size(&best) {
            best = rounds;
        }
    };
    if buffer >= 3 {
        let bundle = buffer / 3;
        let (_, triples) = kirkman::at_least(partitions.div_ceil(bundle));
        consider(bundled(triples, partitions, bundle));
    }
    for field in (3..=buffer).filter_map(Field::new) {
        let bundle = buffer / field.order();
        let points = partitions.div_ceil(bundle);
        let dimension = (1..).find(|&k| field.order().pow(k) >= points).unwrap_or(1);
        // A design that is far too large leaves lines of two or three points, and is slow to construct.
        if field.order().pow(dimension) <= 4 * points {
            consider(bundled(field::lines(&field, dimension), partitions, bundle));
        }
    }
    if buffer.is_multiple_of(2) {
        consider(doubled(partitions, buffer));
    }
    best
}

/// Replaces each point by its group of `bundle` partitions; points beyond the last partition are left out.
fn bundled(rounds: Vec<Round>, partitions: usize, bundle: usize) -> Vec<Round> {
    let members = |&point: &usize| {
        let start = (point * bundle).min(partitions);
        start..(start + bundle).min(partitions)
    };
    let fill = |state: &State| state.iter().flat_map(members).collect::<State>();
    let kept = |round: &Round| {
        let whole = round
            .iter()
            .filter(|state| state.iter().filter(|p| !members(p).is_empty()).count() > 1);
        whole.map(fill).collect::<Round>()
    };
    rounds
        .iter()
        .map(kept)
        .filter(|round| !round.is_empty())
        .collect()
}

/// Returns the rounds of a tournament in which every two of `players` meet once (the circle method).
fn round_robin(players: usize) -> Vec<Round> {
    let even = players.next_multiple_of(2);
    let circle = even - 1;
    let round = |turn: usize| {
        let fixed = vec![turn, circle];
        let others = (1..even / 2).map(|n| vec![(turn + n) % circle, (turn + circle - n) % circle]);
        let pairs = std::iter::once(fixed).chain(others);
        pairs
            .filter(|pair| pair.iter().all(|&p| p < players))
            .collect()
    };
    (0..circle).map(round).collect()
}

/// Returns two parallel designs of half the partitions each, followed by rounds that pair half buffers.
fn doubled(partitions: usize, buffer: usize) -> Vec<Round> {
    let half = partitions.div_ceil(2);
    let first = covering(half, buffer);
    let mut second = covering(partitions - half, buffer);
    second
        .iter_mut()
        .flatten()
        .flatten()
        .for_each(|p| *p += half);
    let length = first.len().max(second.len());
    let mut rounds: Vec<Round> = vec![Vec::new(); length];
    for (round, states) in first
        .into_iter()
        .enumerate()
        .chain(second.into_iter().enumerate())
    {
        rounds[round].extend(states);
    }
    let (lower, upper): (State, State) = (0..partitions).partition(|&p| p < half);
    rounds.extend(paired(&lower, buffer / 2, &upper, buffer / 2));
    rounds
}

/// Returns rounds in which every member of `a` meets every member of `b`, in groups of `bundle_a` and `bundle_b`.
fn paired(a: &[usize], bundle_a: usize, b: &[usize], bundle_b: usize) -> Vec<Round> {
    let a: Vec<&[usize]> = a.chunks(bundle_a).collect();
    let b: Vec<&[usize]> = b.chunks(bundle_b).collect();
    let length = a.len().max(b.len());
    let state = |n: usize, shift: usize| {
        let partner = b.get((n + shift) % length)?;
        Some([a[n], partner].concat())
    };
    (0..length)
        .map(|shift| (0..a.len()).filter_map(|n| state(n, shift)).collect())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_plugin_sdk::Bucket;

    fn pass(lhs: u32, rhs: u32, shared: bool, buffer: u32) -> Pass {
        let mut pass = Pass::uniform(lhs, rhs, 0);
        pass.shared = shared;
        pass.buffer_partitions = buffer;
        pass
    }

    /// Asserts that the rounds cover the grid with disjoint states that fit the buffer. Returns the number of states.
    fn assert_covering(pass: &Pass) -> usize {
        let rounds = rounds(pass);
        let mut met = vec![false; pass.edges.len()];
        for round in &rounds {
            let mut partitions = round.concat();
            let held = partitions.len();
            partitions.sort_unstable();
            partitions.dedup();
            assert_eq!(
                partitions.len(),
                held,
                "a round of {pass:?} is not disjoint"
            );
            for state in round {
                assert!(state.len() <= pass.buffer_partitions as usize);
                for (&a, &b) in state.iter().flat_map(|a| state.iter().map(move |b| (a, b))) {
                    pass.between(a, b)
                        .for_each(|bucket| met[pass.index(bucket)] = true);
                }
            }
        }
        let missing: Vec<Bucket> = pass
            .grid()
            .into_iter()
            .filter(|&b| !met[pass.index(b)])
            .collect();
        assert!(
            missing.is_empty(),
            "{missing:?} of {pass:?} are in no state"
        );
        rounds.iter().map(Vec::len).sum()
    }

    #[test]
    fn all_small_grids_are_covered() {
        for p in 1..40 {
            for c in 2..17 {
                assert_covering(&pass(p, p, true, c));
            }
        }
        for (lhs, rhs) in [(1, 1), (1, 9), (9, 1), (4, 7), (12, 12), (30, 3)] {
            for c in 2..9 {
                assert_covering(&pass(lhs, rhs, false, c));
            }
        }
    }

    #[test]
    fn geometries_need_the_fewest_states() {
        // p = q^k: p (p - 1) / (q (q - 1)) states; GE2's doubled form for 8, 32 and 128.
        for (p, c, states) in [
            (16, 4, 20),
            (64, 4, 336),
            (25, 5, 30),
            (49, 7, 56),
            (64, 8, 72),
            (81, 9, 90),
            (27, 3, 117),
            (15, 3, 35),
            (21, 3, 70),
            (16, 2, 120),
            (8, 4, 6),
            (32, 4, 104),
            (128, 4, 53 * 32),
        ] {
            assert_eq!(assert_covering(&pass(p, p, true, c)), states, "p={p} c={c}");
        }
    }
}
