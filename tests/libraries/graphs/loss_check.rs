//! Invalid graphs of losses, and the messages about them.

use pbg_formula::loss::{LossDefinition, LossParameter};
use pbg_formula::node::{Binary, FormulaNode, Reduction, Unary};
use proptest::prelude::*;

fn refused(nodes: &[FormulaNode], output: u32) -> String {
    let definition = LossDefinition {
        nodes: nodes.to_vec(),
        output,
        ..LossDefinition::default()
    };
    definition
        .check(100)
        .expect_err("no valid graph")
        .to_string()
}

#[test]
fn messages_name_the_node() {
    let negated = |x| FormulaNode::Unary(Unary::Neg, x);
    for (nodes, output, expected) in [
        (vec![], 0, "the graph has no nodes"),
        (
            vec![FormulaNode::Positive, negated(2), negated(0)],
            1,
            "node 1, neg(2): operand 2 does not come before it; a node may only use \
             earlier nodes, so that there are no cycles",
        ),
        (
            vec![
                FormulaNode::Positive,
                FormulaNode::Binary(Binary::Add, 0, 1),
            ],
            1,
            "node 1, add(0, 1): operand 1 does not come before it; a node may only use \
             earlier nodes, so that there are no cycles",
        ),
        (
            vec![FormulaNode::Positive, FormulaNode::Select(0, 0, 77)],
            1,
            "node 1, select(0, 0, 77): there is no node 77; the graph has 2 nodes",
        ),
        (
            vec![FormulaNode::Positive, FormulaNode::Parameter(3)],
            0,
            "node 1: there is no parameter 3; the graph has 0 parameters",
        ),
        (
            vec![FormulaNode::Positive, FormulaNode::Constant(f32::NAN)],
            0,
            "node 1, constant NaN: its value is always NaN, which is not finite",
        ),
        (
            vec![
                FormulaNode::Constant(-2.0),
                FormulaNode::Unary(Unary::Log, 0),
                FormulaNode::Positive,
            ],
            2,
            "node 1, log(0): its value is always NaN, which is not finite",
        ),
        (
            vec![
                FormulaNode::Positive,
                FormulaNode::Reduce(Reduction::Sum, 0),
            ],
            1,
            "node 1, sum(0): node 0 is [B], but only [B, N] can be reduced over the negatives",
        ),
        (
            vec![FormulaNode::Columns, FormulaNode::Softmax(0)],
            1,
            "node 1, softmax(0): node 0 is a scalar, but only [B, N] can be reduced over the \
             negatives",
        ),
        (
            vec![FormulaNode::Positive],
            1,
            "the output is node 1, but the graph has 1 nodes",
        ),
        (
            vec![
                FormulaNode::Negative,
                FormulaNode::Unary(Unary::Softplus, 0),
            ],
            1,
            "the output, node 1, is [B, N], but a loss must have one value per positive, [B]; reduce it over \
             the negatives, with sum or mean",
        ),
        (
            vec![FormulaNode::Constant(1.0)],
            0,
            "the output, node 0, is a scalar, but a loss must have one value per positive, [B]; it depends on \
             no score",
        ),
        (
            vec![FormulaNode::Positive; 101],
            0,
            "the graph has 101 nodes, more than the 100 allowed",
        ),
    ] {
        assert_eq!(refused(&nodes, output), expected);
    }
}

#[test]
fn parameters_have_names_and_finite_values() {
    let refused = |parameters: &[(&str, f32)]| {
        let definition = LossDefinition {
            nodes: vec![FormulaNode::Positive],
            parameters: parameters
                .iter()
                .map(|&(name, value)| LossParameter {
                    name: name.to_owned(),
                    value,
                })
                .collect(),
            ..LossDefinition::default()
        };
        definition.check(100).expect_err("refused").to_string()
    };
    let finite = refused(&[("margin", 1.0), ("alpha", f32::INFINITY)]);
    assert_eq!(
        finite,
        "parameter 1 of the graph: alpha is inf, which is not finite"
    );
    let twice = refused(&[("margin", 1.0), ("margin", 1.0)]);
    assert_eq!(
        twice,
        "parameter 1 of the graph: the name margin is used twice"
    );
    assert!(refused(&[("\u{1b}[31m", 0.0)]).starts_with("parameter 0 of the graph: its name"));
    assert!(refused(&[("m", 0.0); 65]).starts_with("the graph has 65 parameters"));
}

fn node() -> impl Strategy<Value = FormulaNode> {
    let id = || prop_oneof![0_u32..12, Just(u32::MAX)];
    prop_oneof![
        Just(FormulaNode::Positive),
        Just(FormulaNode::Negative),
        any::<f32>().prop_map(FormulaNode::Constant),
        (0_u32..3).prop_map(FormulaNode::Parameter),
        id().prop_map(|x| FormulaNode::Unary(Unary::Exp, x)),
        (id(), id()).prop_map(|(a, b)| FormulaNode::Binary(Binary::Div, a, b)),
        (id(), id(), id()).prop_map(|(a, b, c)| FormulaNode::Select(a, b, c)),
        id().prop_map(|x| FormulaNode::Reduce(Reduction::Max, x)),
        id().prop_map(FormulaNode::Softmax),
    ]
}

proptest! {
    /// Every graph that passes the check can be differentiated and evaluated.
    #[test]
    fn anything_is_refused_or_works(nodes in prop::collection::vec(node(), 0..12), output in 0_u32..13) {
        let definition = LossDefinition { nodes, output, ..LossDefinition::default() };
        if let Ok(graph) = definition.check(100) {
            let row = pbg_formula::loss::DerivedLoss::of(&graph).row(&[], 0.5, &[1.0, -1.0]);
            prop_assert_eq!(row.negative.len(), 2);
        }
    }
}
