//! Distances that are built in, as formulas.

use std::sync::LazyLock;

use super::definition::ComparatorDefinition;
use super::traced::ComparatorHandle;
use crate::node::{Binary, FormulaNode, Unary};
use crate::operator::definition::MAX_NODES;

/// Smallest squared modulus, which keeps the derivative of the square root finite.
const SMALLEST_SQUARE: f32 = 1e-30;

/// Returns minus the sum of absolute differences: the L1 distance.
#[must_use]
pub fn l1() -> ComparatorHandle {
    static KNOWN: LazyLock<ComparatorHandle> = LazyLock::new(|| checked(l1_definition()));
    *KNOWN
}

/// Returns minus the sum of the moduli of complex differences: the L1 distance of complex vectors, which is RotatE's.
#[must_use]
pub fn complex_l1() -> ComparatorHandle {
    static KNOWN: LazyLock<ComparatorHandle> = LazyLock::new(|| checked(complex_l1_definition()));
    *KNOWN
}

fn checked(definition: ComparatorDefinition) -> ComparatorHandle {
    let formula = definition.check(MAX_NODES);
    ComparatorHandle::new(formula.expect("a built-in formula is valid"))
}

fn l1_definition() -> ComparatorDefinition {
    ComparatorDefinition {
        name: "l1".to_owned(),
        components: 1,
        nodes: vec![
            FormulaNode::Component(0),
            FormulaNode::Component(1),
            FormulaNode::Binary(Binary::Sub, 0, 1),
            FormulaNode::Unary(Unary::Abs, 2),
            FormulaNode::Sum(3),
            FormulaNode::Unary(Unary::Neg, 4),
        ],
        score: 5,
    }
}

fn complex_l1_definition() -> ComparatorDefinition {
    ComparatorDefinition {
        name: "complex_l1".to_owned(),
        components: 2,
        nodes: vec![
            FormulaNode::Component(0),
            FormulaNode::Component(1),
            FormulaNode::Component(2),
            FormulaNode::Component(3),
            FormulaNode::Binary(Binary::Sub, 0, 2),
            FormulaNode::Binary(Binary::Sub, 1, 3),
            FormulaNode::Binary(Binary::Mul, 4, 4),
            FormulaNode::Binary(Binary::Mul, 5, 5),
            FormulaNode::Binary(Binary::Add, 6, 7),
            FormulaNode::Constant(SMALLEST_SQUARE),
            FormulaNode::Binary(Binary::Max, 8, 9),
            FormulaNode::Unary(Unary::Sqrt, 10),
            FormulaNode::Sum(11),
            FormulaNode::Unary(Unary::Neg, 12),
        ],
        score: 13,
    }
}
