//! Formulas of operators: invalid ones with their messages, and gradients.

use pbg_formula::node::{Binary, FormulaNode, NodeId, Unary};
use pbg_formula::operator::interpret::VectorInput;
use pbg_formula::operator::{FormulaHandle, InitialValue, OperatorDefinition, ParameterVector};
use proptest::prelude::*;

fn definition(nodes: &[FormulaNode], outputs: &[NodeId]) -> OperatorDefinition {
    OperatorDefinition {
        name: "test".to_owned(),
        components: outputs.len() as u32,
        parameters: vec![ParameterVector {
            name: "p".to_owned(),
            initial: InitialValue::One,
        }],
        nodes: nodes.to_vec(),
        outputs: outputs.to_vec(),
        lhs_outputs: Vec::new(),
    }
}

fn refused(definition: OperatorDefinition) -> String {
    definition.check(100).expect_err("no operator").to_string()
}

const X: FormulaNode = FormulaNode::Component(0);
const P: FormulaNode = FormulaNode::Parameter(0);

#[test]
fn messages_say_what_is_wrong() {
    let scaled = FormulaNode::Binary(Binary::Mul, 0, 1);
    for (nodes, outputs, expected) in [
        (&[][..], &[0][..], "the graph has no nodes"),
        (&[X, P, scaled], &[2, 2, 2], "3 components"),
        (
            &[X, FormulaNode::Component(1)],
            &[1],
            "node 1: there is no component 1; an embedding has 1 component, counted from 0",
        ),
        (
            &[X, FormulaNode::Parameter(1)],
            &[0],
            "node 1: there is no parameter 1; the graph has 1 parameters",
        ),
        (
            &[X, FormulaNode::Positive],
            &[0],
            "node 1, positive: this node is not allowed in an operator",
        ),
        (
            &[X, FormulaNode::Gradient(0)],
            &[0],
            "not allowed in an operator",
        ),
        (
            &[X, FormulaNode::Softmax(0)],
            &[0],
            "not allowed in an operator",
        ),
        (
            &[X, FormulaNode::Unary(Unary::Sin, 1)],
            &[1],
            "operand 1 does not come before it",
        ),
        (
            &[X, FormulaNode::Constant(f32::INFINITY)],
            &[0],
            "is always inf",
        ),
        (&[X, P], &[1], "the output, node 1, depends on no component"),
        (&[X, P], &[7], "the output is node 7, but the graph has 2"),
    ] {
        let found = refused(definition(nodes, outputs));
        assert!(found.contains(expected), "{found}");
    }
    let mut fewer = definition(&[X, P, scaled], &[2]);
    fewer.components = 2;
    assert!(refused(fewer).contains("1 outputs for 2 components"));
    let mut without = definition(&[X], &[0]);
    without.parameters.clear();
    assert!(refused(without).contains("no parameters"));
    let mut twice = definition(&[X, P, scaled], &[2]);
    twice.parameters.push(twice.parameters[0].clone());
    assert!(refused(twice).contains("the name p is used twice"));
    let mut wide = definition(&[X, P, scaled], &[2]);
    wide.parameters[0].initial = InitialValue::Normal(-1.0);
    assert!(refused(wide).contains("standard deviation of -1"));
    let mut left = definition(&[X, P, scaled], &[2]);
    left.lhs_outputs = vec![2, 2];
    let expected = "2 outputs of the left side for 1 components";
    assert!(refused(left.clone()).contains(expected));
    left.lhs_outputs = vec![1];
    assert!(refused(left).contains("the output, node 1, depends on no component"));
}

#[test]
fn equal_formulas_have_one_handle() {
    let formula = |output| {
        let nodes = [
            X,
            P,
            FormulaNode::Binary(Binary::Mul, 0, 1),
            FormulaNode::Binary(Binary::Add, 0, 1),
        ];
        FormulaHandle::new(definition(&nodes, &[output]).check(100).expect("a formula"))
    };
    assert_eq!(formula(2), formula(2));
    assert_ne!(formula(2), formula(3));
}

