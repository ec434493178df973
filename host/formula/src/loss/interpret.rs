//! Interpreter of loss graphs, row by row in f64: the slow, simple reference that faster executors are compared with.

use super::MASKED;
use super::definition::LossGraph;
use super::derive::DerivedLoss;
use crate::builder::fold;
use crate::node::{Binary, FormulaNode, NodeId, Reduction};

/// Value of a node in one row.
#[derive(Clone, Debug, PartialEq)]
enum Value {
    /// A scalar, or the row's number.
    One(f64),
    /// One number per negative.
    Each(Vec<f64>),
}

impl Value {
    fn at(&self, column: usize) -> f64 {
        match self {
            Self::One(value) => *value,
            Self::Each(values) => values[column],
        }
    }
}

/// Scores of one row.
struct Row<'a> {
    parameters: &'a [f32],
    positive: f64,
    negatives: &'a [f64],
}

impl Row<'_> {
    fn evaluate(&self, nodes: &[FormulaNode]) -> Vec<Value> {
        let mut values: Vec<Value> = Vec::with_capacity(nodes.len());
        // Nodes computed from constants alone are constants, rounded as such.
        let mut constants: Vec<Option<f32>> = Vec::with_capacity(nodes.len());
        for &node in nodes {
            let constant = fold(node, |id| constants[id as usize]);
            values.push(match constant {
                Some(value) => Value::One(value.into()),
                None => self.value(node, &values),
            });
            constants.push(constant);
        }
        values
    }

    fn value(&self, node: FormulaNode, values: &[Value]) -> Value {
        let of = |id: NodeId| &values[id as usize];
        match node {
            FormulaNode::Positive => Value::One(self.positive),
            FormulaNode::Negative => Value::Each(self.negatives.to_vec()),
            FormulaNode::Columns => Value::One(self.negatives.len() as f64),
            FormulaNode::Constant(value) => Value::One(value.into()),
            FormulaNode::Parameter(index) => Value::One(self.parameters[index as usize].into()),
            // A checked loss has no such nodes.
            FormulaNode::Component(_) | FormulaNode::Gradient(_) => Value::One(f64::NAN),
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
            FormulaNode::Reduce(op, x) => Value::One(self.reduce(op, of(x))),
            FormulaNode::Softmax(x) => {
                let largest = self.reduce(Reduction::Max, of(x));
                let total: f64 = self.present(of(x)).map(|x| (x - largest).exp()).sum();
                self.map([of(x); 3], |x, _, _| (x - largest).exp() / total)
            }
        }
    }

    fn map(&self, operands: [&Value; 3], f: impl Fn(f64, f64, f64) -> f64) -> Value {
        let [a, b, c] = operands;
        match (a, b, c) {
            (&Value::One(a), &Value::One(b), &Value::One(c)) => Value::One(f(a, b, c)),
            _ => Value::Each(
                (0..self.negatives.len())
                    .map(|j| f(a.at(j), b.at(j), c.at(j)))
                    .collect(),
            ),
        }
    }

    /// Returns the values of the negatives that are not masked.
    fn present<'v>(&'v self, value: &'v Value) -> impl Iterator<Item = f64> + 'v {
        let masked = f64::from(MASKED);
        let columns = (0..self.negatives.len()).filter(move |&j| self.negatives[j] != masked);
        columns.map(|j| value.at(j))
    }

    fn reduce(&self, op: Reduction, x: &Value) -> f64 {
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
                largest
                    + self
                        .present(x)
                        .map(|x| (x - largest).exp())
                        .sum::<f64>()
                        .ln()
            }
        }
    }
}

impl LossGraph {
    /// Returns the loss of one row, with the given values of the parameters.
    #[must_use]
    pub fn loss_of(&self, parameters: &[f32], positive: f64, negatives: &[f64]) -> f64 {
        let row = Row {
            parameters,
            positive,
            negatives,
        };
        row.evaluate(self.nodes())[self.output() as usize].at(0)
    }
}

/// Loss and gradients of one row.
#[derive(Clone, Debug, PartialEq)]
pub struct RowLoss {
    /// The loss.
    pub loss: f64,
    /// Its derivative by the positive's score.
    pub positive: f64,
    /// Its derivatives by the negatives' scores; 0 for masked ones.
    pub negative: Vec<f64>,
}

impl DerivedLoss {
    /// Returns the loss and gradients of one row, with the given values of the parameters.
    #[must_use]
    pub fn row(&self, parameters: &[f32], positive: f64, negatives: &[f64]) -> RowLoss {
        let row = Row {
            parameters,
            positive,
            negatives,
        };
        let values = row.evaluate(&self.nodes);
        let of = |id: NodeId| &values[id as usize];
        let masked = f64::from(MASKED);
        let gradient = |j: usize| match negatives[j] {
            score if score == masked => 0.0,
            _ => of(self.negative).at(j),
        };
        RowLoss {
            loss: of(self.loss).at(0),
            positive: of(self.positive).at(0),
            negative: (0..negatives.len()).map(gradient).collect(),
        }
    }
}
