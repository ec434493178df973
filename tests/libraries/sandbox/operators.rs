//! Operators in the sandbox: valid formulas arrive unchanged, and invalid ones are refused.

use crate::sandbox::support::sandbox;
use pbg_formula::operator::OperatorFormula;
use pbg_plugin_sdk::TracedOperator;
use pbg_plugin_sdk::testing::operator_with_defaults;
use pbg_wasm::{Limits, LoadError, PluginSlot, PluginSource, Sandbox};
use serde_json::{Value, json};

fn loaded(name: &str, parameters: &Value) -> Result<OperatorFormula, LoadError> {
    let source = PluginSource::resolve(name)?;
    let plugin = sandbox().open(source)?;
    Ok(plugin.into_operator(parameters)?.formula)
}

/// Asserts that the formula from the sandbox equals the natively traced one.
fn assert_same<O: TracedOperator>(name: &str) {
    let (found, expected) = (
        loaded(name, &Value::Null).expect("it loads"),
        operator_with_defaults::<O>(),
    );
    assert_eq!(found.name(), name);
    assert_eq!(*found.definition(), expected);
    let numbers = |count: usize, step: f32| -> Vec<f32> {
        (0..count).map(|i| (i as f32 * step + 0.2).sin()).collect()
    };
    let embedding = numbers(found.components(), 0.7);
    let values = numbers(found.parameters().len(), 1.3);
    let vectors: Vec<&[f32]> = values.chunks(1).collect();
    let wide = |values: &[f32]| values.iter().map(|&x| f64::from(x)).collect::<Vec<_>>();
    let made = found.apply(&wide(&embedding), &wide(&values));
    for (made, expected) in made.into_iter().zip(expected.apply(&embedding, &vectors)) {
        assert!(
            (made - f64::from(expected)).abs() < 1e-6,
            "{name}: {made}, not {expected}"
        );
    }
}

#[test]
fn standard_formulas_arrive_as_they_were_written() {
    assert_same::<distmult::DistMult>("distmult");
    assert_same::<transe::TransE>("transe");
    assert_same::<rotate::RotatE>("rotate");
    assert_same::<quate::QuatE>("quate");
    assert_same::<householder::Householder>("householder");
}

#[test]
fn both_sides_arrive() {
    let given = json!({ "reflections": 1, "projections": 1, "space": "eights" });
    let formula = loaded("householder", &given).expect("it loads");
    assert_eq!(formula.components(), 8);
    let lhs = formula.lhs().expect("it projects left entities");
    assert_eq!(lhs.parameters(), formula.parameters());
    let embedding: Vec<f64> = (0..8).map(f64::from).collect();
    let vectors = vec![0.5; formula.parameters().len()];
    assert_ne!(
        lhs.apply(&embedding, &vectors),
        formula.apply(&embedding, &vectors)
    );
}

/// A component of `rotate` from before the interface `operator-formula`.
const TRACED: &[u8] = include_bytes!("traced_operator.wasm");

#[test]
fn a_component_of_the_first_interface_still_loads() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), TRACED).expect("it is written");
    let path = file.path().to_str().expect("a plain path");
    let formula = loaded(path, &Value::Null).expect("it loads");
    let expected = operator_with_defaults::<rotate::RotatE>();
    assert_eq!(*formula.definition(), expected);
}

#[test]
fn a_plugin_of_another_kind_is_no_operator() {
    let error = loaded("softmax", &Value::Null).expect_err("a loss");
    let LoadError::WrongKind {
        found, expected, ..
    } = error
    else {
        panic!("{error}");
    };
    assert_eq!(
        (found, expected),
        (PluginSlot::TracedLoss, PluginSlot::TracedOperator)
    );
    let error = loaded("rotate", &json!({ "angle": 1.0 })).expect_err("no such parameter");
    assert!(matches!(error, LoadError::Parameters { .. }), "{error}");
}

#[test]
fn a_formula_has_the_nodes_that_are_granted() {
    let limits = Limits {
        graph_nodes: 3,
        ..Limits::default()
    };
    let source = PluginSource::resolve("rotate").expect("a standard plugin");
    let sandbox = Sandbox::new(limits).expect("the sandbox starts");
    let plugin = sandbox.open(source).expect("it opens");
    let error = plugin
        .into_operator(&Value::Null)
        .map(|operator| operator.id);
    let error = error.expect_err("too many nodes").to_string();
    assert!(
        error.contains("build") && error.contains("more than the 3"),
        "{error}"
    );
}
