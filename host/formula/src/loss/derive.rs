//! The gradient of a loss graph, as further nodes, derived once.

use super::definition::LossGraph;
use crate::node::{FormulaNode, NodeId, ValueShape};
use crate::tape::{Tape, compact};

/// Loss with its derivatives. The nodes are [`LossGraph`] nodes without `Clamp`, `Mean` and `StopGradient`; none is
/// repeated or unused.
#[derive(Clone, Debug, PartialEq)]
pub struct DerivedLoss {
    /// Nodes, operands before users.
    pub nodes: Vec<FormulaNode>,
    /// Shape of every node.
    pub shapes: Vec<ValueShape>,
    /// Node with the loss of each positive.
    pub loss: NodeId,
    /// Node with its derivative by the positive's score; a scalar if it is the same for all rows.
    pub positive: NodeId,
    /// Node with its derivatives by the negatives' scores; of a smaller shape if they are all the same.
    pub negative: NodeId,
    /// Number of parameters to which [`FormulaNode::Parameter`] refers.
    pub parameters: usize,
}

impl DerivedLoss {
    /// Differentiates `graph` by the scores of positives and negatives.
    #[must_use]
    pub fn of(graph: &LossGraph) -> Self {
        let of_scores = |node| matches!(node, FormulaNode::Positive | FormulaNode::Negative);
        let mut tape = Tape::forward(graph.nodes(), of_scores);
        let loss = tape.values[graph.output() as usize];
        let one = tape.out.constant(1.0);
        tape.backward(graph.nodes(), graph.shapes(), [(graph.output(), one)]);
        let zero = tape.out.constant(0.0);
        let [positive, negative] = [FormulaNode::Positive, FormulaNode::Negative]
            .map(|source| tape.gradient(source).unwrap_or(zero));
        let (nodes, shapes, outputs) = compact(&tape.out, &[loss, positive, negative]);
        Self {
            nodes,
            shapes,
            loss: outputs[0],
            positive: outputs[1],
            negative: outputs[2],
            parameters: graph.parameters().len(),
        }
    }

    /// Returns the shape of a node.
    #[must_use]
    pub fn shape(&self, id: NodeId) -> ValueShape {
        self.shapes[id as usize]
    }
}
