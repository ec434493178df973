use pbg_formula::node::Unary;
use pbg_formula::operator::ParameterVector;

use super::*;

/// The formula itself, with `factor` times its gradients.
struct Plain(OperatorFormula, f64);

impl FormulaExecutor for Plain {
    fn forward(&mut self, parameters: &[f32], x: &[f32], y: &mut [f32]) {
        let dimension = checked_dimension(&self.0);
        for (x, y) in x.chunks(dimension).zip(y.chunks_mut(dimension)) {
            let made = self.0.apply(&wide(x), &wide(parameters));
            y.iter_mut()
                .zip(made)
                .for_each(|(y, made)| *y = made as f32);
        }
    }

    fn backward(&mut self, parameters: &[f32], x: &[f32], gradients: &mut [f32], sums: &mut [f32]) {
        let dimension = checked_dimension(&self.0);
        for (x, g) in x.chunks(dimension).zip(gradients.chunks_mut(dimension)) {
            let found = self.0.backward().evaluate(&VectorInput {
                width: WIDTH,
                components: &wide(x),
                parameters: &wide(parameters),
                gradients: &wide(g),
            });
            let (own, others) = found.split_at(dimension);
            for (g, own) in g.iter_mut().zip(own) {
                *g = (self.1 * own) as f32;
            }
            for (sum, other) in sums.iter_mut().zip(others) {
                *sum += (self.1 * other) as f32;
            }
        }
    }
}

fn formula(nodes: &[FormulaNode], output: u32) -> OperatorFormula {
    both_sides(nodes, output, &[])
}

/// Returns a formula with an output for the left side too, if one is given.
fn both_sides(nodes: &[FormulaNode], output: u32, lhs: &[u32]) -> OperatorFormula {
    let parameter = |name: &str| ParameterVector {
        name: name.to_owned(),
        initial: InitialValue::One,
    };
    let definition = OperatorDefinition {
        name: "test".to_owned(),
        components: 1,
        parameters: vec![parameter("p"), parameter("q")],
        nodes: nodes.to_vec(),
        outputs: vec![output],
        lhs_outputs: lhs.to_vec(),
    };
    definition.check(100).expect("a formula")
}

const LEAVES: [FormulaNode; 3] = [
    FormulaNode::Component(0),
    FormulaNode::Parameter(0),
    FormulaNode::Parameter(1),
];

fn scaled() -> OperatorFormula {
    let more = [
        FormulaNode::Binary(Binary::Mul, 0, 1),
        FormulaNode::Binary(Binary::Add, 3, 2),
    ];
    formula(&[&LEAVES[..], &more].concat(), 4)
}

fn checked(formula: OperatorFormula, factor: f64) -> ContractReport {
    let executors = OperatorExecutors::new(FormulaHandle::new(formula.clone()), |side| {
        Box::new(Plain(side.formula().clone(), factor))
    });
    check_operator(&formula, executors)
}

/// Returns the lines on parts of the formula that do nothing.
fn idle(report: &ContractReport) -> Vec<&str> {
    let mut findings = report.findings().iter();
    let found = findings.find(|finding| finding.promise == "formula");
    found.map_or(Vec::new(), |finding| finding.detail.lines().collect())
}

fn broken(report: &ContractReport) -> Vec<&'static str> {
    let findings = report.findings().iter();
    let broken = findings.filter(|finding| finding.outcome == crate::FindingOutcome::Broken);
    broken.map(|finding| finding.promise).collect()
}

#[test]
fn a_right_operator_keeps_every_promise() {
    assert_eq!(broken(&checked(scaled(), 1.0)), [""; 0]);
}

/// Returns an operator that scales right entities by the first parameter, and takes the part along the second one out
/// of left ones.
fn projected() -> OperatorFormula {
    let more = [
        FormulaNode::Binary(Binary::Mul, 0, 1),
        FormulaNode::Binary(Binary::Mul, 0, 2),
        FormulaNode::Sum(4),
        FormulaNode::Binary(Binary::Mul, 5, 2),
        FormulaNode::Binary(Binary::Sub, 0, 6),
    ];
    both_sides(&[&LEAVES[..], &more].concat(), 3, &[7])
}

