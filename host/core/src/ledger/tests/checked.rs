//! Runs the checker.

use stateright::{Checker, HasDiscoveries, Model as _};

use super::world::Model;

/// Visits every world of `model`.
///
/// # Panics
/// When one breaks an invariant; the steps to it are then shown.
pub(super) fn holds(model: Model) -> usize {
    let checker = model
        .checker()
        .finish_when(HasDiscoveries::AnyFailures)
        .spawn_bfs()
        .join();
    for (name, path) in checker.discoveries() {
        let steps: Vec<String> = path
            .clone()
            .into_actions()
            .iter()
            .map(|s| format!("{s:?}"))
            .collect();
        panic!("{name}\n{}\n{:#?}", steps.join("\n"), path.last_state());
    }
    checker.unique_state_count()
}
