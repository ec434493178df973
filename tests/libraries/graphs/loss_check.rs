//! Graphs that are no losses, and what is said about them.

use pbg_core::loss::node::{Binary, Node, Reduction, Unary};
use pbg_core::loss::{Definition, Parameter};
use proptest::prelude::*;

fn refused(nodes: &[Node], output: u32) -> String {
    let definition = Definition {
        nodes: nodes.to_vec(),
        output,
        ..Definition::default()
    };
    definition
        .check(100)
        .expect_err("no valid graph")
        .to_string()
}

#[test]
fn messages_name_the_node() {
    let negated = |x| Node::Unary(Unary::Neg, x);
    for (nodes, output, expected) in [
        (vec![], 0, "the graph has no nodes"),
        (
            vec![Node::Positive, negated(2), negated(0)],
            1,
            "node 1, neg(2): operand 2 does not come before it; a node may only use \
             earlier nodes, so that there are no cycles",
        ),
        (
            vec![Node::Positive, Node::Binary(Binary::Add, 0, 1)],
            1,
            "node 1, add(0, 1): operand 1 does not come before it; a node may only use \
             earlier nodes, so that there are no cycles",
        ),
        (
            vec![Node::Positive, Node::Select(0, 0, 77)],
            1,
            "node 1, select(0, 0, 77): there is no node 77; the graph has 2 nodes",
        ),
        (
            vec![Node::Positive, Node::Parameter(3)],
            0,
            "node 1: there is no parameter 3; the graph has 0 parameters",
        ),
        (
            vec![Node::Positive, Node::Constant(f32::NAN)],
            0,
            "node 1, constant NaN: its value is always NaN, which is not finite",
        ),
        (
            vec![
                Node::Constant(-2.0),
                Node::Unary(Unary::Log, 0),
                Node::Positive,
            ],
            2,
            "node 1, log(0): its value is always NaN, which is not finite",
        ),
        (
            vec![Node::Positive, Node::Reduce(Reduction::Sum, 0)],
            1,
            "node 1, sum(0): node 0 is [B], but only [B, N] can be reduced over the negatives",
        ),
        (
            vec![Node::Columns, Node::Softmax(0)],
            1,
            "node 1, softmax(0): node 0 is a scalar, but only [B, N] can be reduced over the \
             negatives",
        ),
        (
            vec![Node::Positive],
            1,
            "the output is node 1, but the graph has 1 nodes",
        ),
        (
            vec![Node::Negative, Node::Unary(Unary::Softplus, 0)],
            1,
            "the output, node 1, is [B, N], but a loss must have one value per positive, [B]; reduce it over \
             the negatives, with sum or mean",
        ),
        (
            vec![Node::Constant(1.0)],
            0,
            "the output, node 0, is a scalar, but a loss must have one value per positive, [B]; it depends on \
             no score",
        ),
        (
            vec![Node::Positive; 101],
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
        let definition = Definition {
            nodes: vec![Node::Positive],
            parameters: parameters
                .iter()
                .map(|&(name, value)| Parameter {
                    name: name.to_owned(),
                    value,
                })
                .collect(),
            ..Definition::default()
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

fn node() -> impl Strategy<Value = Node> {
    let id = || prop_oneof![0_u32..12, Just(u32::MAX)];
    prop_oneof![
        Just(Node::Positive),
        Just(Node::Negative),
        any::<f32>().prop_map(Node::Constant),
        (0_u32..3).prop_map(Node::Parameter),
        id().prop_map(|x| Node::Unary(Unary::Exp, x)),
        (id(), id()).prop_map(|(a, b)| Node::Binary(Binary::Div, a, b)),
        (id(), id(), id()).prop_map(|(a, b, c)| Node::Select(a, b, c)),
        id().prop_map(|x| Node::Reduce(Reduction::Max, x)),
        id().prop_map(Node::Softmax),
    ]
}

proptest! {
    /// Whatever passes the check can be differentiated and evaluated.
    #[test]
    fn anything_is_refused_or_works(nodes in prop::collection::vec(node(), 0..12), output in 0_u32..13) {
        let definition = Definition { nodes, output, ..Definition::default() };
        if let Ok(graph) = definition.check(100) {
            let row = pbg_core::loss::Derived::of(&graph).row(&[], 0.5, &[1.0, -1.0]);
            prop_assert_eq!(row.negative.len(), 2);
        }
    }
}
