//! Derived gradients against finite differences, and against values computed by hand where differences do not help.

use pbg_core::strategy::MASKED;
use pbg_formula::loss::{DerivedLoss, LossDefinition, LossGraph};
use pbg_formula::node::{Binary, FormulaNode, Reduction, Unary};
use pbg_library_tests::definitions::{definitions, rows};
use proptest::prelude::*;

fn graph(nodes: &[FormulaNode]) -> LossGraph {
    let definition = LossDefinition {
        nodes: nodes.to_vec(),
        output: nodes.len() as u32 - 1,
        ..LossDefinition::default()
    };
    definition.check(100).expect("a valid graph")
}

/// Returns the central difference, or `None` next to a kink, where it depends on the step size.
fn slope(f: impl Fn(f64) -> f64) -> Option<f64> {
    let difference = |h: f64| (f(h) - f(-h)) / (2.0 * h);
    let sided = |h: f64| [(f(h) - f(0.0)) / h, (f(0.0) - f(-h)) / h];
    let (wide, narrow, [right, left]) = (difference(1e-4), difference(1e-5), sided(1e-5));
    let tolerance = 1e-4 * (1.0 + narrow.abs());
    ((wide - narrow).abs() < tolerance && (right - left).abs() < 10.0 * tolerance).then_some(narrow)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn gradients_are_those_of_finite_differences(
        definition in definitions(),
        (positives, negatives, columns) in rows(),
    ) {
        let parameters = [definition.parameters[0].value];
        let graph = definition.check(1000).expect("a valid graph");
        let derived = DerivedLoss::of(&graph);
        for (i, &positive) in positives.iter().enumerate() {
            let positive = f64::from(positive);
            let negatives: Vec<f64> =
                negatives[i * columns..(i + 1) * columns].iter().map(|&t| t.into()).collect();
            let row = derived.row(&parameters, positive, &negatives);
            let value = graph.loss_of(&parameters, positive, &negatives);
            prop_assert!(value.is_finite(), "{value}");
            // Folded constants are rounded to f32.
            prop_assert!((row.loss - value).abs() <= 1e-5 * (1.0 + value.abs()));
            let by_positive = slope(|h| graph.loss_of(&parameters, positive + h, &negatives));
            if let Some(expected) = by_positive {
                let close = (row.positive - expected).abs() < 1e-3 * (1.0 + expected.abs());
                prop_assert!(close, "positive: {} {expected}", row.positive);
            }
            for (j, &found) in row.negative.iter().enumerate() {
                if negatives[j] == f64::from(MASKED) {
                    prop_assert_eq!(found, 0.0);
                    continue;
                }
                let expected = slope(|h| {
                    let mut moved = negatives.clone();
                    moved[j] += h;
                    graph.loss_of(&parameters, positive, &moved)
                });
                if let Some(expected) = expected {
                    let close = (found - expected).abs() < 1e-3 * (1.0 + expected.abs());
                    prop_assert!(close, "negative {j}: {found} {expected}");
                }
            }
        }
    }

    #[test]
    fn no_node_is_there_twice_or_in_vain(definition in definitions()) {
        let derived = DerivedLoss::of(&definition.check(1000).expect("a valid graph"));
        let mut used = vec![false; derived.nodes.len()];
        for output in [derived.loss, derived.positive, derived.negative] {
            used[output as usize] = true;
        }
        for (id, node) in derived.nodes.iter().enumerate() {
            // Compared as text, because 0 and -0 are different nodes.
            let (before, text) = (&derived.nodes[..id], format!("{node:?}"));
            let twice = before.iter().any(|other| format!("{other:?}") == text);
            prop_assert!(!twice, "{text} occurs twice");
            for operand in node.operands() {
                prop_assert!((operand as usize) < id);
                used[operand as usize] = true;
            }
        }
        prop_assert!(used.iter().all(|&used| used), "{derived:?}");
    }
}

/// PBG's softmax: `softplus(logsumexp(negatives) - positive)`.
fn softmax() -> LossGraph {
    graph(&[
        FormulaNode::Positive,
        FormulaNode::Negative,
        FormulaNode::Reduce(Reduction::LogSumExp, 1),
        FormulaNode::Binary(Binary::Sub, 2, 0),
        FormulaNode::Unary(Unary::Softplus, 3),
    ])
}

#[test]
fn the_gradient_of_softmax_shares_what_its_loss_computes() {
    let derived = DerivedLoss::of(&softmax());
    let texts: Vec<String> = derived.nodes.iter().map(ToString::to_string).collect();
    assert_eq!(
        texts,
        [
            "positive",
            "negative",
            "logsumexp(1)",
            "sub(2, 0)",
            "softplus(3)",
            "sigmoid(3)",
            "neg(5)",
            "softmax(1)",
            "mul(5, 7)"
        ]
    );
}

