//! Speed of ranking, compared with the matrix products that score candidates.

use std::time::Duration;

use pbg_core::model::Precision;
use pbg_kernels::libtorch::ProductShape;
use pbg_model::memory::peak_bytes;
use pbg_model::{ResolvedConfig, RunError};
use pbg_query::{CandidateSet, EvalOptions, EvalReport};
use serde::Serialize;

use crate::clocks::process_cpu_seconds;
use crate::throughput;

/// Number of queries that the matrix product of the ceiling scores at once.
const QUERIES: i64 = 512;
/// Number of candidates of that product.
const CANDIDATES: i64 = 4096;

/// Results of `bench eval`.
#[derive(Clone, Debug, Serialize)]
pub struct EvalBenchReport {
    /// Report of the evaluation.
    pub report: EvalReport,
    /// Number of scores computed: one for each edge, side and candidate.
    pub scores: f64,
    /// Wall-clock seconds, including reading the model and the edges.
    pub wall_seconds: f64,
    /// CPU seconds, summed over all threads.
    pub cpu_seconds: f64,
    /// Scores per CPU-second.
    pub scores_per_cpu_second: f64,
    /// Scores per CPU-second if ranking consisted only of its matrix products, computed by libtorch on this machine.
    pub ceiling: f64,
    /// Peak memory of the process in bytes.
    pub peak_bytes: Option<u64>,
}

/// Ranks edges like [`ResolvedConfig::evaluate`], and measures the time.
///
/// # Errors
/// When the edges cannot be ranked, or libtorch fails.
pub fn eval(
    resolved: &ResolvedConfig,
    options: &EvalOptions,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<EvalBenchReport, RunError> {
    let blueprint = resolved.blueprint();
    let relation = &blueprint.spec.relations[0];
    let of_type = |entity: usize| blueprint.layout.types[entity].rows.iter().sum::<u64>() as f64;
    let candidates = match options.candidates {
        CandidateSet::All => of_type(relation.lhs) + of_type(relation.rhs),
        CandidateSet::Sample(n) => 2.0 * f64::from(n),
    };
    let dimension = blueprint.spec.entities[relation.rhs].dimension;

    let cpu = process_cpu_seconds();
    let report = pbg_query::evaluate(resolved, options, progress)?;
    let cpu_seconds = process_cpu_seconds() - cpu;
    let scores = report.raw.count as f64 * candidates;
    let shape = ProductShape {
        batch: 1,
        rows: QUERIES,
        inner: dimension as i64,
        columns: CANDIDATES,
    };
    let rate = throughput::bmm_rate(shape, Precision::Fp32, Duration::from_secs(1))?;
    Ok(EvalBenchReport {
        scores,
        wall_seconds: report.seconds,
        cpu_seconds,
        scores_per_cpu_second: scores / cpu_seconds,
        ceiling: rate / (2.0 * dimension as f64),
        peak_bytes: peak_bytes(),
        report,
    })
}
