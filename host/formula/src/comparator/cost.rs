//! The price of comparing one pair of embeddings.

use super::definition::{Candidates, ComparatorFormula, PairExpressions};
use crate::node::{FormulaNode, ValueShape};
use crate::operator::Expression;

/// Arithmetic operations for one pair of embeddings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PairCost {
    /// Operations for the score.
    pub score: usize,
    /// Further operations for the gradients of both embeddings.
    pub gradients: usize,
}

impl PairCost {
    /// Returns the price of an inner product of `dimension` numbers: a multiplication and an addition for each, once for
    /// the score and twice for the gradients.
    #[must_use]
    pub const fn of_product(dimension: usize) -> Self {
        Self {
            score: 2 * dimension,
            gradients: 4 * dimension,
        }
    }
}

impl ComparatorFormula {
    /// Returns the price for embeddings of `dimension` numbers. Every node counts as one operation for each element of a
    /// component; values of the query alone are computed once for all candidates, and do not count.
    #[must_use]
    pub fn cost(&self, dimension: usize) -> PairCost {
        let width = dimension / self.components();
        let PairExpressions { score, slopes } = self.pairs(Candidates::Right);
        // Every gradient is multiplied by that of the score, and added.
        let added = slopes.outputs.iter().flatten().count();
        PairCost {
            score: width * elementwise(score),
            gradients: width * (elementwise(slopes) + 2 * added),
        }
    }
}

/// Returns the number of nodes that are computed for each element.
fn elementwise(expression: &Expression) -> usize {
    let mut numbers: Vec<bool> = Vec::with_capacity(expression.nodes.len());
    let mut count = 0;
    for (node, &shape) in expression.nodes.iter().zip(&expression.shapes) {
        let leaf = matches!(
            node,
            FormulaNode::Component(_) | FormulaNode::Parameter(_) | FormulaNode::Constant(_)
        );
        let number = matches!(node, FormulaNode::Sum(_) | FormulaNode::Constant(_))
            || (!leaf && node.operands().all(|id| numbers[id as usize]));
        let sums = matches!(node, FormulaNode::Sum(_));
        count += usize::from(!leaf && shape == ValueShape::Row && (sums || !number));
        numbers.push(number);
    }
    count
}
