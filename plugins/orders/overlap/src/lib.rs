//! Order with the least predicted stall: loads overlap with training.
//!
//! With reading ahead, a load takes place while buckets are trained. How much of the load is hidden
//! depends on the positions of the buckets: `beta` trains most of them early, so that its last loads
//! have little training to overlap with. This order takes sequences of states with few loads
//! ([`pbg_order_search`] and BETA) and assigns each bucket to one of the states that hold its
//! partitions, so that each state has work for as long as the next load takes:
//!
//! In each state, it trains the buckets that no later state can train. Then, while the next load is
//! not covered, it adds the buckets whose last possible state comes first. For buckets of equal size
//! whose possible states are consecutive, this covers as much as possible (Glover, "Maximum matching
//! in a convex bipartite graph", 1967).
//!
//! The time of each candidate is simulated ([`clock`]) with the rates of the parameters. The candidate
//! with the least stall is taken, on a tie the one that reads the fewest bytes. By this simulation, it
//! never stalls longer than `beta` or `optimal` with the same seed. The rates should be measured:
//! `pbg-host train` reports edges and bytes per second. The defaults are those with which `pbg-host
//! orders` predicts stalls: 400,000 edges/s, and 400 MB/s each way, as of a network disk.

use pbg_order_plans::overlap::clock::Rates;
use pbg_plugin_sdk::{Bucket, Metadata, Order, Parameter, Parameters, Pass, Result, export_order};
use serde::Deserialize;

/// The order.
#[derive(Clone, Copy, Debug, Default)]
pub struct Overlap {
    rates: Rates,
    search: Search,
}

/// Parameters of the search for states.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
struct Search {
    effort: u64,
}

impl Order for Overlap {
    fn metadata() -> Metadata {
        let rates = Rates::default();
        let rate = |name, default: f64, doc| Parameter::number(name, default, 1e-3..=1e18, doc);
        Metadata::new(
            "overlap",
            env!("CARGO_PKG_VERSION"),
            "Distributes buckets over loads so that loads overlap with training.",
        )
        .parameter(rate(
            "read_bytes_per_second",
            rates.read_bytes_per_second,
            "Bytes that the disk reads per second.",
        ))
        .parameter(rate(
            "write_bytes_per_second",
            rates.write_bytes_per_second,
            "Bytes that the disk writes per second.",
        ))
        .parameter(rate(
            "edges_per_second",
            rates.edges_per_second,
            "Edges trained per second.",
        ))
        .parameter(Parameter::boolean(
            "spare_slot",
            rates.spare_slot,
            "Whether partitions that are read ahead are held outside the buffer, as in pbg-host. If false, a read \
             begins once the partition that it replaces is no longer in use and has been written.",
        ))
        .parameter(Parameter::integer(
            "effort",
            10,
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
        Ok(pbg_order_plans::overlap::plan(
            pass,
            &self.rates,
            self.search.effort,
        ))
    }
}

export_order!(Overlap);

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_order_plans::overlap::clock;
    use pbg_plugin_sdk::{states, testing};

    #[test]
    fn keeps_the_contract() {
        testing::assert_order::<Overlap>();
    }

    /// Returns BETA's plan with the same seed.
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
                // Training takes as long as loading in total.
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
