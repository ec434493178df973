//! Gradients of losses by a second method, with which those of the host are compared: reverse mode over numbers, where
//! the host derives further nodes.

use pbg_core::strategy::MASKED;
use pbg_formula::loss::{LossGraph, RowLoss};
use pbg_formula::node::{Binary, FormulaNode as Node, Reduction, Unary};

/// Computes loss and gradient of one row, with the given values of the parameters.
pub(crate) fn row(
    graph: &LossGraph,
    parameters: &[f32],
    positive: f64,
    negatives: &[f64],
) -> RowLoss {
    let row = Row {
        parameters,
        positive,
        negatives,
    };
    let values = row.forward(graph.nodes());
    let mut gradients: Vec<Vec<f64>> = values.iter().map(|v| vec![0.0; v.len()]).collect();
    let output = graph.output() as usize;
    gradients[output].fill(1.0);
    let mut result = RowLoss {
        loss: values[output][0],
        positive: 0.0,
        negative: vec![0.0; negatives.len()],
    };
    for (id, &node) in graph.nodes().iter().enumerate().rev() {
        let gradient = std::mem::take(&mut gradients[id]);
        match node {
            Node::Positive => result.positive += gradient[0],
            Node::Negative => {
                let sums = result.negative.iter_mut().zip(&gradient);
                sums.for_each(|(sum, g)| *sum += g);
            }
            _ => row.pass(node, &values, &values[id], &gradient, &mut gradients),
        }
    }
    result
}

/// Scores and parameters of one row. Values have one number, or one per negative.
struct Row<'a> {
    parameters: &'a [f32],
    positive: f64,
    negatives: &'a [f64],
}

/// Returns the element of `value` for negative `j`.
fn at(value: &[f64], j: usize) -> f64 {
    value[if value.len() == 1 { 0 } else { j }]
}

