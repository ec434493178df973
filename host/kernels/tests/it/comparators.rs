//! Formulas of comparators: invalid ones with their messages, scores, gradients and prices.

use pbg_core::model::Comparator;
use pbg_formula::comparator::{ComparatorDefinition, ComparatorHandle, PairCost, distances};
use pbg_formula::node::{Binary, FormulaNode, NodeId, Unary};
use pbg_reference::comparators::{formulas, random};
use proptest::prelude::*;

fn definition(components: u32, nodes: &[FormulaNode], score: NodeId) -> ComparatorDefinition {
    ComparatorDefinition {
        name: "test".to_owned(),
        components,
        nodes: nodes.to_vec(),
        score,
    }
}

const X: FormulaNode = FormulaNode::Component(0);
const Y: FormulaNode = FormulaNode::Component(1);
const PRODUCT: FormulaNode = FormulaNode::Binary(Binary::Mul, 0, 1);

#[test]
fn messages_say_what_is_wrong() {
    let sum = FormulaNode::Sum(2);
    for (components, nodes, score, expected) in [
        (1, &[][..], 0, "the graph has no nodes"),
        (3, &[X, Y, PRODUCT, sum], 3, "3 components"),
        (
            1,
            &[X, FormulaNode::Component(2)],
            0,
            "node 1: there is no component 2; the left and the right embedding together have 2 components, counted from 0",
        ),
        (
            1,
            &[X, FormulaNode::Parameter(0)],
            0,
            "node 1, parameter 0: this node is not allowed in a comparator",
        ),
        (
            1,
            &[X, FormulaNode::Positive],
            0,
            "not allowed in a comparator",
        ),
        (1, &[X, Y, PRODUCT], 2, "sum it over the vector"),
        (1, &[X, Y, PRODUCT, sum], 7, "the output is node 7"),
        (
            1,
            &[X, Y, FormulaNode::Sum(0)],
            2,
            "node 2, does not depend on both embeddings",
        ),
    ] {
        let refused = definition(components, nodes, score).check(100);
        let found = refused.expect_err("no comparator").to_string();
        assert!(found.contains(expected), "{found}");
    }
}

#[test]
fn equal_formulas_have_one_handle() {
    let formula = |extra: f32| {
        let nodes = [
            X,
            Y,
            PRODUCT,
            FormulaNode::Constant(extra),
            FormulaNode::Binary(Binary::Add, 2, 3),
            FormulaNode::Sum(4),
        ];
        ComparatorHandle::new(definition(1, &nodes, 5).check(100).expect("a formula"))
    };
    assert_eq!(formula(0.5), formula(0.5));
    assert_ne!(formula(0.5), formula(0.25));
}

#[test]
fn the_price_of_a_pair_follows_from_its_formula() {
    // A difference, an absolute value and a sum of 100 numbers.
    assert_eq!(distances::l1().cost(100).score, 300);
    let dot = definition(1, &[X, Y, PRODUCT, FormulaNode::Sum(2)], 3);
    assert_eq!(
        dot.check(100).expect("a formula").cost(100),
        PairCost::of_product(100)
    );
    for formula in formulas().map(|comparator| comparator.formula().expect("a formula")) {
        let product = PairCost::of_product(100);
        let cost = formula.cost(100);
        assert!(cost.score > product.score / 2 && cost.gradients > product.gradients / 2);
    }
}

#[test]
fn equal_embeddings_have_finite_gradients_of_distances() {
    for comparator in [Comparator::L1, Comparator::ComplexL1] {
        let formula = comparator.formula().expect("a formula");
        let pair = formula.compare(&[0.5, -1.0], &[0.5, -1.0]);
        assert!(pair.score.abs() < 1e-12);
        assert_eq!([pair.left, pair.right].concat(), [0.0; 4]);
    }
    // A root without a lower bound has an infinite slope there.
    let root = [
        X,
        Y,
        FormulaNode::Binary(Binary::Sub, 0, 1),
        FormulaNode::Binary(Binary::Mul, 2, 2),
        FormulaNode::Sum(3),
        FormulaNode::Unary(Unary::Sqrt, 4),
    ];
    let formula = definition(1, &root, 5).check(100).expect("a formula");
    assert!(formula.compare(&[0.5], &[0.5]).left[0].is_nan());
}

proptest! {
    /// Gradients by both embeddings are the slopes of the score.
    #[test]
    fn gradients_are_slopes(
        seed: u64,
        left in prop::collection::vec(-1.5_f64..1.5, 6),
        right in prop::collection::vec(-1.5_f64..1.5, 6),
    ) {
        let formula = random(seed).formula().expect("a formula").formula();
        let pair = formula.compare(&left, &right);
        let slope = |side: usize, at: usize, step: f64| {
            let moved = |by: f64| {
                let mut both = [left.clone(), right.clone()];
                both[side][at] += by;
                formula.compare(&both[0], &both[1]).score
            };
            (moved(step) - moved(-step)) / (2.0 * step)
        };
        for (side, gradient) in [&pair.left, &pair.right].into_iter().enumerate() {
            for (at, &found) in gradient.iter().enumerate() {
                let (near, far) = (slope(side, at, 1e-6), slope(side, at, 1e-5));
                // Between two steps of different slopes there is a kink or a jump.
                if (near - far).abs() < 1e-4 * (1.0 + near.abs()) {
                    prop_assert!((found - near).abs() < 1e-3 * (1.0 + near.abs()), "{side} {at}: {found}, {near}");
                }
            }
        }
    }
}
