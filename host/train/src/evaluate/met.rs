//! What the trained edges have that the edges to be ranked lack: a model has learned nothing about it.

use pbg_store::describe::{Seen, Unseen};

use super::EvalOptions;
use crate::error::RunError;
use crate::resolved::Resolved;

/// What is known of the entities and relations of the trained edges.
pub(super) struct Met {
    seen: Option<Seen>,
    /// What the ranked edges have besides; none where they are trained, or the dataset lacks what was trained.
    pub(super) unseen: Option<Unseen>,
}

impl Met {
    /// Reads the trained edges, and those that `options` names.
    ///
    /// # Errors
    /// When edges cannot be read; when `options` asks for seen edges alone, and the dataset lacks trained ones.
    pub(super) fn of(resolved: &Resolved, options: &EvalOptions) -> Result<Self, RunError> {
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
        let seen = Seen::of(dataset, trained, options.threads, &mut go_on)?;
        let unseen = seen.unseen(&set, &mut go_on)?;
        Ok(Self {
            seen: Some(seen),
            unseen: Some(unseen),
        })
    }

    /// What ranked edges have to have, if `options` asks for that.
    pub(super) fn required(&self, options: &EvalOptions) -> Option<&Seen> {
        self.seen.as_ref().filter(|_| options.seen)
    }
}

/// Whether the dataset has what was trained, so that it can be compared.
fn counts(resolved: &Resolved, options: &EvalOptions) -> bool {
    let sets = &resolved.dataset().manifest().edge_sets;
    let mut trained = resolved.config().edge_sets.iter();
    !trained.clone().any(|name| *name == options.edges)
        && trained.all(|name| sets.contains_key(name))
}

/// Memory that [`Met::of`] takes at most.
pub(super) fn bytes(resolved: &Resolved, options: &EvalOptions) -> u64 {
    match counts(resolved, options) {
        true => {
            Seen::bytes(resolved.dataset())
                + Seen::reading_bytes(resolved.dataset(), options.threads)
        }
        false => 0,
    }
}

fn go_on(_edges: u64) -> std::ops::ControlFlow<()> {
    std::ops::ControlFlow::Continue(())
}
