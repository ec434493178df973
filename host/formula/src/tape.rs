//! Derivation of the gradient of a formula, as further nodes of the same kind.
//!
//! Reverse mode: from the outputs back, every node passes each of its operands its share of the gradient. The
//! derivatives have numerically stable forms: that of softplus is a sigmoid, that of logsumexp a softmax, so scores of
//! 1e9 cause no infinities. Subexpressions that values and gradients have in common are computed once.

use super::builder::NodeBuilder;
use super::node::{Binary, FormulaNode, NodeId, Reduction, Unary, ValueShape};

/// Values and gradients of a formula's nodes, as nodes of `out`.
pub(crate) struct Tape {
    pub(crate) out: NodeBuilder,
    /// Value of every node of the formula.
    pub(crate) values: Vec<NodeId>,
    /// Whether the node depends on a source other than through a stopped gradient.
    active: Vec<bool>,
    gradients: Vec<Option<NodeId>>,
    /// Shape of the node whose gradient is being passed back.
    shape: ValueShape,
    /// Whether each node of a comparator's formula is one number per pair; empty for formulas of other kinds.
    numbers: Vec<bool>,
    /// Whether the node whose gradient is being passed back is one number per pair.
    number: bool,
    /// Gradients of the sources, that is, of the nodes by which the formula is differentiated.
    sources: Vec<(FormulaNode, NodeId)>,
}

impl Tape {
    /// Computes the values of `nodes`, of which `is_source` names those to differentiate by.
    pub(crate) fn forward(nodes: &[FormulaNode], is_source: impl Fn(FormulaNode) -> bool) -> Self {
        let mut out = NodeBuilder::default();
        let mut values: Vec<NodeId> = Vec::with_capacity(nodes.len());
        let mut active: Vec<bool> = Vec::with_capacity(nodes.len());
        for &node in nodes {
            let value = out.push(node.map_operands(|id| values[id as usize]));
            values.push(value);
            active.push(match node {
                FormulaNode::Unary(Unary::StopGradient, _) => false,
                _ => is_source(node) || node.operands().any(|id| active[id as usize]),
            });
        }
        let gradients = vec![None; values.len()];
        Self {
            out,
            values,
            active,
            gradients,
            shape: ValueShape::Row,
            numbers: Vec::new(),
            number: false,
            sources: Vec::new(),
        }
    }

    /// Treats the nodes marked in `numbers` as one number per pair. The gradient of such a number is one number too: the
    /// sum of what all elements that use it pass to it.
    pub(crate) fn with_numbers(self, numbers: Vec<bool>) -> Self {
        Self { numbers, ..self }
    }

    /// Passes the gradients of outputs back to the sources. Each output is a node of the formula with its gradient in
    /// `out`.
    pub(crate) fn backward(
        &mut self,
        nodes: &[FormulaNode],
        shapes: &[ValueShape],
        outputs: impl IntoIterator<Item = (NodeId, NodeId)>,
    ) {
        for (output, gradient) in outputs {
            let index = output as usize;
            self.gradients[index] = Some(self.added(self.gradients[index], gradient));
        }
        for (id, &node) in nodes.iter().enumerate().rev() {
            if !self.active[id] {
                continue;
            }
            if let Some(gradient) = self.gradients[id] {
                self.shape = shapes[id];
                self.number = self.is_number(id);
                self.pass(node, self.values[id], gradient);
            }
        }
    }

    /// Returns the gradient of a source, if it has one.
    pub(crate) fn gradient(&self, source: FormulaNode) -> Option<NodeId> {
        let mut sources = self.sources.iter();
        let (_, gradient) = sources.find(|(node, _)| *node == source)?;
        Some(*gradient)
    }

    fn receive(&mut self, source: FormulaNode, g: NodeId) {
        match self.sources.iter().position(|(node, _)| *node == source) {
            Some(at) => self.sources[at].1 = self.added(Some(self.sources[at].1), g),
            None => self.sources.push((source, g)),
        }
    }

