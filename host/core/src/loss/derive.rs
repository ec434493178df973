//! The gradient of a graph, as more of the same graph, derived once.

use super::definition::Graph;
use super::node::{Node, NodeId, Shape};
use crate::formula::tape::{Tape, compact};

/// A loss with its derivatives. Nodes are [`Graph`] nodes without `Clamp`, `Mean` and
/// `StopGradient`; none is there twice or in vain.
#[derive(Clone, Debug, PartialEq)]
pub struct Derived {
    /// Operands before users.
    pub nodes: Vec<Node>,
    /// Of every node.
    pub shapes: Vec<Shape>,
    /// The loss of each positive.
    pub loss: NodeId,
    /// Its derivative by the positive's score; a scalar where it is the same for all rows.
    pub positive: NodeId,
    /// Its derivatives by the negatives' scores; of a smaller shape where they are all the same.
    pub negative: NodeId,
    /// How many parameters [`Node::Parameter`] refers to.
    pub parameters: usize,
}

impl Derived {
    /// Differentiates `graph` by both kinds of scores.
    #[must_use]
    pub fn of(graph: &Graph) -> Self {
        let of_scores = |node| matches!(node, Node::Positive | Node::Negative);
        let mut tape = Tape::forward(graph.nodes(), of_scores);
        let loss = tape.values[graph.output() as usize];
        let one = tape.out.constant(1.0);
        tape.backward(graph.nodes(), graph.shapes(), [(graph.output(), one)]);
        let zero = tape.out.constant(0.0);
        let [positive, negative] =
            [Node::Positive, Node::Negative].map(|source| tape.gradient(source).unwrap_or(zero));
        let (nodes, shapes, [outputs]) = compact(&tape.out, [&[loss, positive, negative]]);
        Self {
            nodes,
            shapes,
            loss: outputs[0],
            positive: outputs[1],
            negative: outputs[2],
            parameters: graph.parameters().len(),
        }
    }

    /// The shape of a node.
    #[must_use]
    pub fn shape(&self, id: NodeId) -> Shape {
        self.shapes[id as usize]
    }
}
