//! Search for sequences of buffer states that load few bytes, shared by the orders `optimal` and
//! `overlap`.
//!
//! Given partitions with sizes, the pairs of them that have edges between them, a buffer and its
//! resident partitions, it searches for the sequence of loads in which every such pair meets and which
//! reads the fewest bytes. The best of five candidates, by the host's own count, is returned:
//!
//! 1. BETA ([`pbg_plugin_sdk::states::elimination`]), so that the result is never worse;
//! 2. a composition of known sequences ([`known`]), labelled so that the first fill has the resident
//!    partitions and large partitions are loaded rarely;
//! 3. random greedy sequences ([`greedy`]), which take empty buckets and two entity types into account;
//! 4. if the sides are not shared, groups of partitions of one side that stay while the other side passes
//!    ([`two_sided`]);
//! 5. for up to eight partitions an exact search ([`exact`]), for more the best of the others improved
//!    by simulated annealing ([`anneal`]). Both are omitted if a lower bound shows that the best of the
//!    others is within a hundredth of the optimum.
//!
//! There is no clock in the sandbox, so work is counted in steps; the same pass gives the same result.

mod anneal;
mod exact;
mod greedy;
mod known;
mod problem;
mod two_sided;

pub use known::swaps as known_swaps;

use pbg_plugin_sdk::{Bucket, Pass, Rng, states};
use problem::{Problem, Walk};

/// Result of a search. Partitions are numbered as in [`Pass::partitions`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// Sequence of buffer states, none with more partitions than the buffer holds.
    pub states: Vec<Vec<usize>>,
    /// Bytes read by the plan that trains each bucket in the first possible state; on grids of more than [`REPLAYED`]
    /// buckets, those of the partitions that each state adds to the previous one, which are no fewer.
    pub bytes: u64,
    /// Whether a lower bound or an exact search has proven that no sequence reads fewer bytes.
    pub proven: bool,
}

/// Number of buckets of a grid above which plans are not replayed to compare sequences, since that takes too long.
pub const REPLAYED: usize = 1 << 17;

/// The expensive searches run only if the possible gain exceeds one part in this many. Partitions of
/// one type may differ in size by a row, which is not worth a search.
const GAIN: u64 = 100;

/// Searches with about a million simple steps per unit of `effort`. `rng` must be a fresh generator of
/// the pass, so that BETA is the same as in the order of that name.
#[must_use]
pub fn search(pass: &Pass, effort: u64, rng: &mut Rng) -> Found {
    let mut best = Found::of(pass, states::elimination(pass, rng));
    let Some(problem) = Problem::new(pass) else {
        return best;
    };
    let steps = effort.saturating_mul(1_000_000);
    let mut walks: Vec<Walk> = known::walk(&problem, rng).into_iter().collect();
    if walks.is_empty() || greedy::steps(&problem) <= steps {
        walks.push(greedy::shortest(&problem, steps / 4, rng));
    }
    walks.extend(two_sided::walk(pass, &problem));
    let mut shortest = None;
    for walk in walks {
        best.consider(pass, &problem, &walk);
        if shortest
            .as_ref()
            .is_none_or(|s: &Walk| problem.cost(&walk) < problem.cost(s))
        {
            shortest = Some(walk);
        }
    }
    let Some(mut walk) = shortest else {
        return best;
    };
    let bound = problem.lower_bound();
    if problem.cost(&walk) <= bound + bound / GAIN {
        best.proven = problem.cost(&walk) <= bound;
        return best;
    }
    if let Some(answer) = exact::search(&problem, problem.cost(&walk), steps / 2) {
        if let Some(shorter) = answer {
            best.consider(pass, &problem, &shorter);
        }
        best.proven = true;
        return best;
    }
    if !known::is_certified(&problem) {
        walk = anneal::shorten(&problem, walk, steps / 2, rng);
        best.consider(pass, &problem, &walk);
    }
    best
}

/// Returns the plan that reads the fewest bytes: that of `found` with each bucket in the first possible state, or the best of
/// `plans`, improved by simulated annealing if it is better. `found` is the result of [`search`] with the same `effort`,
/// after which `rng` continues.
pub fn best_plan(
    pass: &Pass,
    found: &Found,
    plans: impl IntoIterator<Item = Vec<Bucket>>,
    effort: u64,
    rng: &mut Rng,
) -> Vec<Bucket> {
    let mut plan = states::assign_to_first(pass, &found.states);
    let mut bytes = found.bytes;
    if found.proven {
        return plan;
    }
    for other in plans {
        if let Some(fewer) = pass.bytes_below(&other, bytes) {
            (plan, bytes) = (other, fewer);
        }
    }
    let Some(problem) = Problem::new(pass).filter(|_| bytes < found.bytes) else {
        return plan;
    };
    let walk = problem.walk(pass, &plan);
    let shorter = anneal::shorten(&problem, walk, effort.saturating_mul(500_000), rng);
    let shorter = states::assign_to_first(pass, &problem.states(&shorter));
    match pass.bytes_below(&shorter, bytes) {
        Some(_) => shorter,
        None => plan,
    }
}

/// Sorts `items` by ascending key (stable). The key is a `dyn` function so that all callers share one
/// instance: a sort is 8 KB of code, which the host compiles when it loads the plugin.
pub(crate) fn sort_by_number(items: &mut [usize], key: &dyn Fn(usize) -> u64) {
    items.sort_by_key(|&item| key(item));
}

/// Returns the bytes of the partitions that each state adds to the previous one, the first one to the resident ones.
fn added_bytes(pass: &Pass, states: &[Vec<usize>]) -> u64 {
    let mut held = vec![false; pass.partitions()];
    let mut previous: Vec<usize> = pass.resident_partitions().collect();
    let mut bytes = 0;
    for state in states {
        previous
            .iter()
            .for_each(|&partition| held[partition] = true);
        let added = state.iter().filter(|&&partition| !held[partition]);
        bytes += added.map(|&partition| pass.bytes(partition)).sum::<u64>();
        previous
            .iter()
            .for_each(|&partition| held[partition] = false);
        previous.clone_from(state);
    }
    bytes
}

impl Found {
    fn of(pass: &Pass, states: Vec<Vec<usize>>) -> Self {
        let bytes = match pass.edges.len() {
            ..=REPLAYED => pass.traffic(&states::assign_to_first(pass, &states)).bytes,
            _ => added_bytes(pass, &states),
        };
        Self {
            bytes,
            states,
            proven: false,
        }
    }

    fn consider(&mut self, pass: &Pass, problem: &Problem, walk: &Walk) {
        let other = Self::of(pass, problem.states(walk));
        if other.bytes < self.bytes {
            *self = other;
        }
    }
}

#[cfg(test)]
mod tests;
