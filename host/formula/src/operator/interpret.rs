//! Operators by the interpreter, in f64: the reference that faster executors are compared with, and what a plugin's own
//! tests run.

use super::definition::{OperatorDefinition, OperatorFormula};
use super::derive::Expression;
use crate::interpret::FormulaInput;

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

impl<'a> ElementInput<'a> {
    fn input(&self) -> FormulaInput<'a> {
        FormulaInput {
            components: self.components,
            parameters: self.parameters,
            gradients: self.gradients,
            ..FormulaInput::default()
        }
    }
}

impl Expression {
    /// Returns the values of the outputs.
    #[must_use]
    pub fn evaluate(&self, element: &ElementInput<'_>) -> Vec<f64> {
        let values = element.input().evaluate(&self.nodes);
        let outputs = self.outputs.iter();
        outputs
            .map(|output| output.map_or(0.0, |id| values[id as usize].at(0)))
            .collect()
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

impl OperatorDefinition {
    /// Transforms an embedding. `parameters` are the vectors of the relation, in the order of
    /// [`OperatorDefinition::parameters`].
    ///
    /// # Panics
    /// If the embedding cannot be split into components, or if a vector is missing or shorter than a component.
    #[must_use]
    pub fn apply(&self, embedding: &[f32], parameters: &[&[f32]]) -> Vec<f32> {
        let width = embedding.len() / self.components as usize;
        assert_eq!(
            embedding.len(),
            width * self.components as usize,
            "the embedding cannot be split into components of equal length"
        );
        let mut made = vec![0.0; embedding.len()];
        for i in 0..width {
            let components = embedding.iter().skip(i).step_by(width);
            let components: Vec<f64> = components.map(|&x| x.into()).collect();
            let vectors = 0..self.parameters.len();
            let parameters: Vec<f64> = vectors.map(|index| parameters[index][i].into()).collect();
            let element = ElementInput {
                components: &components,
                parameters: &parameters,
                gradients: &[],
            };
            let values = element.input().evaluate(&self.nodes);
            for (component, &output) in self.outputs.iter().enumerate() {
                made[component * width + i] = values[output as usize].at(0) as f32;
            }
        }
        made
    }
}
