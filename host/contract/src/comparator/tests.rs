use pbg_formula::node::Unary;

use super::*;

/// The formula itself, with `factor` times its gradients.
struct Plain(ComparatorFormula, f64);

impl PairExecutor for Plain {
    fn scores(&mut self, rows: PairRows<'_>, scores: &mut [f32]) {
        let candidates = rows.candidates.chunks(rows.query.len());
        for (candidate, score) in candidates.zip(scores) {
            let [left, right] = pair(rows, candidate);
            *score = self.0.compare(&left, &right).score as f32;
        }
    }

    fn add_gradients(
        &mut self,
        rows: PairRows<'_>,
        of_scores: &[f32],
        query: &mut [f32],
        candidates: &mut [f32],
    ) {
        let dimension = query.len();
        let sums = candidates.chunks_mut(dimension);
        let rows_with_sums = rows.candidates.chunks(dimension).zip(sums);
        for ((candidate, sum), &gradient) in rows_with_sums.zip(of_scores) {
            let [left, right] = pair(rows, candidate);
            let found = self.0.compare(&left, &right);
            let (own, others) = match rows.side {
                Candidates::Left => (found.left, found.right),
                Candidates::Right => (found.right, found.left),
            };
            let factor = f64::from(gradient) * self.1;
            let scaled = |slope: f64| (factor * slope) as f32;
            sum.iter_mut()
                .zip(own)
                .for_each(|(sum, x)| *sum += scaled(x));
            query
                .iter_mut()
                .zip(others)
                .for_each(|(sum, x)| *sum += scaled(x));
        }
    }
}

fn checked(components: u32, nodes: &[FormulaNode], score: NodeId, factor: f64) -> ContractReport {
    let definition = ComparatorDefinition {
        name: "test".to_owned(),
        components,
        nodes: nodes.to_vec(),
        score,
    };
    let formula = definition.check(100).expect("a formula");
    check_comparator(&formula, &mut Plain(formula.clone(), factor))
}

fn broken(report: &ContractReport) -> Vec<&'static str> {
    let findings = report.findings().iter();
    let broken = findings.filter(|finding| finding.outcome == crate::FindingOutcome::Broken);
    broken.map(|finding| finding.promise).collect()
}

fn detail<'a>(report: &'a ContractReport, promise: &str) -> &'a str {
    let mut findings = report.findings().iter();
    let found = findings.find(|finding| finding.promise == promise);
    found.map_or("", |finding| &finding.detail)
}

const X: FormulaNode = FormulaNode::Component(0);
const Y: FormulaNode = FormulaNode::Component(1);
const MANHATTAN: [FormulaNode; 6] = [
    X,
    Y,
    FormulaNode::Binary(Binary::Sub, 0, 1),
    FormulaNode::Unary(Unary::Abs, 2),
    FormulaNode::Sum(3),
    FormulaNode::Unary(Unary::Neg, 4),
];

#[test]
fn a_right_comparator_keeps_every_promise() {
    let report = checked(1, &MANHATTAN, 5, 1.0);
    assert_eq!(broken(&report), [""; 0], "{report:?}");
    assert_eq!(detail(&report, "formula"), "");
    assert_eq!(detail(&report, "sign"), "");
}

#[test]
fn a_distance_without_its_minus_sign_is_noted() {
    let report = checked(1, &MANHATTAN[..5], 4, 1.0);
    assert_eq!(broken(&report), [""; 0], "{report:?}");
    let text = detail(&report, "sign");
    assert!(text.contains("minus sign"), "{text}");
    let product = [
        X,
        Y,
        FormulaNode::Binary(Binary::Mul, 0, 1),
        FormulaNode::Sum(2),
    ];
    assert_eq!(detail(&checked(1, &product, 3, 1.0), "sign"), "");
}

#[test]
fn a_wrong_gradient_is_found() {
    let report = checked(1, &MANHATTAN, 5, 1.1);
    assert_eq!(broken(&report), ["exact", "gradient"], "{report:?}");
}

#[test]
fn an_infinite_derivative_at_equal_embeddings_is_found() {
    let norm = [
        X,
        Y,
        FormulaNode::Binary(Binary::Sub, 0, 1),
        FormulaNode::Binary(Binary::Mul, 2, 2),
        FormulaNode::Sum(3),
        FormulaNode::Unary(Unary::Sqrt, 4),
    ];
    let report = checked(1, &norm, 5, 1.0);
    assert_eq!(broken(&report), ["finite"], "{report:?}");
    let text = detail(&report, "finite");
    assert!(text.contains("equal embeddings"), "{text}");
}

#[test]
fn a_side_that_no_gradient_reaches_is_found() {
    let stopped = [
        X,
        Y,
        FormulaNode::Unary(Unary::StopGradient, 1),
        FormulaNode::Binary(Binary::Mul, 0, 2),
        FormulaNode::Sum(3),
    ];
    let report = checked(1, &stopped, 4, 1.0);
    assert_eq!(broken(&report), ["embeddings"], "{report:?}");
    assert!(detail(&report, "embeddings").contains("right embeddings"));
}

#[test]
fn a_gradient_that_is_zero_almost_everywhere_is_found() {
    // The elements in which the sum of both is greater than 1.9.
    let rare = [
        X,
        Y,
        FormulaNode::Binary(Binary::Add, 0, 1),
        FormulaNode::Constant(1.9),
        FormulaNode::Binary(Binary::Sub, 2, 3),
        FormulaNode::Unary(Unary::Relu, 4),
        FormulaNode::Sum(5),
    ];
    let report = checked(1, &rare, 6, 1.0);
    assert_eq!(broken(&report), ["embeddings"], "{report:?}");
}

#[test]
fn parts_without_influence_are_named() {
    // A product of the first components, halved where the left one is greater than itself.
    let idle = [
        X,
        FormulaNode::Component(2),
        FormulaNode::Binary(Binary::Mul, 0, 1),
        FormulaNode::Binary(Binary::Greater, 0, 0),
        FormulaNode::Constant(0.5),
        FormulaNode::Binary(Binary::Mul, 2, 4),
        FormulaNode::Select(3, 5, 2),
        FormulaNode::Sum(6),
        FormulaNode::Unary(Unary::Exp, 2),
    ];
    let report = checked(2, &idle, 7, 1.0);
    assert_eq!(broken(&report), [""; 0], "{report:?}");
    assert_eq!(
        detail(&report, "formula").lines().collect::<Vec<_>>(),
        [
            "component 1 of left embeddings has no gradient: their scores never train it",
            "component 1 of right embeddings has no gradient: their scores never train it",
            "for all pairs tried, greater(left.0, left.0) does not hold, so its branch is never taken",
            "exp(mul(left.0, right.0)) is computed, and the score does not depend on it",
        ]
    );
}
