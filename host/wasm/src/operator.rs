//! Operators in the sandbox: formulas that the host executes.

use pbg_core::strategy::{StrategyError, StrategyId};
use pbg_formula::node::{Binary, FormulaNode, Unary};
use pbg_formula::operator::{InitialValue, OperatorDefinition, OperatorFormula, ParameterVector};

use crate::bindings::operator_traced::{self as wit, GuestIndices};
use crate::bindings::{lift_binary, lift_variants};
use crate::error::LoadError;
use crate::replay::RecordedCall;
use crate::strategy::SlotPlugin;

/// Largest size (bytes) of a formula: more than the largest valid one, so that a formula with too many nodes is
/// reported with their number.
const FORMULA_BYTES: usize = 4 << 20;

/// An operator that is a component. The component is asked for its formula once and not needed afterwards.
pub struct LoadedOperator {
    /// Identity of the operator.
    pub id: StrategyId,
    /// The checked formula.
    pub formula: OperatorFormula,
}

/// Gets the formula of a component, and checks it.
pub(crate) fn load(strategy: SlotPlugin<GuestIndices>) -> Result<LoadedOperator, LoadError> {
    let built = build(&strategy).map_err(|error| match error.function {
        "build" => strategy.record(error, || Some(RecordedCall::Build)),
        _ => error,
    });
    match built {
        Ok(formula) => Ok(LoadedOperator {
            id: strategy.id,
            formula,
        }),
        Err(fault) => Err(strategy.load_error(fault)),
    }
}

fn build(strategy: &SlotPlugin<GuestIndices>) -> Result<OperatorFormula, StrategyError> {
    let answer = strategy.call_ready(&mut None, "build", FORMULA_BYTES, |exports, store| {
        exports.call_build(store)
    })?;
    lift(&strategy.id.name, answer)
        .check(strategy.program.limits.graph_nodes)
        .map_err(|error| strategy.fault("build", error.to_string()))
}

/// Converts a formula into the host's types, without checking it.
fn lift(name: &str, formula: wit::Formula) -> OperatorDefinition {
    let parameters = formula.parameters.into_iter();
    OperatorDefinition {
        name: name.to_owned(),
        components: formula.components,
        parameters: parameters
            .map(|parameter| ParameterVector {
                name: parameter.name,
                initial: initial(parameter.initial),
            })
            .collect(),
        nodes: formula.nodes.into_iter().map(node).collect(),
        outputs: formula.outputs,
    }
}

fn initial(initial: wit::Initial) -> InitialValue {
    match initial {
        wit::Initial::Zero => InitialValue::Zero,
        wit::Initial::One => InitialValue::One,
        wit::Initial::Normal(deviation) => InitialValue::Normal(deviation),
        wit::Initial::Angle => InitialValue::Angle,
    }
}

fn node(node: wit::Node) -> FormulaNode {
    match node {
        wit::Node::Component(index) => FormulaNode::Component(index),
        wit::Node::Parameter(index) => FormulaNode::Parameter(index),
        wit::Node::Constant(value) => FormulaNode::Constant(value),
        wit::Node::Unary(wit::Unary { op, x }) => FormulaNode::Unary(unary(op), x),
        wit::Node::Binary(wit::Binary { op, left, right }) => {
            FormulaNode::Binary(binary(op), left, right)
        }
        wit::Node::Select(wit::Select {
            condition,
            then,
            otherwise,
        }) => FormulaNode::Select(condition, then, otherwise),
        wit::Node::Clamp(wit::Clamp { x, low, high }) => FormulaNode::Clamp(x, low, high),
    }
}

lift_variants! { unary: wit::UnaryOp => Unary {
    Neg Abs Exp Log Sqrt Sigmoid Softplus Relu StopGradient Sin Cos
} }

lift_binary! { wit::BinaryOp }
