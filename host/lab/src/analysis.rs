//! All figures of one plan by which orders are compared.

use serde::{Deserialize, Serialize};

use crate::bound;
use crate::replay::BufferReplay;
use crate::reuse::ReuseDistances;
use crate::stall::{DeviceRates, LoadPolicy, PassTimeline};
use crate::structure::{BufferStates, ProgressBias, new_pairs_per_swap};
use pbg_core::graph::Bucket;
use pbg_core::strategy::Pass;

/// Cost and structure of a plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Analysis {
    /// Number of partitions loaded into the buffer.
    pub loads: u64,
    /// Number of loads into a full buffer.
    pub swaps: u64,
    /// Lower bound on the swaps of any order.
    pub lower_bound: u64,
    /// Bytes of partitions that enter the buffer, the first fill included; `bytes_read` of a run.
    pub bytes_read: u64,
    /// Bytes of trained partitions that leave the buffer; `bytes_written` of a run.
    pub bytes_written: u64,
    /// Bytes of the trained partitions in the buffer at the end, which the checkpoint after the pass writes.
    pub bytes_final: u64,
    /// Mean number of other partitions used between two uses of the same partition.
    pub reuse_distance: f64,
    /// Mean number of pairs of partitions that a swap brings together for the first time.
    pub new_pairs_per_swap: f64,
    /// Numbers of buckets between swaps.
    pub states: BufferStates,
    /// Unevenness of the partitions' progress.
    pub bias: ProgressBias,
    /// Seconds of computing.
    pub compute_seconds: f64,
    /// Seconds for which training stalls if partitions are loaded on demand.
    pub stall_on_demand: f64,
    /// Seconds for which training stalls if partitions are prefetched.
    pub stall_ahead: f64,
}

impl Analysis {
    /// Analyses `plan` at the given rates.
    #[must_use]
    pub fn new(pass: &Pass, plan: &[Bucket], rates: &DeviceRates) -> Self {
        let replay = BufferReplay::new(pass, plan, pass.buffer_partitions);
        let clock = |loading| PassTimeline::new(pass, plan, &replay, rates, loading);
        let demand = clock(LoadPolicy::OnDemand);
        Self {
            loads: replay.loads.len() as u64,
            swaps: replay.swaps(),
            lower_bound: bound::swaps(pass, pass.buffer_partitions),
            bytes_read: replay.read_bytes(),
            bytes_written: replay.written_bytes(),
            bytes_final: replay.left_bytes,
            reuse_distance: ReuseDistances::new(pass, plan).mean(),
            new_pairs_per_swap: new_pairs_per_swap(pass, &replay),
            states: BufferStates::new(pass, plan, &replay),
            bias: ProgressBias::new(pass, plan),
            compute_seconds: pass.edges.iter().sum::<u64>() as f64 / rates.edges,
            stall_on_demand: demand.stalled(),
            stall_ahead: clock(LoadPolicy::Ahead).stalled(),
        }
    }

    /// Swaps divided by their lower bound; `None` where no order needs to swap.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        (self.lower_bound > 0).then(|| self.swaps as f64 / self.lower_bound as f64)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing::{any_pass_and_plan, lexicographic, pass};
    use pbg_core::plan::cost;

    const RATES: DeviceRates = DeviceRates {
        edges: 100.0,
        read: 1e6,
        write: 1e6,
    };

    proptest! {
        #[test]
        fn agrees_with_what_training_predicts((pass, plan) in any_pass_and_plan()) {
            let analysis = Analysis::new(&pass, &plan, &RATES);
            let cost = cost(&pass, &plan);
            prop_assert_eq!((analysis.loads, analysis.swaps), (cost.loads, cost.swaps));
            prop_assert!(analysis.stall_ahead <= analysis.stall_on_demand + 1e-9);
            prop_assert!(analysis.ratio().is_none_or(|ratio| ratio >= 1.0));
        }
    }

    #[test]
    fn a_grid_that_fits_swaps_nothing() {
        let analysis = Analysis::new(&pass(4, 4), &lexicographic(4), &RATES);
        assert_eq!((analysis.swaps, analysis.loads), (0, 4));
        assert_eq!(analysis.ratio(), None);
        assert_eq!(analysis.states.max, 16);
    }
}
