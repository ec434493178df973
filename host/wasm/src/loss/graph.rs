//! Conversion of loss graphs from the types of the bindings.

use pbg_formula::loss::{LossDefinition, LossParameter};
use pbg_formula::node::{Binary, FormulaNode, Reduction, Unary};

use crate::bindings::{lift_binary, lift_variants, loss_traced as wit};

/// Converts a graph into the host's types, without checking it.
pub(super) fn lift(graph: wit::Graph) -> LossDefinition {
    let parameters = graph.parameters.into_iter();
    LossDefinition {
        nodes: graph.nodes.into_iter().map(node).collect(),
        output: graph.output,
        parameters: parameters
            .map(|parameter| LossParameter {
                name: parameter.name,
                value: parameter.value,
            })
            .collect(),
        update_every: graph.update_every,
    }
}

fn node(node: wit::Node) -> FormulaNode {
    match node {
        wit::Node::Positive => FormulaNode::Positive,
        wit::Node::Negative => FormulaNode::Negative,
        wit::Node::Columns => FormulaNode::Columns,
        wit::Node::Constant(value) => FormulaNode::Constant(value),
        wit::Node::Parameter(index) => FormulaNode::Parameter(index),
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
        wit::Node::Reduce(wit::Reduce { op, x }) => FormulaNode::Reduce(reduction(op), x),
        wit::Node::Softmax(x) => FormulaNode::Softmax(x),
    }
}

lift_variants! { unary: wit::UnaryOp => Unary {
    Neg Abs Exp Log Sqrt Sigmoid Softplus Relu StopGradient
} }

lift_binary! { wit::BinaryOp }

fn reduction(op: wit::Reduction) -> Reduction {
    match op {
        wit::Reduction::Sum => Reduction::Sum,
        wit::Reduction::Mean => Reduction::Mean,
        wit::Reduction::Max => Reduction::Max,
        wit::Reduction::Logsumexp => Reduction::LogSumExp,
    }
}
