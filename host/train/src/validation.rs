//! Settings of validation between epochs, in runs with one and with several trainers.

use pbg_config::Config;
use pbg_dataset::Dataset;
use pbg_model::error::RunError;
use pbg_model::resolved::ResolvedConfig;
use pbg_query::evaluate::{CandidateSet, EvalOptions};

/// Checks that the dataset has the edge sets that validation reads, so that a missing one is an error before the first
/// epoch and not after it.
///
/// # Errors
/// When the dataset lacks one of them.
pub fn check(config: &Config, dataset: &Dataset) -> Result<(), RunError> {
    let Some(edges) = &config.validation.edges else {
        return Ok(());
    };
    for name in config.validation_filter().iter().chain([edges]) {
        dataset.edge_set(name)?;
    }
    Ok(())
}

/// Returns the options of a validation after an epoch.
#[must_use]
pub fn options(resolved: &ResolvedConfig, edges: &str) -> EvalOptions {
    let config = resolved.config();
    let rules = &config.validation;
    EvalOptions {
        edges: edges.to_owned(),
        filter: config.validation_filter(),
        candidates: rules
            .candidates
            .map_or(CandidateSet::All, CandidateSet::Sample),
        threads: Some(resolved.settings().workers),
        limit: rules.limit.map(|limit| limit as usize),
        by: None,
        seen: false,
    }
}
