//! Searches sequences of buffer states that load few bytes; what the orders `optimal` and
//! `overlap` have in common.
//!
//! The question: given partitions with sizes, the pairs of them that have edges between them, a
//! buffer and what is in it, which sequence of loads lets every such pair meet and reads the
//! fewest bytes? Four answers compete, and the best one by the host's own count wins:
//!
//! 1. BETA ([`pbg_plugin_sdk::states::elimination`]), so that no answer is worse;
//! 2. a composition of published and found sequences ([`known`]), whose labels are given to
//!    partitions so that what is resident comes first and large partitions are loaded seldom;
//! 3. random greedy walks ([`greedy`]), which know of empty buckets and of two entity types;
//! 4. up to eight partitions, an exact search ([`exact`]); beyond, the best of the others made
//!    shorter by simulated annealing ([`anneal`]). Neither where a lower bound shows that the best
//!    of the others is within a hundredth of the shortest.
//!
//! There is no clock in the sandbox, so work is counted; the same pass gives the same answer.

mod anneal;
mod exact;
mod greedy;
mod known;
mod problem;

pub use known::swaps as known_swaps;

use pbg_plugin_sdk::{Pass, Rng, states};
use problem::{Problem, Walk};

/// The states of a plan, numbered as [`Pass::partitions`] does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The states, none with more partitions than the buffer holds.
    pub states: Vec<Vec<usize>>,
    /// Bytes that the plan of these states reads: each bucket in the first state that can train it.
    pub bytes: u64,
    /// Whether a lower bound or an exact search showed that no sequence reads less.
    pub proven: bool,
}

/// What could be gained at most must be one part in this many for a search to begin: partitions of
/// one type differ by a row, which is nothing to search for.
const GAIN: u64 = 100;

/// Searches with about a million simple steps per unit of `effort`. `rng` is the pass's own, fresh:
/// BETA is then the same as in the order of that name.
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
    let mut shortest = None;
    for walk in walks {
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
    best.consider(pass, &problem, &walk);
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

/// Ascending by key, equal ones as they were. One for all keys: a sort is 8 KB of code, which the
/// host compiles whenever it loads the plugin anew.
pub fn sort_by_number(items: &mut [usize], key: &dyn Fn(usize) -> u64) {
    items.sort_by_key(|&item| key(item));
}

impl Found {
    fn of(pass: &Pass, states: Vec<Vec<usize>>) -> Self {
        let plan = states::assign_to_first(pass, &states);
        Self {
            bytes: pass.traffic(&plan).bytes,
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
