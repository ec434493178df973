//! Measurements, each beside its ceiling taken in the same run. No run trains with what is here.

mod clocks;
mod cluster;
mod eval;
mod import;
mod kernels;
mod steps;
mod storage;
mod throughput;

pub use clocks::process_cpu_seconds;
pub use cluster::{ClusterReport, Pace, cluster};
pub use eval::{EvalSpeed, eval};
pub use import::{ImportSpeed, import};
pub use kernels::{StepCase, StepReport, step, step_cases};
pub use steps::Steps;
pub use storage::{Rate, StorageReport, storage};

use pbg_train::{Resolved, RunError};

/// Edges per CPU-second that the matrix products of the first relation alone would allow.
///
/// # Errors
/// When libtorch fails.
pub fn ceiling(resolved: &Resolved) -> Result<f64, RunError> {
    let (config, blueprint) = (resolved.config(), resolved.blueprint());
    let relation = &blueprint.spec.relations[0];
    let rows = &blueprint.layout.types[relation.rhs].rows;
    let entities = rows.iter().copied().max().unwrap_or(1) as usize;
    let (batch, precision) = (config.batch_size as usize, config.execution.precision);
    throughput::ceiling(&blueprint.spec, batch, entities, precision)
}
