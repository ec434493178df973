//! The gradient of a graph, as more of the same graph, derived once.
//!
//! Reverse mode: from the output back, every node hands its operands their share. Derivatives are
//! the stable ones: that of softplus is a sigmoid, that of logsumexp a softmax, so scores of 1e9
//! give no infinities. What is common to loss and gradient is computed once.

use super::builder::Builder;
use super::definition::Graph;
use super::node::{Binary, Node, NodeId, Reduction, Shape, Unary};

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
        let mut tape = Tape::forward(graph);
        let loss = tape.values[graph.output() as usize];
        tape.backward(graph);
        let zero = tape.out.constant(0.0);
        let positive = tape.scores[0].unwrap_or(zero);
        let negative = tape.scores[1].unwrap_or(zero);
        compact(
            &tape.out,
            [loss, positive, negative],
            graph.parameters().len(),
        )
    }

    /// The shape of a node.
    #[must_use]
    pub fn shape(&self, id: NodeId) -> Shape {
        self.shapes[id as usize]
    }
}

/// Forward values and gradients of a graph's nodes, as nodes of `out`.
struct Tape {
    out: Builder,
    values: Vec<NodeId>,
    /// Whether a score flows into the node, other than past a stopped gradient.
    active: Vec<bool>,
    gradients: Vec<Option<NodeId>>,
    /// Shape of the node whose gradient is being passed on.
    shape: Shape,
    /// Gradients of the positives' and the negatives' scores.
    scores: [Option<NodeId>; 2],
}

impl Tape {
    fn forward(graph: &Graph) -> Self {
        let mut out = Builder::default();
        let mut values: Vec<NodeId> = Vec::with_capacity(graph.nodes().len());
        let mut active: Vec<bool> = Vec::with_capacity(graph.nodes().len());
        for &node in graph.nodes() {
            let value = out.push(node.map_operands(|id| values[id as usize]));
            values.push(value);
            active.push(match node {
                Node::Positive | Node::Negative => true,
                Node::Unary(Unary::StopGradient, _) => false,
                _ => node.operands().any(|id| active[id as usize]),
            });
        }
        let gradients = vec![None; values.len()];
        Self {
            out,
            values,
            active,
            gradients,
            shape: Shape::Row,
            scores: [None; 2],
        }
    }

    fn backward(&mut self, graph: &Graph) {
        self.gradients[graph.output() as usize] = Some(self.out.constant(1.0));
        for (id, &node) in graph.nodes().iter().enumerate().rev() {
            if !self.active[id] {
                continue;
            }
            if let Some(gradient) = self.gradients[id] {
                self.shape = graph.shapes()[id];
                self.pass(node, self.values[id], gradient);
            }
        }
    }

    /// Hands the operands of `node`, which has the value `y`, their share of its gradient `g`.
    fn pass(&mut self, node: Node, y: NodeId, g: NodeId) {
        match node {
            Node::Positive => self.scores[0] = Some(self.added(self.scores[0], g)),
            Node::Negative => self.scores[1] = Some(self.added(self.scores[1], g)),
            Node::Columns | Node::Constant(_) | Node::Parameter(_) => {}
            Node::Unary(op, x) => {
                let share = self.through_unary(op, self.value(x), y, g);
                self.give(x, share);
            }
            Node::Binary(op, a, b) => self.through_binary(op, a, b, y, g),
            Node::Select(condition, then, otherwise) => {
                let (condition, zero) = (self.value(condition), self.out.constant(0.0));
                let share = self.out.push(Node::Select(condition, g, zero));
                self.give(then, share);
                let share = self.out.push(Node::Select(condition, zero, g));
                self.give(otherwise, share);
            }
            Node::Clamp(x, low, high) => {
                let above = self.out.binary(Binary::Max, self.value(x), self.value(low));
                let below_high = self.out.binary(Binary::LessEqual, above, self.value(high));
                let inner = self.out.binary(Binary::Mul, g, below_high);
                self.give_chosen(high, g, below_high);
                let above_low =
                    self.out
                        .binary(Binary::GreaterEqual, self.value(x), self.value(low));
                let share = self.out.binary(Binary::Mul, inner, above_low);
                self.give(x, share);
                self.give_chosen(low, inner, above_low);
            }
            Node::Reduce(op, x) => {
                let share = self.through_reduction(op, self.value(x), y, g);
                self.give(x, share);
            }
            Node::Softmax(x) => {
                // y (g - sum(g y))
                let weighted = self.out.binary(Binary::Mul, g, y);
                let mean = self.out.sum(weighted);
                let centred = self.out.binary(Binary::Sub, g, mean);
                let share = self.out.binary(Binary::Mul, y, centred);
                self.give(x, share);
            }
        }
    }