#[test]
fn a_formula_survives_its_text() {
    let nodes = [
        X,
        P,
        FormulaNode::Constant(0.1),
        FormulaNode::Clamp(0, 1, 2),
        FormulaNode::Unary(Unary::StopGradient, 3),
    ];
    let mut given = definition(&nodes, &[3]);
    let text = serde_json::to_string(&given).expect("a text");
    assert!(!text.contains("lhs_outputs"), "as it was before: {text}");
    given.nodes.push(FormulaNode::Sum(3));
    given.lhs_outputs = vec![5];
    let text = serde_json::to_string(&given).expect("a text");
    assert_eq!(
        serde_json::from_str::<OperatorDefinition>(&text).expect("a formula"),
        given
    );
}

const UNARY: [Unary; 5] = [
    Unary::Neg,
    Unary::Sigmoid,
    Unary::Softplus,
    Unary::Sin,
    Unary::Cos,
];
const BINARY: [Binary; 3] = [Binary::Add, Binary::Sub, Binary::Mul];

/// Elements of each vector.
const WIDTH: usize = 3;

/// Generates nodes that use earlier ones and are smooth where they are defined.
fn node(before: usize) -> impl Strategy<Value = FormulaNode> {
    let id = move || 0..before as NodeId;
    prop_oneof![
        (prop::sample::select(&UNARY), id()).prop_map(|(op, x)| FormulaNode::Unary(op, x)),
        (prop::sample::select(&BINARY), id(), id())
            .prop_map(|(op, a, b)| FormulaNode::Binary(op, a, b)),
        id().prop_map(FormulaNode::Sum),
        (-1.0_f32..1.0).prop_map(FormulaNode::Constant),
    ]
}

fn nodes() -> impl Strategy<Value = Vec<FormulaNode>> {
    let leaves = vec![X, FormulaNode::Component(1), P];
    let grown = (0..6).fold(Just(leaves).boxed(), |nodes, _| {
        nodes
            .prop_flat_map(|nodes| {
                node(nodes.len()).prop_map(move |node| [&nodes[..], &[node]].concat())
            })
            .boxed()
    });
    grown.prop_map(|mut nodes| {
        // The outputs depend on the components in any case.
        let last = nodes.len() as NodeId - 1;
        nodes.extend([
            FormulaNode::Binary(Binary::Add, last, 0),
            FormulaNode::Binary(Binary::Mul, last, 1),
        ]);
        nodes
    })
}

proptest! {
    #[test]
    fn derivatives_are_slopes(
        nodes in nodes(),
        values in prop::array::uniform9(-1.0_f64..1.0),
        gradients in prop::array::uniform6(-1.0_f64..1.0),
    ) {
        let (first, second) = (nodes.len() as NodeId - 2, nodes.len() as NodeId - 1);
        let checked = definition(&nodes, &[first, second]).check(100);
        // A value of constants may overflow.
        prop_assume!(checked.is_ok());
        let formula = checked.expect("it was just asked");
        let found = formula.backward().evaluate(&VectorInput {
            width: WIDTH,
            components: &values[..2 * WIDTH],
            parameters: &values[2 * WIDTH..],
            gradients: &gradients,
        });
        for i in 0..3 * WIDTH {
            let moved = |by: f64| {
                let mut values = values;
                values[i] += by;
                let made = formula.apply(&values[..2 * WIDTH], &values[2 * WIDTH..]);
                made.iter().zip(&gradients).map(|(made, gradient)| made * gradient).sum::<f64>()
            };
            let slope = (moved(1e-5) - moved(-1e-5)) / 2e-5;
            let scale = 1.0 + slope.abs() + moved(0.0).abs();
            prop_assert!((found[i] - slope).abs() < 1e-4 * scale, "{i}: {} or {slope}", found[i]);
        }
    }
}
