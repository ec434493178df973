//! Losses as graphs beside the same losses written by hand, and what both are of a training step.
//!
//! `cargo run --release -p pbg-kernels --example loss_bench`

#![expect(
    clippy::print_stdout,
    clippy::unwrap_used,
    reason = "a benchmark prints and may stop"
)]

use std::hint::black_box;
use std::time::{Duration, Instant};

use pbg_core::loss::node::{Binary, Node, Reduction, Unary};
use pbg_core::loss::{Definition, TracedLoss};
use pbg_core::strategy::{Loss, MASKED, StrategyId};
use pbg_kernels::losses::Traced;
use pbg_kernels::losses::direct::{Logistic, Ranking, Softmax};

fn traced(nodes: &[Node]) -> Traced {
    let definition = Definition {
        nodes: nodes.to_vec(),
        output: nodes.len() as u32 - 1,
        ..Definition::default()
    };
    Traced::new(TracedLoss {
        id: StrategyId {
            name: "traced".to_owned(),
            version: String::new(),
            sha256: String::new(),
        },
        graph: definition.check(100).unwrap(),
        schedule: None,
    })
}

fn pairs() -> [(&'static str, Traced, Box<dyn Loss>); 3] {
    let softmax = [
        Node::Positive,
        Node::Negative,
        Node::Reduce(Reduction::LogSumExp, 1),
        Node::Binary(Binary::Sub, 2, 0),
        Node::Unary(Unary::Softplus, 3),
    ];
    let logistic = [
        Node::Positive,
        Node::Unary(Unary::Neg, 0),
        Node::Unary(Unary::Softplus, 1),
        Node::Negative,
        Node::Unary(Unary::Softplus, 3),
        Node::Reduce(Reduction::Mean, 4),
        Node::Binary(Binary::Add, 2, 5),
    ];
    let ranking = [
        Node::Constant(0.1),
        Node::Positive,
        Node::Binary(Binary::Sub, 0, 1),
        Node::Negative,
        Node::Binary(Binary::Add, 2, 3),
        Node::Unary(Unary::Relu, 4),
        Node::Reduce(Reduction::Sum, 5),
    ];
    [
        ("softmax", traced(&softmax), Box::new(Softmax::new())),
        ("logistic", traced(&logistic), Box::new(Logistic::new())),
        ("ranking", traced(&ranking), Box::new(Ranking::new(0.1))),
    ]
}

/// Rows of a slice, with the diagonal masked.
struct Rows {
    positive: Vec<f32>,
    scores: Vec<f32>,
    work: Vec<f32>,
    columns: usize,
    gradient: Vec<f32>,
    loss: Vec<f32>,
}

impl Rows {
    fn new(rows: usize, columns: usize) -> Self {
        let number = |i: usize| ((i * 7919) % 1013) as f32 / 101.3 - 5.0;
        let mut scores: Vec<f32> = (0..rows * columns).map(number).collect();
        for row in 0..rows {
            scores[row * columns + row % 50] = MASKED;
        }
        Self {
            positive: (0..rows).map(|i| number(i + 31)).collect(),
            work: scores.clone(),
            scores,
            columns,
            gradient: vec![0.0; rows],
            loss: vec![0.0; rows],
        }
    }

    /// One evaluation; the copy of the scores is not timed.
    fn time(&mut self, loss: &dyn Loss) -> Duration {
        self.work.copy_from_slice(&self.scores);
        let start = Instant::now();
        loss.evaluate(
            &self.positive,
            black_box(&mut self.work),
            self.columns,
            &mut self.gradient,
            &mut self.loss,
        )
        .unwrap();
        start.elapsed()
    }
}

fn main() {
    for (rows, columns) in [(200, 100), (50, 1050)] {
        println!("rows of {columns} negatives, in slices of {rows}: ns per row, the best of many");
        let mut slice = Rows::new(rows, columns);
        for (name, graph, hand) in &pairs() {
            let mut best = [Duration::MAX; 2];
            for _ in 0..2000 {
                for (best, loss) in best.iter_mut().zip([graph as &dyn Loss, hand.as_ref()]) {
                    *best = slice.time(loss).min(*best);
                }
            }
            let [graph, hand] = best.map(|time| time.as_secs_f64() * 1e9 / rows as f64);
            println!("  {name:<10} graph {graph:7.1}   by hand {hand:7.1}");
        }
    }
}
