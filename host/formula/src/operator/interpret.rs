//! Operators by the interpreter, in f64: the reference that faster executors are compared with, and what a plugin's own
//! tests run.

use super::definition::{OperatorDefinition, OperatorFormula};
use super::derive::Expression;
use crate::interpret::{FormulaInput, NodeValue};
use crate::node::{FormulaNode, NodeId};

/// The vectors of an expression's inputs, one after the other. All have the same length; with length 1, they are one
/// element of each vector, which suffices for formulas without sums.
#[derive(Clone, Copy, Debug)]
pub struct VectorInput<'a> {
    /// Length of each vector.
    pub width: usize,
    /// Components of the embedding.
    pub components: &'a [f64],
    /// Parameters.
    pub parameters: &'a [f64],
    /// Gradients of the output components; empty for the forward pass.
    pub gradients: &'a [f64],
}

impl<'a> VectorInput<'a> {
    pub(crate) fn input(&self) -> FormulaInput<'a> {
        FormulaInput {
            components: self.components,
            parameters: self.parameters,
            gradients: self.gradients,
            width: self.width,
            ..FormulaInput::default()
        }
    }

    /// Returns the value of node `score` of a comparator, which is one number.
    pub(crate) fn score(&self, nodes: &[FormulaNode], score: NodeId) -> f64 {
        self.input().evaluate(nodes)[score as usize].at(0)
    }

    /// Returns the elements of a value; zeros for none.
    fn elements(&self, value: Option<&NodeValue>) -> impl Iterator<Item = f64> {
        (0..self.width).map(move |i| value.map_or(0.0, |value| value.at(i)))
    }
}

impl Expression {
    /// Returns the vectors of the outputs, one after the other.
    #[must_use]
    pub fn evaluate(&self, input: &VectorInput<'_>) -> Vec<f64> {
        let values = input.input().evaluate(&self.nodes);
        let of = |output: &Option<NodeId>| output.map(|id| &values[id as usize]);
        let outputs = self.outputs.iter();
        outputs
            .flat_map(|output| input.elements(of(output)))
            .collect()
    }
}

impl OperatorFormula {
    /// Transforms an embedding, with the vectors of a relation one after the other.
    ///
    /// # Panics
    /// If the embedding cannot be split into components.
    #[must_use]
    pub fn apply(&self, embedding: &[f64], parameters: &[f64]) -> Vec<f64> {
        let width = embedding.len() / self.components();
        assert_eq!(
            embedding.len(),
            width * self.components(),
            "the embedding cannot be split into components of equal length"
        );
        self.forward().evaluate(&VectorInput {
            width,
            components: embedding,
            parameters,
            gradients: &[],
        })
    }
}

impl OperatorDefinition {
    /// Transforms the embedding of a right entity. `parameters` are the vectors of the relation, in the order of
    /// [`OperatorDefinition::parameters`].
    ///
    /// # Panics
    /// If the embedding cannot be split into components, or if a vector is missing or shorter than a component.
    #[must_use]
    pub fn apply(&self, embedding: &[f32], parameters: &[&[f32]]) -> Vec<f32> {
        self.transform(&self.outputs, embedding, parameters)
    }

    /// Transforms the embedding of a left entity, as [`OperatorDefinition::apply`] does that of a right one; an operator
    /// of the right side alone leaves it as it is.
    ///
    /// # Panics
    /// As [`OperatorDefinition::apply`].
    #[must_use]
    pub fn apply_lhs(&self, embedding: &[f32], parameters: &[&[f32]]) -> Vec<f32> {
        match self.lhs_outputs.is_empty() {
            true => embedding.to_vec(),
            false => self.transform(&self.lhs_outputs, embedding, parameters),
        }
    }

    fn transform(&self, outputs: &[NodeId], embedding: &[f32], parameters: &[&[f32]]) -> Vec<f32> {
        let width = embedding.len() / self.components as usize;
        assert_eq!(
            embedding.len(),
            width * self.components as usize,
            "the embedding cannot be split into components of equal length"
        );
        let components: Vec<f64> = embedding.iter().map(|&x| x.into()).collect();
        let vectors = 0..self.parameters.len();
        let parameters = vectors.flat_map(|index| parameters[index][..width].iter());
        let parameters: Vec<f64> = parameters.map(|&x| x.into()).collect();
        let input = VectorInput {
            width,
            components: &components,
            parameters: &parameters,
            gradients: &[],
        };
        let values = input.input().evaluate(&self.nodes);
        let outputs = outputs.iter();
        outputs
            .flat_map(|&output| input.elements(Some(&values[output as usize])))
            .map(|x| x as f32)
            .collect()
    }
}
