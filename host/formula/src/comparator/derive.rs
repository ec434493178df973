//! The derivatives of a comparator's score by both embeddings, derived once for candidates of each side.

use super::definition::{Candidates, ComparatorDefinition, PairExpressions};
use crate::node::{FormulaNode, NodeId};
use crate::operator::Expression;
use crate::tape::Tape;

impl PairExpressions {
    /// Derives the expressions of a checked definition; `numbers` says which nodes are one number per pair.
    pub(super) fn new(
        definition: &ComparatorDefinition,
        candidates: Candidates,
        numbers: &[bool],
    ) -> Self {
        let components = definition.components;
        let nodes = definition.nodes.iter().map(|&node| {
            let FormulaNode::Component(index) = node else {
                return node;
            };
            // Both sides count their components from 0.
            match (candidates, index < components) {
                (Candidates::Left, true) => node,
                (Candidates::Left, false) => FormulaNode::Parameter(index - components),
                (Candidates::Right, true) => FormulaNode::Parameter(index),
                (Candidates::Right, false) => FormulaNode::Component(index - components),
            }
        });
        let nodes: Vec<FormulaNode> = nodes.collect();
        Self {
            score: score(&nodes, definition.score),
            slopes: slopes(&nodes, definition, numbers),
        }
    }
}

fn score(nodes: &[FormulaNode], score: NodeId) -> Expression {
    let tape = Tape::forward(nodes, |_| false);
    Expression::of(&tape, vec![Some(tape.values[score as usize])])
}

fn slopes(
    nodes: &[FormulaNode],
    definition: &ComparatorDefinition,
    numbers: &[bool],
) -> Expression {
    let is_source = |node| matches!(node, FormulaNode::Component(_) | FormulaNode::Parameter(_));
    let mut tape = Tape::forward(nodes, is_source).with_numbers(numbers.to_vec());
    let one = tape.out.constant(1.0);
    let shapes: Vec<_> = tape.values.iter().map(|&id| tape.out.shape(id)).collect();
    tape.backward(nodes, &shapes, [(definition.score, one)]);
    let candidate = (0..definition.components).map(FormulaNode::Component);
    let query = (0..definition.components).map(FormulaNode::Parameter);
    let sources = candidate.chain(query);
    let outputs = sources.map(|source| tape.gradient(source)).collect();
    Expression::of(&tape, outputs)
}