#[test]
fn both_sides_are_checked() {
    let report = checked(projected(), 1.0);
    assert_eq!(broken(&report), [""; 0], "{report:?}");
    let gradient = report.findings().iter().find(|f| f.promise == "gradient");
    let text = &gradient.expect("a finding").detail;
    assert!(
        text.contains("right side: ") && text.contains("left side: "),
        "{text}"
    );
    // Without the left side, nothing trains the second parameter.
    let alone = formula(&projected().definition().nodes, 3);
    assert_eq!(broken(&checked(alone, 1.0)), ["parameters"]);
}

#[test]
fn a_wrong_gradient_is_found() {
    assert_eq!(broken(&checked(scaled(), 1.1)), ["exact", "gradient"]);
    assert_eq!(broken(&checked(projected(), 1.1)), ["exact", "gradient"]);
}

#[test]
fn what_is_not_finite_is_found() {
    let more = [
        FormulaNode::Binary(Binary::Div, 1, 0),
        FormulaNode::Binary(Binary::Mul, 3, 2),
    ];
    let report = checked(formula(&[&LEAVES[..], &more].concat(), 4), 1.0);
    assert_eq!(broken(&report), ["finite"], "{report:?}");
}

#[test]
fn a_parameter_that_nothing_trains_is_found() {
    let more = [
        FormulaNode::Unary(Unary::StopGradient, 2),
        FormulaNode::Binary(Binary::Mul, 0, 1),
        FormulaNode::Binary(Binary::Mul, 4, 3),
    ];
    let report = checked(formula(&[&LEAVES[..], &more].concat(), 5), 1.0);
    assert_eq!(broken(&report), ["parameters"], "{report:?}");
}

#[test]
fn an_embedding_that_nothing_trains_is_found() {
    let more = [
        FormulaNode::Unary(Unary::StopGradient, 0),
        FormulaNode::Binary(Binary::Mul, 3, 1),
        FormulaNode::Binary(Binary::Add, 4, 2),
    ];
    let report = checked(formula(&[&LEAVES[..], &more].concat(), 5), 1.0);
    assert_eq!(broken(&report), ["embedding"], "{report:?}");
}

#[test]
fn parts_without_influence_are_named() {
    // Scaled right entities, or their sums where a modulus is greater than -1, which it always is.
    let more = [
        FormulaNode::Binary(Binary::Mul, 0, 1),
        FormulaNode::Binary(Binary::Add, 3, 2),
        FormulaNode::Unary(Unary::Abs, 0),
        FormulaNode::Constant(-1.0),
        FormulaNode::Binary(Binary::Greater, 5, 6),
        FormulaNode::Select(7, 4, 3),
        FormulaNode::Binary(Binary::Mul, 1, 0),
    ];
    let report = checked(formula(&[&LEAVES[..], &more].concat(), 8), 1.0);
    assert_eq!(broken(&report), [""; 0], "{report:?}");
    assert_eq!(
        idle(&report),
        [
            "for all embeddings tried, greater(abs(embedding), -1) holds, so the branch for the opposite is never taken",
            "mul(p, embedding) is computed, and the result does not depend on it",
        ]
    );
}

#[test]
fn parts_that_one_side_needs_are_not_idle() {
    assert_eq!(idle(&checked(scaled(), 1.0)), [""; 0]);
    assert_eq!(idle(&checked(projected(), 1.0)), [""; 0]);
    // A condition that holds for some elements only.
    let more = [
        FormulaNode::Binary(Binary::Mul, 0, 1),
        FormulaNode::Binary(Binary::Add, 0, 2),
        FormulaNode::Binary(Binary::Greater, 0, 2),
        FormulaNode::Select(5, 3, 4),
    ];
    let report = checked(formula(&[&LEAVES[..], &more].concat(), 6), 1.0);
    assert_eq!(idle(&report), [""; 0], "{report:?}");
}