impl Row<'_> {
    fn forward(&self, nodes: &[Node]) -> Vec<Vec<f64>> {
        let mut values: Vec<Vec<f64>> = Vec::with_capacity(nodes.len());
        // A matrix of one column also has one number, so the shape cannot be told from the length.
        let mut wide: Vec<bool> = Vec::with_capacity(nodes.len());
        for &node in nodes {
            let matrix = match node {
                Node::Negative | Node::Softmax(_) => true,
                Node::Reduce(..) => false,
                _ => node.operands().any(|id| wide[id as usize]),
            };
            let length = if matrix { self.negatives.len() } else { 1 };
            values.push(self.value(node, &values, length));
            wide.push(matrix);
        }
        values
    }

    fn value(&self, node: Node, values: &[Vec<f64>], length: usize) -> Vec<f64> {
        let of = |id: u32| &values[id as usize][..];
        let each = |f: &dyn Fn(usize) -> f64| (0..length).map(f).collect();
        match node {
            Node::Positive => vec![self.positive],
            Node::Negative => self.negatives.to_vec(),
            Node::Columns => vec![self.negatives.len() as f64],
            Node::Constant(value) => vec![value.into()],
            Node::Parameter(index) => vec![self.parameters[index as usize].into()],
            Node::Unary(op, x) => each(&|j| op.apply(at(of(x), j))),
            Node::Binary(op, a, b) => each(&|j| op.apply(at(of(a), j), at(of(b), j))),
            Node::Select(c, a, b) => each(&|j| {
                if at(of(c), j) == 0.0 {
                    at(of(b), j)
                } else {
                    at(of(a), j)
                }
            }),
            Node::Clamp(x, low, high) => each(&|j| {
                let above = Binary::Max.apply(at(of(x), j), at(of(low), j));
                Binary::Min.apply(above, at(of(high), j))
            }),
            Node::Component(_) | Node::Sum(_) | Node::Gradient(_) => panic!("no loss has {node}"),
            Node::Reduce(op, x) => vec![self.reduce(op, of(x))],
            Node::Softmax(x) => {
                let total = self.reduce(Reduction::LogSumExp, of(x));
                each(&|j| (of(x)[j] - total).exp())
            }
        }
    }

    /// Returns the indices of the negatives that are not masked.
    fn present(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.negatives.len()).filter(|&j| self.negatives[j] != f64::from(MASKED))
    }

    fn reduce(&self, op: Reduction, x: &[f64]) -> f64 {
        let sum = || self.present().map(|j| at(x, j)).sum::<f64>();
        let largest = || {
            let values = self.present().map(|j| at(x, j));
            values.fold(f64::NEG_INFINITY, |a, b| Binary::Max.apply(b, a))
        };
        match op {
            Reduction::Sum => sum(),
            Reduction::Mean => sum() / self.negatives.len().max(1) as f64,
            Reduction::Max => largest(),
            Reduction::LogSumExp => {
                let largest = largest();
                if largest == f64::NEG_INFINITY {
                    return largest;
                }
                let terms = self.present().map(|j| (at(x, j) - largest).exp());
                largest + terms.sum::<f64>().ln()
            }
        }
    }

    /// Adds a node's share of the gradient to the gradients of its operands. One match arm per kind of node.
    fn pass(
        &self,
        node: Node,
        values: &[Vec<f64>],
        y: &[f64],
        gradient: &[f64],
        into: &mut [Vec<f64>],
    ) {
        let of = |id: u32| &values[id as usize][..];
        let mut give = |to: u32, j: usize, share: f64| {
            let sums = &mut into[to as usize];
            let place = if sums.len() == 1 { 0 } else { j };
            sums[place] += share;
        };
        // Masked negatives got no gradient from any reduction.
        let flowing = || (0..gradient.len()).filter(|&j| gradient[j] != 0.0);
        match node {
            Node::Unary(op, x) => {
                flowing().for_each(|j| give(x, j, gradient[j] * slope(op, at(of(x), j), y[j])));
            }
            Node::Binary(op, a, b) => flowing().for_each(|j| {
                let [left, right] = slopes(op, at(of(a), j), at(of(b), j), y[j]);
                give(a, j, gradient[j] * left);
                give(b, j, gradient[j] * right);
            }),
            Node::Select(c, a, b) => {
                flowing()
                    .for_each(|j| give(if at(of(c), j) == 0.0 { b } else { a }, j, gradient[j]));
            }
            Node::Clamp(x, low, high) => flowing().for_each(|j| {
                let (value, low_value) = (at(of(x), j), at(of(low), j));
                let above = Binary::Max.apply(value, low_value);
                let to = if above > at(of(high), j) {
                    high
                } else if value >= low_value {
                    x
                } else {
                    low
                };
                give(to, j, gradient[j]);
            }),
            Node::Reduce(op, x) => {
                let (g, y, ties) = (gradient[0], y[0], self.ties(of(x), y[0]));
                for j in self.present() {
                    let value = at(of(x), j);
                    let share = match op {
                        Reduction::Sum => 1.0,
                        Reduction::Mean => 1.0 / self.negatives.len() as f64,
                        Reduction::Max if value == y => 1.0 / ties,
                        Reduction::Max => 0.0,
                        Reduction::LogSumExp => (value - y).exp(),
                    };
                    give(x, j, g * share);
                }
            }
            Node::Softmax(x) => {
                let mean: f64 = self.present().map(|j| gradient[j] * y[j]).sum();
                for j in self.present() {
                    give(x, j, y[j] * (gradient[j] - mean));
                }
            }
            Node::Positive
            | Node::Negative
            | Node::Columns
            | Node::Constant(_)
            | Node::Parameter(_)
            | Node::Component(_)
            | Node::Sum(_)
            | Node::Gradient(_) => {}
        }
    }

    fn ties(&self, x: &[f64], largest: f64) -> f64 {
        self.present().filter(|&j| at(x, j) == largest).count() as f64
    }
}

fn slope(op: Unary, x: f64, y: f64) -> f64 {
    match op {
        Unary::Neg => -1.0,
        Unary::Abs if x == 0.0 => 0.0,
        Unary::Abs => x.signum(),
        Unary::Exp => y,
        Unary::Log => 1.0 / x,
        Unary::Sqrt => 0.5 / y,
        Unary::Sigmoid => y * Unary::Sigmoid.apply(-x),
        Unary::Softplus => Unary::Sigmoid.apply(x),
        Unary::Relu => f64::from(u8::from(x >= 0.0)),
        Unary::StopGradient => 0.0,
        Unary::Sin => x.cos(),
        Unary::Cos => -x.sin(),
    }
}

fn slopes(op: Binary, a: f64, b: f64, y: f64) -> [f64; 2] {
    let chosen = |left: bool| if left { [1.0, 0.0] } else { [0.0, 1.0] };
    match op {
        Binary::Add => [1.0, 1.0],
        Binary::Sub => [1.0, -1.0],
        Binary::Mul => [b, a],
        Binary::Div => [1.0 / b, -y / b],
        Binary::Pow => [b * a.powf(b - 1.0), if a > 0.0 { y * a.ln() } else { 0.0 }],
        Binary::Min => chosen(a <= b),
        Binary::Max => chosen(a >= b),
        _ => [0.0; 2],
    }
}
