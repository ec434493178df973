//! Measurements of speed, each next to a ceiling that is measured in the same run. Training does not use this crate.

mod clocks;
mod cluster;
mod eval;
mod import;
mod kernels;
mod products;
mod steps;
mod storage;
mod throughput;

pub use clocks::process_cpu_seconds;
pub use cluster::{BucketDuration, ClusterReport, cluster};
pub use eval::{EvalBenchReport, eval};
pub use import::{ImportBenchReport, import};
pub use kernels::{StepCase, StepReport, step, step_cases};
pub use products::products_together;
pub use steps::{StepBench, StepSizes};
pub use storage::{IoRate, StorageReport, storage};

use pbg_model::{ResolvedConfig, RunError};

/// Returns the edges per CPU-second if training consisted only of the matrix products of the first relation, with its
/// largest right partition.
///
/// # Errors
/// When libtorch fails.
pub fn ceiling(resolved: &ResolvedConfig) -> Result<f64, RunError> {
    let config = resolved.config();
    let (batch, precision) = (config.batch_size as usize, config.execution.precision);
    let spec = &resolved.blueprint().spec;
    throughput::ceiling(spec, batch, entities(resolved), precision)
}

/// Returns the number of entities in the largest right partition of the first relation.
fn entities(resolved: &ResolvedConfig) -> usize {
    let blueprint = resolved.blueprint();
    let rows = &blueprint.layout.types[blueprint.spec.relations[0].rhs].rows;
    rows.iter().copied().max().unwrap_or(1) as usize
}
