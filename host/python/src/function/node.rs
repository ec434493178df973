//! Nodes of formulas, as the package tells them.

use pbg_core::strategy::{StrategyError, StrategyId};
use pbg_formula::node::{Binary, FormulaNode, Reduction, Unary};
use serde::de::value::{Error as NoWord, StrDeserializer};
use serde::de::{Deserialize, IntoDeserializer as _};

use super::fault;

/// A node from the package: the name of its operation, and its operands, which are indices of other nodes or a number.
pub(super) type NodeTold = (String, Vec<f64>);

/// Returns the nodes of a formula.
pub(super) fn nodes(id: &StrategyId, told: &[NodeTold]) -> Result<Vec<FormulaNode>, StrategyError> {
    let nodes = told.iter().map(|(word, operands)| {
        let unknown = || fault(id, "build", format!("unknown node {word}"));
        node(word, operands).ok_or_else(unknown)
    });
    nodes.collect()
}

/// Returns a node; `None` if there is no such operation.
fn node(name: &str, operands: &[f64]) -> Option<FormulaNode> {
    let at = |operand: f64| operand as u32;
    Some(match (name, operands) {
        ("positive", []) => FormulaNode::Positive,
        ("negative", []) => FormulaNode::Negative,
        ("columns", []) => FormulaNode::Columns,
        ("component", &[index]) => FormulaNode::Component(at(index)),
        ("constant", &[value]) => FormulaNode::Constant(value as f32),
        ("parameter", &[index]) => FormulaNode::Parameter(at(index)),
        ("softmax", &[x]) => FormulaNode::Softmax(at(x)),
        ("sum", &[x]) => FormulaNode::Sum(at(x)),
        ("select", &[a, b, c]) => FormulaNode::Select(at(a), at(b), at(c)),
        ("clamp", &[a, b, c]) => FormulaNode::Clamp(at(a), at(b), at(c)),
        (_, &[a, b]) => FormulaNode::Binary(word::<Binary>(name)?, at(a), at(b)),
        (_, &[x]) => match name.strip_prefix("reduce_") {
            Some(reduction) => FormulaNode::Reduce(word::<Reduction>(reduction)?, at(x)),
            None => FormulaNode::Unary(word::<Unary>(name)?, at(x)),
        },
        _ => return None,
    })
}

/// Returns the operation with this name.
fn word<'a, T: Deserialize<'a>>(name: &'a str) -> Option<T> {
    let name: StrDeserializer<'_, NoWord> = name.into_deserializer();
    T::deserialize(name).ok()
}
