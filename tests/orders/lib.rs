//! Conversion of passes to the host's types. The host counts loads independently of the plugins.

use pbg_core::graph::{Bucket, Side};
use pbg_core::plan::{self, PlanCost};
use pbg_core::strategy;
use pbg_plugin_sdk as sdk;

/// Converts a pass to the host's type.
#[must_use]
pub fn of_host(pass: &sdk::Pass) -> strategy::Pass {
    let side = |side| match side {
        sdk::Side::Lhs => Side::Lhs,
        sdk::Side::Rhs => Side::Rhs,
    };
    strategy::Pass {
        lhs_partitions: pass.lhs_partitions,
        rhs_partitions: pass.rhs_partitions,
        shared: pass.shared,
        edges: pass.edges.clone(),
        lhs_bytes: pass.lhs_bytes.clone(),
        rhs_bytes: pass.rhs_bytes.clone(),
        buffer_partitions: pass.buffer_partitions,
        resident: pass.resident.iter().map(|&(s, p)| (side(s), p)).collect(),
        epoch: pass.epoch,
        edge_set: pass.edge_set,
        edge_chunk: pass.edge_chunk,
        seed: pass.seed,
    }
}

/// Returns the host's cost of a plan.
///
/// # Panics
/// Panics if the plan is not a permutation of the grid.
#[must_use]
pub fn cost(pass: &sdk::Pass, plan: &[sdk::Bucket]) -> PlanCost {
    let pass = of_host(pass);
    let plan: Vec<Bucket> = plan.iter().map(|b| Bucket::new(b.lhs, b.rhs)).collect();
    assert_eq!(plan::check(&pass, &plan), Ok(()));
    plan::cost(&pass, &plan)
}