    fn through_unary(&mut self, op: Unary, x: NodeId, y: NodeId, g: NodeId) -> NodeId {
        let zero = self.out.constant(0.0);
        let out = &mut self.out;
        let slope = match op {
            Unary::Neg => return out.unary(Unary::Neg, g),
            Unary::Log => return out.binary(Binary::Div, g, x),
            Unary::StopGradient => zero,
            Unary::Abs => {
                let above = out.binary(Binary::Greater, x, zero);
                let below = out.binary(Binary::Less, x, zero);
                out.binary(Binary::Sub, above, below)
            }
            Unary::Exp => y,
            Unary::Sqrt => {
                let half = out.constant(0.5);
                out.binary(Binary::Div, half, y)
            }
            Unary::Sigmoid => {
                // Not y (1 - y), which loses digits where y is close to 1.
                let minus = out.unary(Unary::Neg, x);
                let other = out.unary(Unary::Sigmoid, minus);
                out.binary(Binary::Mul, y, other)
            }
            Unary::Softplus => out.unary(Unary::Sigmoid, x),
            Unary::Relu => out.binary(Binary::GreaterEqual, x, zero),
        };
        out.binary(Binary::Mul, g, slope)
    }

    fn through_binary(&mut self, op: Binary, a: NodeId, b: NodeId, y: NodeId, g: NodeId) {
        let (x, z) = (self.value(a), self.value(b));
        match op {
            Binary::Add => {
                self.give(a, g);
                self.give(b, g);
            }
            Binary::Sub => {
                self.give(a, g);
                let share = self.out.unary(Unary::Neg, g);
                self.give(b, share);
            }
            Binary::Mul => {
                let share = self.out.binary(Binary::Mul, g, z);
                self.give(a, share);
                let share = self.out.binary(Binary::Mul, g, x);
                self.give(b, share);
            }
            Binary::Div => {
                let share = self.out.binary(Binary::Div, g, z);
                self.give(a, share);
                let share = self.out.binary(Binary::Mul, share, y);
                let share = self.out.unary(Unary::Neg, share);
                self.give(b, share);
            }
            Binary::Pow => self.through_power([a, b], [x, z], y, g),
            Binary::Min | Binary::Max => {
                let comparison = match op {
                    Binary::Min => Binary::LessEqual,
                    _ => Binary::GreaterEqual,
                };
                let left = self.out.binary(comparison, x, z);
                let share = self.out.binary(Binary::Mul, g, left);
                self.give(a, share);
                self.give_chosen(b, g, left);
            }
            Binary::Less
            | Binary::LessEqual
            | Binary::Greater
            | Binary::GreaterEqual
            | Binary::Equal
            | Binary::NotEqual => {}
        }
    }

    /// `y = x^z`: `z x^(z-1)`, and `y ln x`, which is 0 where x is not above 0.
    fn through_power(&mut self, [a, b]: [NodeId; 2], [x, z]: [NodeId; 2], y: NodeId, g: NodeId) {
        let (zero, one) = (self.out.constant(0.0), self.out.constant(1.0));
        if self.active[a as usize] {
            let less = self.out.binary(Binary::Sub, z, one);
            let power = self.out.binary(Binary::Pow, x, less);
            let slope = self.out.binary(Binary::Mul, z, power);
            let share = self.out.binary(Binary::Mul, g, slope);
            self.give(a, share);
        }
        if self.active[b as usize] {
            let log = self.out.unary(Unary::Log, x);
            let slope = self.out.binary(Binary::Mul, y, log);
            let above = self.out.binary(Binary::Greater, x, zero);
            let slope = self.out.push(Node::Select(above, slope, zero));
            let share = self.out.binary(Binary::Mul, g, slope);
            self.give(b, share);
        }
    }

