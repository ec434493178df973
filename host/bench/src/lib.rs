//! Measurements of speed, each next to a ceiling that is measured in the same run. Training does not use this crate.

mod clocks;
mod cluster;
mod eval;
mod import;
mod kernels;
mod steps;
mod storage;
mod throughput;

pub use clocks::process_cpu_seconds;
pub use cluster::{BucketDuration, ClusterReport, cluster};
pub use eval::{EvalBenchReport, eval};
pub use import::{ImportBenchReport, import};
pub use kernels::{StepCase, StepReport, step, step_cases};
pub use steps::{StepBench, StepSizes};
pub use storage::{IoRate, StorageReport, storage};

use pbg_model::{ResolvedConfig, RunError};

/// Returns the edges per CPU-second if training consisted only of the matrix products of the first relation, with its
/// largest right partition.
///
/// # Errors
/// When libtorch fails.
pub fn ceiling(resolved: &ResolvedConfig) -> Result<f64, RunError> {
    let (config, blueprint) = (resolved.config(), resolved.blueprint());
    let relation = &blueprint.spec.relations[0];
    let rows = &blueprint.layout.types[relation.rhs].rows;
    let entities = rows.iter().copied().max().unwrap_or(1) as usize;
    let (batch, precision) = (config.batch_size as usize, config.execution.precision);
    throughput::ceiling(&blueprint.spec, batch, entities, precision)
}
