//! The order with the least predicted stall: loads overlap with training.

pub mod clock;
mod level;

use clock::Rates;
use pbg_plugin_sdk::{Bucket, Pass, states};

/// Number of buckets of a grid above which fewer candidates are simulated.
const LARGE: usize = 1 << 14;

/// Returns the plan of `overlap` with the least stall at `rates`, on a tie the one that reads the fewest bytes; `effort`
/// is the work of the search in millions of steps.
#[must_use]
pub fn plan(pass: &Pass, rates: &Rates, effort: u64) -> Vec<Bucket> {
    let found = pbg_order_search::search(pass, effort, &mut pass.rng()).states;
    let mut best: Option<(f64, Vec<Bucket>)> = None;
    for plan in candidates(pass, found, *rates) {
        let stall = clock::stall(pass, &plan, rates);
        let bytes = |plan: &[Bucket]| pass.traffic(plan).bytes;
        let better = best.as_ref().is_none_or(|(least, other)| {
            stall < *least || (stall == *least && bytes(&plan) < bytes(other))
        });
        if better {
            best = Some((stall, plan));
        }
    }
    best.map(|(_, plan)| plan).unwrap_or_default()
}

/// Returns the plans that `overlap` chooses from: `found`, a sequence of states with few loads, and BETA, each with buckets
/// in the first possible state or distributed over the loads.
pub fn candidates(
    pass: &Pass,
    found: Vec<Vec<usize>>,
    rates: Rates,
) -> impl Iterator<Item = Vec<Bucket>> {
    // Simulating a plan is expensive.
    let shares: &[f64] = if pass.edges.len() <= LARGE {
        &[0.5, 1.0, 2.0]
    } else {
        &[1.0]
    };
    let elimination = states::elimination(pass, &mut pass.rng());
    [found, elimination].into_iter().flat_map(move |states| {
        let first = states::assign_to_first(pass, &states);
        let states = level::filled_one_by_one(pass, states);
        let last_chances = level::last_chances(pass, &states);
        let levelled = shares
            .iter()
            .map(move |&share| level::plan(pass, &states, &last_chances, &rates, share));
        std::iter::once(first).chain(levelled)
    })
}
