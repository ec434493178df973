//! Runs the model checker.

use stateright::{Checker, HasDiscoveries, Model as _};

use super::world::Model;

/// Visits every world of `model`.
///
/// # Panics
/// Panics when a world breaks an invariant, and shows the steps that lead to it. Panics when there are fewer worlds
/// than `at_least`.
pub(super) fn holds(model: Model, at_least: usize) {
    let any = HasDiscoveries::AnyFailures;
    let checker = model.checker().finish_when(any).spawn_bfs().join();
    if let Some((name, path)) = checker.discoveries().into_iter().next() {
        let world = path.last_state().clone();
        let steps: Vec<String> = path
            .into_actions()
            .iter()
            .map(|s| format!("{s:?}"))
            .collect();
        panic!("{name}\n{}\n{world:#?}", steps.join("\n"));
    }
    let worlds = checker.unique_state_count();
    assert!(worlds >= at_least, "only {worlds} worlds");
}

/// Returns the number of steps that lead to a world of `model` that breaks `invariant`.
///
/// # Panics
/// Panics when there is no such world.
pub(super) fn breaks(model: Model, invariant: &str) -> usize {
    let properties = model.properties();
    let name = properties
        .iter()
        .map(|p| p.name)
        .find(|name| name.starts_with(invariant));
    let name = name.expect("an invariant");
    let wanted = HasDiscoveries::AnyOf([name].into());
    let checker = model.checker().finish_when(wanted).spawn_bfs().join();
    let path = checker.discovery(name);
    path.expect("a world that breaks it").into_actions().len()
}
