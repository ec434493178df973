//! Fuzzing of formulas as a loss plugin may return them.

use pbg_formula::loss::{DerivedLoss, LossDefinition, LossParameter};
use pbg_formula::node::{Binary, FormulaNode, Reduction, Unary};
use pbg_fuzz::Dice;

use crate::{fuzz, turn};

const UNARY: [Unary; 9] = [
    Unary::Neg,
    Unary::Abs,
    Unary::Exp,
    Unary::Log,
    Unary::Sqrt,
    Unary::Sigmoid,
    Unary::Softplus,
    Unary::Relu,
    Unary::StopGradient,
];
const BINARY: [Binary; 8] = [
    Binary::Add,
    Binary::Sub,
    Binary::Mul,
    Binary::Div,
    Binary::Pow,
    Binary::Min,
    Binary::Max,
    Binary::Greater,
];
const REDUCTIONS: [Reduction; 4] = [
    Reduction::Sum,
    Reduction::Mean,
    Reduction::Max,
    Reduction::LogSumExp,
];
const NUMBERS: [f32; 9] = [
    0.0,
    1.0,
    -1.0,
    0.5,
    1e30,
    f32::MIN_POSITIVE,
    f32::NAN,
    f32::INFINITY,
    -1e-40,
];

/// Returns a node after `before` others; occasionally it refers to a node that does not exist.
fn node(dice: &mut Dice, before: usize) -> FormulaNode {
    let beyond = usize::from(dice.below(60) == 0) * 5;
    let mut of = || dice.below(before + beyond) as u32;
    let (a, b, c) = (of(), of(), of());
    let numbers = 6 + 3 * usize::from(dice.below(30) == 0);
    match dice.below(12) {
        0 => FormulaNode::Positive,
        1 => FormulaNode::Negative,
        2 => FormulaNode::Columns,
        3 => FormulaNode::Constant(*dice.pick(&NUMBERS[..numbers])),
        4 => FormulaNode::Parameter(dice.below(3 + usize::from(beyond > 0)) as u32),
        5 | 6 => FormulaNode::Unary(*dice.pick(&UNARY), a),
        7 | 8 => FormulaNode::Binary(*dice.pick(&BINARY), a, b),
        9 => FormulaNode::Select(a, b, c),
        10 => FormulaNode::Clamp(a, b, c),
        _ => match dice.below(3) {
            0 => FormulaNode::Softmax(a),
            _ => FormulaNode::Reduce(*dice.pick(&REDUCTIONS), a),
        },
    }
}

fn definition(dice: &mut Dice) -> LossDefinition {
    let size = dice.below(24);
    let mut nodes = vec![FormulaNode::Positive, FormulaNode::Negative];
    for at in 0..size {
        nodes.push(node(dice, at + 2));
    }
    // Most formulas end with one number per row: the sum of the nodes so far, plus the positives.
    let last = nodes.len() as u32 - 1;
    nodes.push(FormulaNode::Reduce(Reduction::Sum, last));
    nodes.push(FormulaNode::Binary(
        Binary::Add,
        0,
        last + dice.below(2) as u32,
    ));
    let names = ["a", "b", ["c", "a", "\u{1b}[2J"][dice.below(3)]];
    let parameter = |name: &str| LossParameter {
        name: name.to_owned(),
        value: *dice.pick(&NUMBERS[..6]),
    };
    LossDefinition {
        output: nodes.len() as u32 - 1,
        parameters: names.into_iter().map(parameter).collect(),
        update_every: [0, 1, u32::MAX][size % 3],
        nodes,
    }
}

#[test]
fn traced_losses() {
    let turn = turn();
    fuzz(turn, "traced_losses", 5000, 16 << 20, |dice, _| {
        let graph = match definition(dice).check(64) {
            Ok(graph) => graph,
            Err(error) => return error.to_string().is_empty(),
        };
        let derived = DerivedLoss::of(&graph);
        let parameters: Vec<f32> = graph.parameters().iter().map(|p| p.value).collect();
        for (positive, negatives) in [
            (0.5, vec![0.1, -2.0, 3.0]),
            (-40.0, vec![]),
            (1e30, vec![-1e30]),
        ] {
            let row = derived.row(&parameters, positive, &negatives);
            let loss = graph.loss_of(&parameters, positive, &negatives);
            let is_same = row.loss == loss || row.loss.is_nan() && loss.is_nan();
            assert!(is_same, "{} beside {loss}: {graph:?}", row.loss);
        }
        true
    });
}
