//! Comparators in the sandbox: valid formulas arrive unchanged, and invalid ones are refused.

use crate::sandbox::support::sandbox;
use pbg_formula::comparator::ComparatorFormula;
use pbg_plugin_sdk::TracedComparator;
use pbg_plugin_sdk::testing::comparator_with_defaults;
use pbg_wasm::{Limits, LoadError, PluginSlot, PluginSource, Sandbox};
use serde_json::{Value, json};

fn loaded(name: &str, parameters: &Value) -> Result<ComparatorFormula, LoadError> {
    let source = PluginSource::resolve(name)?;
    let plugin = sandbox().open(source)?;
    Ok(plugin.into_comparator(parameters)?.formula)
}

/// Asserts that the formula from the sandbox equals the natively traced one.
fn assert_same<C: TracedComparator>(name: &str) {
    let found = loaded(name, &Value::Null).expect("it loads");
    assert_eq!(found.name(), name);
    assert_eq!(*found.definition(), comparator_with_defaults::<C>());
}

#[test]
fn standard_comparators_arrive_as_they_were_written() {
    assert_same::<hyperbolic::Hyperbolic>("hyperbolic");
}

#[test]
fn parameters_decide_the_formula() {
    let pair = ([0.5, -1.0], [1.5, 2.0]);
    let score = |parameters: Value| {
        let formula = loaded("hyperbolic", &parameters).expect("it loads");
        formula.compare(&pair.0, &pair.1).score
    };
    let once = score(json!({ "squared": false }));
    let squared = score(json!({ "squared": true }));
    assert!((once * once + squared).abs() < 1e-9, "{once}, {squared}");
    let flat = score(json!({ "squared": false, "curvature": 1e-6 }));
    assert!((flat + 10_f64.sqrt()).abs() < 1e-3, "{flat}");
}

#[test]
fn a_plugin_of_another_kind_is_no_comparator() {
    let error = loaded("rotate", &Value::Null).expect_err("an operator");
    let LoadError::WrongKind {
        found, expected, ..
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!(
        (found, expected),
        (PluginSlot::TracedOperator, PluginSlot::Comparator)
    );
    let error = loaded("hyperbolic", &json!({ "angle": 1.0 })).expect_err("no such parameter");
    assert!(matches!(error, LoadError::Parameters { .. }), "{error}");
}

#[test]
fn a_formula_has_the_nodes_that_are_granted() {
    let limits = Limits {
        graph_nodes: 3,
        ..Limits::default()
    };
    let source = PluginSource::resolve("hyperbolic").expect("a standard plugin");
    let sandbox = Sandbox::new(limits).expect("the sandbox starts");
    let plugin = sandbox.open(source).expect("it opens");
    let loaded = plugin.into_comparator(&Value::Null);
    let error = loaded.map(|comparator| comparator.id);
    let error = error.expect_err("too many nodes").to_string();
    assert!(
        error.contains("build") && error.contains("more than the 3"),
        "{error}"
    );
}
