//! Losses of PBG in three forms: plainly in double precision, as the kernels' own, and as graphs.

use pbg_core::loss::TracedLoss;
use pbg_core::strategy::{LossWorker, StrategyId};
use pbg_formula::loss::{LossDefinition, LossGraph};
use pbg_formula::node::{Binary, FormulaNode, Reduction, Unary};
use pbg_kernels::losses::GraphLoss;
use pbg_kernels::losses::handwritten::HandwrittenLoss;

/// Kind of loss function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum LossKind {
    /// Margin ranking with this margin.
    Ranking(f64),
    /// Logistic loss, with the mean of the negatives.
    Logistic,
    /// Softmax of a positive and its negatives.
    Softmax,
}

/// Returns the loss of one positive and its `negatives`, of which masked ones are absent or have a very low score;
/// `columns` counts masked ones too.
pub fn row_loss(kind: LossKind, positive: f64, negatives: &[f64], columns: usize) -> f64 {
    let softplus = |x: f64| {
        if x > 0.0 {
            x + (-x).exp().ln_1p()
        } else {
            x.exp().ln_1p()
        }
    };
    match kind {
        LossKind::Ranking(margin) => negatives
            .iter()
            .map(|n| (margin - positive + n).max(0.0))
            .sum(),
        LossKind::Logistic => {
            let share = if columns == 0 {
                0.0
            } else {
                1.0 / columns as f64
            };
            softplus(-positive) + share * negatives.iter().map(|&n| softplus(n)).sum::<f64>()
        }
        LossKind::Softmax => {
            let max = negatives.iter().copied().fold(positive, f64::max);
            let sum: f64 = negatives.iter().map(|n| (n - max).exp()).sum();
            max + (sum + (positive - max).exp()).ln() - positive
        }
    }
}

/// Returns the kernels' loss of a kind.
pub fn native(kind: LossKind) -> Box<dyn LossWorker> {
    match kind {
        LossKind::Ranking(margin) => Box::new(HandwrittenLoss::ranking(margin as f32)),
        LossKind::Logistic => Box::new(HandwrittenLoss::logistic()),
        LossKind::Softmax => Box::new(HandwrittenLoss::softmax()),
    }
}

/// Returns the checked graph whose output is the last node.
pub fn graph(nodes: &[FormulaNode]) -> LossGraph {
    let definition = LossDefinition {
        nodes: nodes.to_vec(),
        output: nodes.len() as u32 - 1,
        ..LossDefinition::default()
    };
    definition.check(1000).expect("a valid graph")
}

/// Returns the loss that evaluates `graph`.
pub fn traced(graph: LossGraph) -> GraphLoss {
    GraphLoss::new(TracedLoss {
        keep: None,
        id: StrategyId {
            name: "test".to_owned(),
            version: "1.0.0".to_owned(),
            sha256: String::new(),
        },
        graph,
        schedule: None,
    })
}

/// Returns the softmax loss of PBG as a graph.
pub fn softmax() -> LossGraph {
    graph(&[
        FormulaNode::Positive,
        FormulaNode::Negative,
        FormulaNode::Reduce(Reduction::LogSumExp, 1),
        FormulaNode::Binary(Binary::Sub, 2, 0),
        FormulaNode::Unary(Unary::Softplus, 3),
    ])
}

/// Returns the logistic loss of PBG as a graph.
pub fn logistic() -> LossGraph {
    graph(&[
        FormulaNode::Positive,
        FormulaNode::Unary(Unary::Neg, 0),
        FormulaNode::Unary(Unary::Softplus, 1),
        FormulaNode::Negative,
        FormulaNode::Unary(Unary::Softplus, 3),
        FormulaNode::Reduce(Reduction::Mean, 4),
        FormulaNode::Binary(Binary::Add, 2, 5),
    ])
}

/// Returns the ranking loss of PBG as a graph.
pub fn ranking(margin: f32) -> LossGraph {
    graph(&[
        FormulaNode::Constant(margin),
        FormulaNode::Positive,
        FormulaNode::Binary(Binary::Sub, 0, 1),
        FormulaNode::Negative,
        FormulaNode::Binary(Binary::Add, 2, 3),
        FormulaNode::Unary(Unary::Relu, 4),
        FormulaNode::Reduce(Reduction::Sum, 5),
    ])
}
