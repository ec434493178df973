//! Interpreter of operators' formulas, element by element in f64: the slow, simple reference that faster executors are
//! compared with.

use super::definition::OperatorFormula;
use super::derive::Expression;
use crate::builder::fold;
use crate::node::{Binary, FormulaNode, NodeId};

/// One element of each input of an expression.
#[derive(Clone, Copy, Debug)]
pub struct ElementInput<'a> {
    /// Element of each component of the embedding.
    pub components: &'a [f64],
    /// Element of each parameter.
    pub parameters: &'a [f64],
    /// Gradients of the output components; empty for the forward pass.
    pub gradients: &'a [f64],
}

impl Expression {
    /// Returns the values of the outputs.
    #[must_use]
    pub fn evaluate(&self, element: &ElementInput<'_>) -> Vec<f64> {
        let mut values: Vec<f64> = Vec::with_capacity(self.nodes.len());
        // Nodes computed from constants alone are constants, rounded as such.
        let mut constants: Vec<Option<f32>> = Vec::with_capacity(self.nodes.len());
        for &node in &self.nodes {
            let constant = fold(node, |id| constants[id as usize]);
            values.push(constant.map_or_else(|| element.value(node, &values), f64::from));
            constants.push(constant);
        }
        let outputs = self.outputs.iter();
        outputs
            .map(|output| output.map_or(0.0, |id| values[id as usize]))
            .collect()
    }
}

impl ElementInput<'_> {
    fn value(&self, node: FormulaNode, values: &[f64]) -> f64 {
        let of = |id: NodeId| values[id as usize];
        let given = |values: &[f64], index: u32| values.get(index as usize).copied();
        match node {
            FormulaNode::Component(index) => given(self.components, index),
            FormulaNode::Parameter(index) => given(self.parameters, index),
            FormulaNode::Gradient(index) => given(self.gradients, index),
            FormulaNode::Constant(value) => Some(value.into()),
            FormulaNode::Unary(op, x) => Some(op.apply(of(x))),
            FormulaNode::Binary(op, a, b) => Some(op.apply(of(a), of(b))),
            FormulaNode::Select(condition, then, otherwise) => Some(match of(condition) == 0.0 {
                true => of(otherwise),
                false => of(then),
            }),
            FormulaNode::Clamp(x, low, high) => {
                let above = Binary::Max.apply(of(x), of(low));
                Some(Binary::Min.apply(above, of(high)))
            }
            // A checked operator has no such nodes.
            FormulaNode::Positive
            | FormulaNode::Negative
            | FormulaNode::Columns
            | FormulaNode::Reduce(..)
            | FormulaNode::Softmax(_) => None,
        }
        .unwrap_or(f64::NAN)
    }
}

impl OperatorFormula {
    /// Returns one element of each output component.
    #[must_use]
    pub fn apply(&self, components: &[f64], parameters: &[f64]) -> Vec<f64> {
        self.forward().evaluate(&ElementInput {
            components,
            parameters,
            gradients: &[],
        })
    }
}
