//! Comparators by the interpreter, in f64: the reference that faster executors are compared with.

use super::definition::{Candidates, ComparatorFormula};
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
        let width = left.len() / self.components();
        assert_eq!(left.len(), right.len(), "embeddings have equal lengths");
        assert_eq!(
            left.len(),
            width * self.components(),
            "embeddings cannot be split into components of equal length"
        );
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
