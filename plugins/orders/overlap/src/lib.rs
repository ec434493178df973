//! The least predicted stall: loads hide behind training.
//!
//! Ours. Reading ahead lets a load take place while buckets are trained. How much of it training
//! hides depends on where the buckets are: `beta` trains most of them early, so that its last
//! loads have nothing to hide behind. This order takes sequences of states with few loads
//! ([`pbg_order_search`] and BETA) and gives each bucket to one of the states that hold its
//! partitions such that each state has work for as long as the next load takes:
//!
//! go through the states; in each, train the buckets that no later state can train, then, as long
//! as the next load is not covered, those whose last chance comes first. For buckets of equal size
//! whose partitions meet in one stretch this covers as much as can be covered (Glover, "Maximum
//! matching in a convex bipartite graph", 1967).
//!
//! Each candidate is put on a clock ([`clock`]) with the rates of the parameters, and the one that
//! stalls least is taken, at equal stall the one that reads least. It never stalls longer, by that
//! clock, than `beta` or `optimal` with the same seed. The rates should be measured ones: `pbg-host
//! train` reports edges and bytes per second. Those that are not set are the ones that `pbg-host
//! orders` predicts stalls for: 400,000 edges/s, and 400 MB/s each way as of a network disk.

pub mod clock;
mod level;

use clock::Rates;
use pbg_plugin_sdk::{
    Bucket, Metadata, Order, Parameter, Parameters, Pass, Result, export_order, states,
};
use serde::Deserialize;

/// The order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Overlap {
    rates: Rates,
    search: Search,
}

/// How states are looked for.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct Search {
    effort: u64,
}

/// Buckets of a grid beyond which fewer candidates compete.
const LARGE: usize = 1 << 14;

impl Order for Overlap {
    fn metadata() -> Metadata {
        let rate = |name, default: f64, doc| Parameter::number(name, default, 1e-3..=1e18, doc);
        Metadata::new(
            "overlap",
            env!("CARGO_PKG_VERSION"),
            "Spreads work over loads so that training hides them.",
        )
        .parameter(rate(
            "read_bytes_per_second",
            4e8,
            "Bytes that the disk reads per second.",
        ))
        .parameter(rate(
            "write_bytes_per_second",
            4e8,
            "Bytes that the disk writes per second.",
        ))
        .parameter(rate(
            "edges_per_second",
            4e5,
            "Edges that are trained per second.",
        ))
        .parameter(Parameter::boolean(
            "spare_slot",
            true,
            "Whether what is read ahead waits beside the buffer, as in pbg-host; without, a read \
             begins when what it replaces is not in use any more and has been written.",
        ))
        .parameter(Parameter::integer(
            "effort",
            5,
            0..=1_000_000,
            "Work of the search in millions of steps, as in the order optimal.",
        ))
    }

    fn configure(&mut self, parameters: &Parameters) -> Result<()> {
        self.rates = parameters.parse()?;
        self.search = parameters.parse()?;
        Ok(())
    }

    fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>> {
        let elimination = states::elimination(pass, &mut pass.rng());
        let found = pbg_order_search::search(pass, self.search.effort, &mut pass.rng()).states;
        let mut best: Option<(f64, Vec<Bucket>)> = None;
        let mut consider = |plan: Vec<Bucket>| {
            let stall = clock::stall(pass, &plan, &self.rates);
            let bytes = |plan: &[Bucket]| pass.traffic(plan).bytes;
            let better = best.as_ref().is_none_or(|(least, other)| {
                stall < *least || (stall == *least && bytes(&plan) < bytes(other))
            });
            if better {
                best = Some((stall, plan));
            }
        };
        // Putting a plan on the clock takes its time.
        let shares: &[f64] = if pass.edges.len() <= LARGE {
            &[0.5, 1.0, 2.0]
        } else {
            &[1.0]
        };
        for states in [found, elimination] {
            consider(states::assign_to_first(pass, &states));
            let states = level::filled_one_by_one(pass, states);
            for &share in shares {
                consider(level::plan(pass, &states, &self.rates, share));
            }
        }
        Ok(best.map(|(_, plan)| plan).unwrap_or_default())
    }
}

export_order!(Overlap);

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_plugin_sdk::testing;

    #[test]
    fn keeps_the_contract() {
        testing::assert_order::<Overlap>();
    }

    /// BETA's plan with the same seed.
    fn beta(pass: &Pass) -> Vec<Bucket> {
        states::assign_to_first(pass, &states::elimination(pass, &mut pass.rng()))
    }

    #[test]
    fn it_stalls_less_than_beta() {
        for (p, c) in [(16, 4), (16, 8), (32, 8)] {
            for spare_slot in [true, false] {
                let mut order: Overlap = testing::with_defaults();
                order.rates.spare_slot = spare_slot;
                let mut pass = Pass::uniform(p, p, 1);
                pass.buffer_partitions = c;
                // Training takes as long as loading, all in all.
                let io = pass.traffic(&beta(&pass)).bytes as f64 * 2.0 / 4e8;
                let edges = pass.edges.iter().sum::<u64>() as f64;
                order.rates.edges_per_second = edges / io;
                let plan = order.plan(&pass).expect("it plans");
                let stall = |plan: &[Bucket]| clock::stall(&pass, plan, &order.rates);
                let (ours, theirs) = (stall(&plan), stall(&beta(&pass)));
                assert!(
                    ours < 0.9 * theirs,
                    "p={p} c={c} {spare_slot}: {ours}, beta {theirs}"
                );
            }
        }
    }
}
