//! Entities and relations that the edges to rank have and the trained edges lack: the model has learned nothing about
//! them.

use pbg_dataset::describe::{TrainedVocabulary, UnseenCounts};
use pbg_model::error::RunError;
use pbg_model::resolved::ResolvedConfig;

use super::options::EvalOptions;

/// Entities and relations of the trained edges.
pub(super) struct SeenCoverage {
    seen: Option<TrainedVocabulary>,
    /// Entities and relations of the ranked edges that no trained edge has; `None` if the ranked edges are trained, or
    /// the dataset lacks a trained edge set.
    pub(super) unseen: Option<UnseenCounts>,
}

impl SeenCoverage {
    /// Reads the trained edges, and the edges that `options` names.
    ///
    /// # Errors
    /// When edges cannot be read, or when `options` restricts the ranking to seen edges and the dataset lacks trained
    /// ones.
    pub(super) fn of(resolved: &ResolvedConfig, options: &EvalOptions) -> Result<Self, RunError> {
        let (dataset, trained) = (resolved.dataset(), &resolved.config().edge_sets);
        if options.seen {
            resolved.edge_sets()?;
        }
        if !counts(resolved, options) {
            return Ok(Self {
                seen: None,
                unseen: None,
            });
        }
        let set = dataset.edge_set(&options.edges)?;
        let seen = TrainedVocabulary::of(dataset, trained, options.threads, &mut go_on)?;
        let unseen = seen.unseen(&set, &mut go_on)?;
        Ok(Self {
            seen: Some(seen),
            unseen: Some(unseen),
        })
    }

    /// Returns the entities and relations that ranked edges must have, if `options` restricts the ranking to seen
    /// edges.
    pub(super) fn required(&self, options: &EvalOptions) -> Option<&TrainedVocabulary> {
        self.seen.as_ref().filter(|_| options.seen)
    }
}

/// Whether the dataset has all trained edge sets, so that edges can be compared with them.
fn counts(resolved: &ResolvedConfig, options: &EvalOptions) -> bool {
    let sets = &resolved.dataset().manifest().edge_sets;
    let mut trained = resolved.config().edge_sets.iter();
    !trained.clone().any(|name| *name == options.edges)
        && trained.all(|name| sets.contains_key(name))
}

/// Returns the largest memory that [`SeenCoverage::of`] needs, in bytes.
pub(super) fn bytes(resolved: &ResolvedConfig, options: &EvalOptions) -> u64 {
    match counts(resolved, options) {
        true => {
            TrainedVocabulary::bytes(resolved.dataset())
                + TrainedVocabulary::reading_bytes(resolved.dataset(), options.threads)
        }
        false => 0,
    }
}

fn go_on(_edges: u64) -> std::ops::ControlFlow<()> {
    std::ops::ControlFlow::Continue(())
}
