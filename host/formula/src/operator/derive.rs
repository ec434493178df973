//! The gradients of an operator's formula by components and parameters, derived once.

use super::definition::OperatorDefinition;
use crate::node::{FormulaNode, NodeId, ValueShape};
use crate::tape::{Tape, compact};

/// List of nodes with selected outputs. The nodes are those of a formula without `Clamp` and `StopGradient`, and the
/// gradients that derivatives start from; none is repeated or unused. A value with the shape of a scalar depends only
/// on parameters.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    /// Nodes, operands before users.
    pub nodes: Vec<FormulaNode>,
    /// Shape of every node.
    pub shapes: Vec<ValueShape>,
    /// Output nodes, in order; none for an output that is always 0.
    pub outputs: Vec<Option<NodeId>>,
}

impl Expression {
    /// Returns the expression of the output components.
    pub(super) fn values(definition: &OperatorDefinition) -> Self {
        let tape = Tape::forward(&definition.nodes, |_| false);
        let outputs = definition.outputs.iter();
        let outputs = outputs.map(|&output| Some(tape.values[output as usize]));
        Self::of(&tape, outputs.collect())
    }

    /// Returns the expression of the gradients of components and parameters, given the gradients of the output
    /// components ([`FormulaNode::Gradient`]).
    pub(super) fn gradients(definition: &OperatorDefinition, shapes: &[ValueShape]) -> Self {
        let is_source =
            |node| matches!(node, FormulaNode::Component(_) | FormulaNode::Parameter(_));
        let mut tape = Tape::forward(&definition.nodes, is_source);
        let mut gradients = Vec::new();
        for (index, &output) in (0..).zip(&definition.outputs) {
            gradients.push((output, tape.out.push(FormulaNode::Gradient(index))));
        }
        tape.backward(&definition.nodes, shapes, gradients);
        let components = (0..definition.components).map(FormulaNode::Component);
        let parameters = (0..definition.parameters.len() as u32).map(FormulaNode::Parameter);
        let sources = components.chain(parameters);
        let outputs = sources.map(|source| tape.gradient(source)).collect();
        Self::of(&tape, outputs)
    }

    pub(crate) fn of(tape: &Tape, outputs: Vec<Option<NodeId>>) -> Self {
        let wanted: Vec<NodeId> = outputs.iter().copied().flatten().collect();
        let (nodes, shapes, renamed) = compact(&tape.out, &wanted);
        let mut renamed = renamed.into_iter();
        let outputs = outputs
            .into_iter()
            .map(|output| output.and_then(|_| renamed.next()));
        Self {
            nodes,
            shapes,
            outputs: outputs.collect(),
        }
    }
}
