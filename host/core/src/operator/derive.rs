//! The gradients of a formula by components and parameters, derived once.

use super::definition::Definition;
use crate::formula::node::{Node, NodeId, Shape};
use crate::formula::tape::{Tape, compact};

/// A list of nodes and what is wanted of it. Nodes are those of a formula without `Clamp` and `StopGradient`, and
/// the gradients that derivatives begin with; none is there twice or in vain. What has the shape of a scalar
/// depends on parameters alone.
#[derive(Clone, Debug, PartialEq)]
pub struct Expression {
    /// Operands before users.
    pub nodes: Vec<Node>,
    /// Of every node.
    pub shapes: Vec<Shape>,
    /// What is wanted, in its order; none where it is 0 always.
    pub outputs: Vec<Option<NodeId>>,
}

impl Expression {
    /// What each component becomes.
    pub(super) fn values(definition: &Definition) -> Self {
        let tape = Tape::forward(&definition.nodes, |_| false);
        let outputs = definition.outputs.iter();
        let outputs = outputs.map(|&output| Some(tape.values[output as usize]));
        Self::of(&tape, outputs.collect())
    }

    /// The gradients of components and parameters, from [`Node::Gradient`] of what components became.
    pub(super) fn gradients(definition: &Definition, shapes: &[Shape]) -> Self {
        let is_source = |node| matches!(node, Node::Component(_) | Node::Parameter(_));
        let mut tape = Tape::forward(&definition.nodes, is_source);
        let mut gradients = Vec::new();
        for (index, &output) in (0..).zip(&definition.outputs) {
            gradients.push((output, tape.out.push(Node::Gradient(index))));
        }
        tape.backward(&definition.nodes, shapes, gradients);
        let components = (0..definition.components).map(Node::Component);
        let parameters = (0..definition.parameters.len() as u32).map(Node::Parameter);
        let sources = components.chain(parameters);
        let outputs = sources.map(|source| tape.gradient(source)).collect();
        Self::of(&tape, outputs)
    }

    fn of(tape: &Tape, outputs: Vec<Option<NodeId>>) -> Self {
        let wanted: Vec<NodeId> = outputs.iter().copied().flatten().collect();
        let (nodes, shapes, [renamed]) = compact(&tape.out, [&wanted]);
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
