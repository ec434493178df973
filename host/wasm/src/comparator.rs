//! Comparators in the sandbox: formulas of pairs that the host executes.

use pbg_core::strategy::{StrategyError, StrategyId};
use pbg_formula::comparator::{ComparatorDefinition, ComparatorFormula};
use pbg_formula::node::{Binary, FormulaNode, Unary};

use crate::bindings::comparator_formula::{self as wit, GuestIndices};
use crate::bindings::lift_vectors;
use crate::error::LoadError;
use crate::operator::FORMULA_BYTES;
use crate::replay::RecordedCall;
use crate::strategy::SlotPlugin;

/// A comparator that is a component. The component is asked for its formula once and not needed afterwards.
pub struct LoadedComparator {
    /// Identity of the comparator.
    pub id: StrategyId,
    /// The checked formula.
    pub formula: ComparatorFormula,
}

/// Gets the formula of a component, and checks it.
pub(crate) fn load(strategy: SlotPlugin<GuestIndices>) -> Result<LoadedComparator, LoadError> {
    let built = build(&strategy).map_err(|error| match error.function {
        "build" => strategy.record(error, || Some(RecordedCall::Build)),
        _ => error,
    });
    match built {
        Ok(formula) => Ok(LoadedComparator {
            id: strategy.id,
            formula,
        }),
        Err(fault) => Err(strategy.load_error(fault)),
    }
}

fn build(strategy: &SlotPlugin<GuestIndices>) -> Result<ComparatorFormula, StrategyError> {
    let answer = strategy.call_ready(&mut None, "build", FORMULA_BYTES, |exports, store| {
        exports.call_build(store)
    })?;
    lift(&strategy.id.name, answer)
        .check(strategy.program.limits.graph_nodes)
        .map_err(|error| strategy.fault("build", error.to_string()))
}

/// Converts a formula into the host's types, without checking it.
fn lift(name: &str, formula: wit::Formula) -> ComparatorDefinition {
    ComparatorDefinition {
        name: name.to_owned(),
        components: formula.components,
        nodes: formula.nodes.into_iter().map(node).collect(),
        score: formula.score,
    }
}

lift_vectors! { wit, { Sum(x) => FormulaNode::Sum(x) } }