    fn through_reduction(&mut self, op: Reduction, x: NodeId, y: NodeId, g: NodeId) -> NodeId {
        match op {
            Reduction::Sum => g,
            Reduction::Mean => {
                let (columns, one) = (self.out.push(Node::Columns), self.out.constant(1.0));
                let columns = self.out.binary(Binary::Max, columns, one);
                self.out.binary(Binary::Div, g, columns)
            }
            // Shared equally by all that are largest.
            Reduction::Max => {
                let largest = self.out.binary(Binary::Equal, x, y);
                let ties = self.out.sum(largest);
                // At least the largest itself, unless there is none.
                let one = self.out.constant(1.0);
                let ties = self.out.binary(Binary::Max, ties, one);
                let each = self.out.binary(Binary::Div, g, ties);
                self.out.binary(Binary::Mul, largest, each)
            }
            Reduction::LogSumExp => {
                let softmax = self.out.push(Node::Softmax(x));
                self.out.binary(Binary::Mul, softmax, g)
            }
        }
    }

    /// The share of an operand that is taken where `other` is 0.
    fn give_chosen(&mut self, to: NodeId, g: NodeId, other: NodeId) {
        if self.active[to as usize] {
            let zero = self.out.constant(0.0);
            let share = self.out.push(Node::Select(other, zero, g));
            self.give(to, share);
        }
    }

    fn value(&self, id: NodeId) -> NodeId {
        self.values[id as usize]
    }

    /// Adds to the gradient of node `to` of the graph. What was broadcast over the negatives is
    /// summed over those that are not masked.
    fn give(&mut self, to: NodeId, share: NodeId) {
        let index = to as usize;
        if !self.active[index] {
            return;
        }
        let broadcast =
            self.shape == Shape::Matrix && self.out.shape(self.values[index]) < Shape::Matrix;
        let share = match self.out.shape(share) {
            _ if !broadcast => share,
            Shape::Matrix => self.out.sum(share),
            _ => {
                let present = self.present();
                self.out.binary(Binary::Mul, share, present)
            }
        };
        self.gradients[index] = Some(self.added(self.gradients[index], share));
    }

    /// How many negatives of each row are not masked.
    fn present(&mut self) -> NodeId {
        let negative = self.out.push(Node::Negative);
        let one = self.out.binary(Binary::Equal, negative, negative);
        self.out.sum(one)
    }

    fn added(&mut self, sum: Option<NodeId>, share: NodeId) -> NodeId {
        match sum {
            Some(sum) => self.out.binary(Binary::Add, sum, share),
            None => share,
        }
    }
}

/// Only what the outputs need.
fn compact(out: &Builder, outputs: [NodeId; 3], parameters: usize) -> Derived {
    let mut needed = vec![false; out.nodes.len()];
    for id in outputs {
        needed[id as usize] = true;
    }
    for id in (0..out.nodes.len()).rev() {
        if needed[id] {
            for operand in out.nodes[id].operands() {
                needed[operand as usize] = true;
            }
        }
    }
    let mut renamed = vec![0; out.nodes.len()];
    let (mut nodes, mut shapes) = (Vec::new(), Vec::new());
    for (id, &node) in out.nodes.iter().enumerate().filter(|&(id, _)| needed[id]) {
        renamed[id] = nodes.len() as NodeId;
        nodes.push(node.map_operands(|operand| renamed[operand as usize]));
        shapes.push(out.shapes[id]);
    }
    let [loss, positive, negative] = outputs.map(|id| renamed[id as usize]);
    Derived {
        nodes,
        shapes,
        loss,
        positive,
        negative,
        parameters,
    }
}
