//! Runs the checker.

use stateright::{Checker, HasDiscoveries, Model as _};

use super::world::Model;

/// Visits every world of `model`.
///
/// # Panics
/// When one breaks an invariant; the steps to it are then shown. When there are fewer worlds than `at_least`.
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

/// How many steps lead to a world of `model` that breaks `invariant`.
///
/// # Panics
/// When there is none.
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
