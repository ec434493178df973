//! Calibration of a model, in the JSON form of the package.

use pbg_model::ResolvedConfig;
use pbg_query::{Calibration, CalibrationOptions};
use pbg_session::Result;
use serde::Deserialize;

use crate::question::edge_sets;

/// Options of a calibration.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct CalibrationRequest {
    edges: String,
    negatives: u32,
    limit: u32,
    /// Edge sets whose edges are no negatives; `None` for all of the dataset.
    filter: Option<Vec<String>>,
}

impl CalibrationRequest {
    /// Fits and stores probabilities. Returns them with a warning if there is one.
    pub(crate) fn run(self, resolved: &ResolvedConfig) -> Result<(Calibration, Option<String>)> {
        let options = CalibrationOptions {
            edges: self.edges,
            negatives: self.negatives,
            limit: self.limit,
            filter: self.filter.unwrap_or_else(|| edge_sets(resolved)),
        };
        let made = pbg_query::calibrate(resolved, &options)?;
        let edges = &made.edges;
        let is_trained = resolved.config().edge_sets.contains(edges);
        let warning = is_trained.then(|| {
            format!(
                "edge set {edges} is trained, so its scores are too high for edges that are not known; choose a set \
                 that is not trained"
            )
        });
        Ok((made, warning))
    }
}
