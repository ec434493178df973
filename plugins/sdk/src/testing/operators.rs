//! Assertion of the contract of operators, for the tests of plugins.

use crate::TracedOperator;
use crate::operator::{Formula, Initial, Node, trace};
use crate::testing::defaults;

/// Asserts the contract of a traced operator, configured with its defaults: components, parameters and outputs are
/// consistent, and the results for ordinary embeddings are finite.
///
/// # Panics
/// If the contract is violated. The message describes the problem.
///
/// ```
/// # use pbg_plugin_sdk::operator::{Initial, formula::{Embedding, Vector}};
/// # use pbg_plugin_sdk::{Metadata, Result, TracedOperator};
/// #[derive(Default)]
/// struct Shift;
///
/// impl TracedOperator for Shift {
///     fn metadata() -> Metadata { Metadata::new("shift", "0.1.0", "A summand per number.") }
///     fn build<'t>(&self, x: Embedding<'t>) -> Result<Vec<Vector<'t>>> {
///         Ok(vec![x.component(0) + x.parameter("shift", Initial::Zero)])
///     }
/// }
///
/// pbg_plugin_sdk::testing::assert_traced_operator::<Shift>();
/// ```
pub fn assert_traced_operator<O: TracedOperator>() {
    let formula = operator_with_defaults::<O>();
    let components = formula.components;
    assert!(
        [1, 2, 4, 8].contains(&components),
        "the formula has {components} outputs; it must have 1, 2, 4 or 8"
    );
    let of_lhs = formula.lhs_outputs.len();
    assert!(
        of_lhs == 0 || of_lhs == components as usize,
        "the formula has {of_lhs} outputs of the left side and {components} of the right side"
    );
    for node in &formula.nodes {
        if let Node::Component(index) = node {
            assert!(
                *index < components,
                "the formula uses component {index}, but has only {components} outputs"
            );
        }
    }
    assert!(
        !formula.parameters.is_empty(),
        "the formula has no parameters"
    );
    let wave = |n: usize, step: f32| (0..n).map(|i| (i as f32 * step + 0.3).sin()).collect();
    let embedding: Vec<f32> = wave(components as usize * 8, 0.9);
    let parameters: Vec<Vec<f32>> = formula
        .parameters
        .iter()
        .map(|p| typical_values(p.initial))
        .collect();
    let parameters: Vec<&[f32]> = parameters.iter().map(Vec::as_slice).collect();
    for made in [
        formula.apply(&embedding, &parameters),
        formula.apply_lhs(&embedding, &parameters),
    ] {
        assert!(
            made.iter().all(|value| value.is_finite()),
            "the result for {embedding:?} is not finite: {made:?}"
        );
    }
}

/// Returns typical initial values of a parameter with eight elements.
fn typical_values(initial: Initial) -> Vec<f32> {
    let spread = |i: i32| (i as f32 - 3.5) / 4.0;
    (0..8)
        .map(|i| match initial {
            Initial::Zero => 0.0,
            Initial::One => 1.0,
            Initial::Normal(deviation) => deviation * spread(i),
            Initial::Angle => 3.0 * spread(i),
        })
        .collect()
}

/// Returns the formula of an operator with default parameters, as the host gets it if the configuration sets none.
///
/// # Panics
/// If the operator refuses its own defaults.
///
/// ```
/// # use pbg_plugin_sdk::operator::{Initial, formula::{Embedding, Vector}};
/// # use pbg_plugin_sdk::{Metadata, Result, TracedOperator};
/// # #[derive(Default)]
/// # struct Shift;
/// # impl TracedOperator for Shift {
/// #     fn metadata() -> Metadata { Metadata::new("shift", "0.1.0", "") }
/// #     fn build<'t>(&self, x: Embedding<'t>) -> Result<Vec<Vector<'t>>> {
/// #         Ok(vec![x.component(0) + x.parameter("shift", Initial::Zero)])
/// #     }
/// # }
/// let formula = pbg_plugin_sdk::testing::operator_with_defaults::<Shift>();
/// assert_eq!(formula.apply(&[1.0], &[&[3.0]]), [4.0]);
/// ```
#[must_use]
pub fn operator_with_defaults<O: TracedOperator>() -> Formula {
    let mut operator = O::default();
    let configured = operator.configure(&defaults(&O::metadata()));
    assert_eq!(configured, Ok(()), "the plugin refuses its own defaults");
    trace(&operator).unwrap_or_else(|refusal| panic!("the plugin refuses to build: {refusal}"))
}
