//! Comparators by the interpreter, in f64: the reference that faster executors are compared with, and what a plugin's own
//! tests run.

use super::definition::{Candidates, ComparatorDefinition, ComparatorFormula};
use crate::operator::interpret::VectorInput;

/// Score of a pair of embeddings, and its derivatives.
#[derive(Clone, Debug, PartialEq)]
pub struct PairScore {
    /// The score.
    pub score: f64,
    /// Derivative by the left embedding.
    pub left: Vec<f64>,
    /// Derivative by the right embedding.
    pub right: Vec<f64>,
}

impl ComparatorFormula {
    /// Compares two embeddings of equal length.
    ///
    /// # Panics
    /// If their lengths differ, or they cannot be split into components.
    #[must_use]
    pub fn compare(&self, left: &[f64], right: &[f64]) -> PairScore {
        let width = component_width(left.len(), right.len(), self.components());
        let pairs = self.pairs(Candidates::Right);
        let input = VectorInput {
            width,
            components: right,
            parameters: left,
            gradients: &[],
        };
        let score = pairs.score.evaluate(&input)[0];
        let mut slopes = pairs.slopes.evaluate(&input);
        let left = slopes.split_off(right.len());
        PairScore {
            score,
            left,
            right: slopes,
        }
    }
}

impl ComparatorDefinition {
    /// Returns the score of two embeddings of equal length.
    ///
    /// # Panics
    /// If their lengths differ, or they cannot be split into components, or there is no node of the score.
    #[must_use]
    pub fn compare(&self, left: &[f32], right: &[f32]) -> f32 {
        let width = component_width(left.len(), right.len(), self.components as usize);
        let both: Vec<f64> = left.iter().chain(right).map(|&x| x.into()).collect();
        let input = VectorInput {
            width,
            components: &both,
            parameters: &[],
            gradients: &[],
        };
        input.score(&self.nodes, self.score) as f32
    }
}

/// Returns the length of a component of two embeddings of these lengths.
fn component_width(left: usize, right: usize, components: usize) -> usize {
    let width = left / components;
    assert_eq!(left, right, "embeddings have equal lengths");
    assert_eq!(
        left,
        width * components,
        "embeddings cannot be split into components of equal length"
    );
    width
}