#[test]
fn extreme_rows_have_finite_losses_and_gradients() {
    let derived = DerivedLoss::of(&softmax());
    for (positive, negatives) in [
        (1e9, vec![-1e9, 1e9]),
        (-1e9, vec![1e9; 3]),
        (0.0, vec![0.0; 4]),
        (2.0, vec![]),
        (2.0, vec![MASKED.into(); 2]),
    ] {
        let row = derived.row(&[], positive, &negatives);
        let finite = row.loss.is_finite()
            && row.positive.is_finite()
            && row.negative.iter().all(|g| g.is_finite());
        assert!(finite, "{positive} {negatives:?}: {row:?}");
    }
    let none = derived.row(&[], 2.0, &[]);
    assert_eq!((none.loss, none.positive), (0.0, -0.0));
}

#[test]
fn nothing_flows_back_through_a_stopped_gradient() {
    // sum(stop(t) * t): the stopped factor acts as a constant.
    let derived = DerivedLoss::of(&graph(&[
        FormulaNode::Negative,
        FormulaNode::Unary(Unary::StopGradient, 0),
        FormulaNode::Binary(Binary::Mul, 1, 0),
        FormulaNode::Reduce(Reduction::Sum, 2),
    ]));
    let row = derived.row(&[], 0.0, &[3.0, -2.0]);
    assert_eq!((row.loss, row.positive), (13.0, 0.0));
    assert_eq!(row.negative, [3.0, -2.0]);
}

#[test]
fn what_is_masked_counts_as_a_column_and_as_nothing_else() {
    // mean(t - s)
    let derived = DerivedLoss::of(&graph(&[
        FormulaNode::Positive,
        FormulaNode::Negative,
        FormulaNode::Binary(Binary::Sub, 1, 0),
        FormulaNode::Reduce(Reduction::Mean, 2),
    ]));
    let row = derived.row(&[], 1.0, &[3.0, MASKED.into(), 6.0, MASKED.into()]);
    assert_eq!((row.loss, row.positive), (7.0 / 4.0, -0.5));
    assert_eq!(row.negative, [0.25, 0.0, 0.25, 0.0]);
}

#[test]
fn the_largest_negatives_share_their_gradient() {
    let derived = DerivedLoss::of(&graph(&[
        FormulaNode::Negative,
        FormulaNode::Reduce(Reduction::Max, 0),
    ]));
    let row = derived.row(&[], 0.0, &[1.0, 5.0, MASKED.into(), 5.0]);
    assert_eq!((row.loss, row.negative), (5.0, vec![0.0, 0.5, 0.0, 0.5]));
}

#[test]
fn at_a_kink_the_gradient_goes_where_the_documentation_says() {
    // relu(s - sum(t)), with s = sum(t)
    let nodes = |op: fn(u32) -> FormulaNode| {
        [
            FormulaNode::Positive,
            FormulaNode::Negative,
            FormulaNode::Reduce(Reduction::Sum, 1),
            FormulaNode::Binary(Binary::Sub, 0, 2),
            op(3),
        ]
    };
    let relu = DerivedLoss::of(&graph(&nodes(|x| FormulaNode::Unary(Unary::Relu, x))));
    assert_eq!(relu.row(&[], 2.0, &[2.0]).positive, 1.0);
    let abs = DerivedLoss::of(&graph(&nodes(|x| FormulaNode::Unary(Unary::Abs, x))));
    assert_eq!(abs.row(&[], 2.0, &[2.0]).positive, 0.0);
    let max = DerivedLoss::of(&graph(&[
        FormulaNode::Positive,
        FormulaNode::Negative,
        FormulaNode::Reduce(Reduction::Sum, 1),
        FormulaNode::Binary(Binary::Max, 0, 2),
    ]));
    let row = max.row(&[], 2.0, &[2.0]);
    assert_eq!((row.positive, row.negative[0]), (1.0, 0.0));
}

/// Constants are folded when a formula is derived, in f64 and rounded once; the plain reference rounds in the same way.
#[test]
fn what_is_made_of_constants_is_the_same_number_in_reference_and_derivation() {
    let nodes = vec![
        FormulaNode::Positive,
        FormulaNode::Constant(-1.0),
        FormulaNode::Unary(Unary::Exp, 1),
        FormulaNode::Binary(Binary::Add, 0, 2),
    ];
    let definition = LossDefinition {
        output: 3,
        parameters: Vec::new(),
        update_every: 0,
        nodes,
    };
    let graph = definition.check(16).unwrap();
    let loss = graph.loss_of(&[], 0.25, &[]);
    assert_eq!(DerivedLoss::of(&graph).row(&[], 0.25, &[]).loss, loss);
    assert_eq!(loss, 0.25 + f64::from((-1.0_f64).exp() as f32));
}
