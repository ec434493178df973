use pbg_formula::node::{Binary, FormulaNode, Unary};
use pbg_formula::operator::{OperatorDefinition, ParameterVector};

use super::*;

/// The formula itself, with `factor` times its gradients.
struct Plain(OperatorFormula, f64);

impl FormulaExecutor for Plain {
    fn forward(&mut self, parameters: &[f32], x: &[f32], y: &mut [f32]) {
        let dimension = checked_dimension(&self.0);
        for (x, y) in x.chunks(dimension).zip(y.chunks_mut(dimension)) {
            for at in 0..WIDTH {
                let made = self.0.apply(&element(x, at), &element(parameters, at));
                for (vector, made) in y.chunks_mut(WIDTH).zip(made) {
                    vector[at] = made as f32;
                }
            }
        }
    }

    fn backward(&mut self, parameters: &[f32], x: &[f32], gradients: &mut [f32], sums: &mut [f32]) {
        let dimension = checked_dimension(&self.0);
        for (x, g) in x.chunks(dimension).zip(gradients.chunks_mut(dimension)) {
            for at in 0..WIDTH {
                let found = self.0.backward().evaluate(&ElementInput {
                    components: &element(x, at),
                    parameters: &element(parameters, at),
                    gradients: &element(g, at),
                });
                let (own, others) = found.split_at(self.0.components());
                for (vector, own) in g.chunks_mut(WIDTH).zip(own) {
                    vector[at] = (self.1 * own) as f32;
                }
                for (vector, other) in sums.chunks_mut(WIDTH).zip(others) {
                    vector[at] += (self.1 * other) as f32;
                }
            }
        }
    }
}

fn formula(nodes: &[FormulaNode], output: u32) -> OperatorFormula {
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
    check_operator(&formula.clone(), &mut Plain(formula, factor))
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

#[test]
fn a_wrong_gradient_is_found() {
    assert_eq!(broken(&checked(scaled(), 1.1)), ["exact", "gradient"]);
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