    /// Passes the operands of `node`, which has the value `y`, their shares of its gradient `g`.
    fn pass(&mut self, node: FormulaNode, y: NodeId, g: NodeId) {
        match node {
            FormulaNode::Positive
            | FormulaNode::Negative
            | FormulaNode::Component(_)
            | FormulaNode::Parameter(_) => {
                self.receive(node, g);
            }
            FormulaNode::Columns | FormulaNode::Constant(_) | FormulaNode::Gradient(_) => {}
            FormulaNode::Unary(op, x) => {
                let share = self.through_unary(op, self.value(x), y, g);
                self.give(x, share);
            }
            FormulaNode::Binary(op, a, b) => self.through_binary(op, a, b, y, g),
            FormulaNode::Select(condition, then, otherwise) => {
                let (condition, zero) = (self.value(condition), self.out.constant(0.0));
                let share = self.out.push(FormulaNode::Select(condition, g, zero));
                self.give(then, share);
                let share = self.out.push(FormulaNode::Select(condition, zero, g));
                self.give(otherwise, share);
            }
            FormulaNode::Clamp(x, low, high) => {
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
            FormulaNode::Reduce(op, x) => {
                let share = self.through_reduction(op, self.value(x), y, g);
                self.give(x, share);
            }
            // A number is added once for each element.
            FormulaNode::Sum(x) if self.number && !self.is_number(x as usize) => self.give(x, g),
            // Each element of the operand is added to every element of the sum.
            FormulaNode::Sum(x) => {
                let share = self.out.push(FormulaNode::Sum(g));
                self.give(x, share);
            }
            FormulaNode::Softmax(x) => {
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
                // Not y (1 - y), which loses digits if y is close to 1.
                let minus = out.unary(Unary::Neg, x);
                let other = out.unary(Unary::Sigmoid, minus);
                out.binary(Binary::Mul, y, other)
            }
            Unary::Softplus => out.unary(Unary::Sigmoid, x),
            Unary::Relu => out.binary(Binary::GreaterEqual, x, zero),
            Unary::Sin => out.unary(Unary::Cos, x),
            Unary::Cos => {
                let sine = out.unary(Unary::Sin, x);
                out.unary(Unary::Neg, sine)
            }
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

    /// `y = x^z`: the derivatives are `z x^(z-1)`, and `y ln x`, which is set to 0 where x is not above 0.
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
            let slope = self.out.push(FormulaNode::Select(above, slope, zero));
            let share = self.out.binary(Binary::Mul, g, slope);
            self.give(b, share);
        }
    }

    fn through_reduction(&mut self, op: Reduction, x: NodeId, y: NodeId, g: NodeId) -> NodeId {
        match op {
            Reduction::Sum => g,
            Reduction::Mean => {
                let columns = self.out.columns();
                self.out.binary(Binary::Div, g, columns)
            }
            // The gradient is shared equally by all maxima.
            Reduction::Max => {
                let largest = self.out.binary(Binary::Equal, x, y);
                let ties = self.out.sum(largest);
                // There is at least the maximum itself, unless there are no negatives.
                let one = self.out.constant(1.0);
                let ties = self.out.binary(Binary::Max, ties, one);
                let each = self.out.binary(Binary::Div, g, ties);
                self.out.binary(Binary::Mul, largest, each)
            }
            Reduction::LogSumExp => {
                let softmax = self.out.push(FormulaNode::Softmax(x));
                self.out.binary(Binary::Mul, softmax, g)
            }
        }
    }

    /// Passes the gradient to an operand that is selected where `other` is 0.
    fn give_chosen(&mut self, to: NodeId, g: NodeId, other: NodeId) {
        if self.active[to as usize] {
            let zero = self.out.constant(0.0);
            let share = self.out.push(FormulaNode::Select(other, zero, g));
            self.give(to, share);
        }
    }

    fn value(&self, id: NodeId) -> NodeId {
        self.values[id as usize]
    }

    fn is_number(&self, id: usize) -> bool {
        self.numbers.get(id).copied().unwrap_or(false)
    }

    /// Adds to the gradient of node `to` of the formula. A value that was broadcast over the negatives gets the sum
    /// over those that are not masked.
    fn give(&mut self, to: NodeId, share: NodeId) {
        let index = to as usize;
        if !self.active[index] {
            return;
        }
        let broadcast = self.shape == ValueShape::Matrix
            && self.out.shape(self.values[index]) < ValueShape::Matrix;
        let share = match self.out.shape(share) {
            _ if self.is_number(index) && !self.number => self.out.push(FormulaNode::Sum(share)),
            _ if !broadcast => share,
            ValueShape::Matrix => self.out.sum(share),
            _ => {
                let present = self.present();
                self.out.binary(Binary::Mul, share, present)
            }
        };
        self.gradients[index] = Some(self.added(self.gradients[index], share));
    }

    /// Returns the number of negatives of each row that are not masked.
    fn present(&mut self) -> NodeId {
        let negative = self.out.push(FormulaNode::Negative);
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

/// Returns only the nodes of `out` that `outputs` need, with their shapes and the new indices of the outputs.
pub(crate) fn compact(
    out: &NodeBuilder,
    outputs: &[NodeId],
) -> (Vec<FormulaNode>, Vec<ValueShape>, Vec<NodeId>) {
    let mut needed = vec![false; out.nodes.len()];
    for &id in outputs {
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
    let outputs = outputs.iter().map(|&id| renamed[id as usize]).collect();
    (nodes, shapes, outputs)
}
