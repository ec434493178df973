//! Interpreter of all formulas, node by node in f64: the slow, simple reference that faster executors are compared with.

use crate::builder::fold;
use crate::loss::MASKED;
use crate::node::{Binary, FormulaNode, NodeId, Reduction};

/// Inputs of a formula: the scores of one row, or the vectors of an operator, one after the other. A node whose input is
/// missing is NaN.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FormulaInput<'a> {
    pub(crate) parameters: &'a [f64],
    pub(crate) positive: Option<f64>,
    pub(crate) negatives: &'a [f64],
    pub(crate) components: &'a [f64],
    pub(crate) gradients: &'a [f64],
    /// Length of each vector of an operator; 0 for a loss.
    pub(crate) width: usize,
}

/// Value of a node.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum NodeValue {
    /// A scalar, or the row's number.
    One(f64),
    /// One number per negative, or per element of a vector.
    Each(Vec<f64>),
}

impl NodeValue {
    /// Returns the value for negative or element `column`.
    pub(crate) fn at(&self, column: usize) -> f64 {
        match self {
            Self::One(value) => *value,
            Self::Each(values) => values[column],
        }
    }
}

impl FormulaInput<'_> {
    /// Returns the values of all nodes.
    pub(crate) fn evaluate(&self, nodes: &[FormulaNode]) -> Vec<NodeValue> {
        self.evaluate_with(nodes, |value| value)
    }

    /// Returns the values of all nodes, each rounded to single precision.
    pub(crate) fn evaluate_rounded(&self, nodes: &[FormulaNode]) -> Vec<NodeValue> {
        let round = |value: f64| f64::from(value as f32);
        self.evaluate_with(nodes, |value| match value {
            NodeValue::One(value) => NodeValue::One(round(value)),
            NodeValue::Each(mut values) => {
                values.iter_mut().for_each(|value| *value = round(*value));
                NodeValue::Each(values)
            }
        })
    }

    fn evaluate_with(
        &self,
        nodes: &[FormulaNode],
        keep: impl Fn(NodeValue) -> NodeValue,
    ) -> Vec<NodeValue> {
        let mut values: Vec<NodeValue> = Vec::with_capacity(nodes.len());
        // Nodes computed from constants alone are constants, rounded as such.
        let mut constants: Vec<Option<f32>> = Vec::with_capacity(nodes.len());
        for &node in nodes {
            let constant = fold(node, |id| constants[id as usize]);
            values.push(match constant {
                Some(value) => NodeValue::One(value.into()),
                None => keep(self.value(node, &values)),
            });
            constants.push(constant);
        }
        values
    }

    fn value(&self, node: FormulaNode, values: &[NodeValue]) -> NodeValue {
        let of = |id: NodeId| &values[id as usize];
        let given = |values: &[f64], index: u32| {
            NodeValue::One(values.get(index as usize).copied().unwrap_or(f64::NAN))
        };
        let vector = |values: &[f64], index: u32| {
            let first = index as usize * self.width;
            match values.get(first..first + self.width) {
                Some(elements) => NodeValue::Each(elements.to_vec()),
                None => NodeValue::One(f64::NAN),
            }
        };
        match node {
            FormulaNode::Positive => NodeValue::One(self.positive.unwrap_or(f64::NAN)),
            FormulaNode::Negative => NodeValue::Each(self.negatives.to_vec()),
            FormulaNode::Columns => NodeValue::One(self.negatives.len() as f64),
            FormulaNode::Constant(value) => NodeValue::One(value.into()),
            FormulaNode::Parameter(index) if self.width == 0 => given(self.parameters, index),
            FormulaNode::Parameter(index) => vector(self.parameters, index),
            FormulaNode::Component(index) => vector(self.components, index),
            FormulaNode::Gradient(index) => vector(self.gradients, index),
            FormulaNode::Unary(op, x) => self.map([of(x); 3], |x, _, _| op.apply(x)),
            FormulaNode::Binary(op, a, b) => {
                self.map([of(a), of(b), of(b)], |a, b, _| op.apply(a, b))
            }
            FormulaNode::Select(condition, then, otherwise) => {
                self.map([of(condition), of(then), of(otherwise)], |c, a, b| {
                    if c == 0.0 { b } else { a }
                })
            }
            FormulaNode::Clamp(x, low, high) => self
                .map([of(x), of(low), of(high)], |x, low, high| {
                    Binary::Min.apply(Binary::Max.apply(x, low), high)
                }),
            FormulaNode::Reduce(op, x) => NodeValue::One(self.reduce(op, of(x))),
            FormulaNode::Sum(x) => NodeValue::One((0..self.width).map(|i| of(x).at(i)).sum()),
            FormulaNode::Softmax(x) => {
                let largest = self.reduce(Reduction::Max, of(x));
                let total: f64 = self.present(of(x)).map(|x| (x - largest).exp()).sum();
                self.map([of(x); 3], |x, _, _| (x - largest).exp() / total)
            }
        }
    }

    fn map(&self, operands: [&NodeValue; 3], f: impl Fn(f64, f64, f64) -> f64) -> NodeValue {
        let [a, b, c] = operands;
        match (a, b, c) {
            (&NodeValue::One(a), &NodeValue::One(b), &NodeValue::One(c)) => {
                NodeValue::One(f(a, b, c))
            }
            _ => NodeValue::Each(
                (0..self.columns())
                    .map(|j| f(a.at(j), b.at(j), c.at(j)))
                    .collect(),
            ),
        }
    }

    /// Returns the number of negatives, or of elements of a vector.
    fn columns(&self) -> usize {
        self.negatives.len().max(self.width)
    }

    /// Returns the values of the negatives that are not masked.
    fn present<'v>(&'v self, value: &'v NodeValue) -> impl Iterator<Item = f64> + 'v {
        let masked = f64::from(MASKED);
        let columns = (0..self.negatives.len()).filter(move |&j| self.negatives[j] != masked);
        columns.map(|j| value.at(j))
    }

    fn reduce(&self, op: Reduction, x: &NodeValue) -> f64 {
        let max = || {
            self.present(x)
                .fold(f64::NEG_INFINITY, |a, b| Binary::Max.apply(b, a))
        };
        match op {
            Reduction::Sum => self.present(x).sum(),
            Reduction::Mean => self.present(x).sum::<f64>() / self.negatives.len().max(1) as f64,
            Reduction::Max => max(),
            Reduction::LogSumExp => {
                let largest = max();
                if largest == f64::NEG_INFINITY {
                    return largest;
                }
                let terms = self.present(x).map(|x| (x - largest).exp());
                largest + terms.sum::<f64>().ln()
            }
        }
    }
}
