//! Compares graphs as the host executes them with the plain interpreter and with handwritten losses.

use std::num::NonZeroU32;

use pbg_core::loss::{ParameterSchedule, ScheduleProgress, TracedLoss};
use pbg_core::strategy::{Loss, LossWorker, MASKED, ScoreBlock, StrategyError, StrategyId};
use pbg_formula::loss::{DerivedLoss, LossDefinition, LossParameter};
use pbg_formula::node::{Binary, FormulaNode, Reduction, Unary};
use pbg_kernels::losses::GraphLoss;
use pbg_kernels::losses::handwritten::HandwrittenLoss;
use pbg_library_tests::definitions::{definitions, rows};
use pbg_reference::losses::{graph, logistic, ranking, softmax, traced};
use proptest::prelude::*;

fn id() -> StrategyId {
    StrategyId {
        name: "test".to_owned(),
        version: "1.0.0".to_owned(),
        sha256: String::new(),
    }
}

#[derive(Debug, PartialEq)]
struct Found {
    loss: Vec<f32>,
    positive: Vec<f32>,
    negative: Vec<f32>,
}

fn run(loss: &dyn Loss, positive: &[f32], negative: &[f32], columns: usize) -> Found {
    ask(loss.worker().as_mut(), positive, negative, columns).expect("graphs do not fail")
}

fn ask(
    worker: &mut dyn LossWorker,
    positive: &[f32],
    negative: &[f32],
    columns: usize,
) -> Result<Found, StrategyError> {
    let rows = positive.len();
    let mut found = Found {
        loss: vec![f32::NAN; rows],
        positive: vec![f32::NAN; rows],
        negative: negative.to_vec(),
    };
    worker.evaluate(&mut ScoreBlock {
        positive,
        negative: &mut found.negative,
        columns,
        positive_gradient: &mut found.positive,
        loss: &mut found.loss,
    })?;
    Ok(found)
}

fn close(found: f32, expected: f64, tolerance: f64) -> bool {
    (f64::from(found) - expected).abs() <= tolerance * (1.0 + expected.abs())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn any_graph_gives_what_the_interpreter_gives(
        definition in definitions(),
        (positives, negatives, columns) in rows(),
    ) {
        let parameters = [definition.parameters[0].value];
        let graph = definition.check(1000).expect("a valid graph");
        let derived = DerivedLoss::of(&graph);
        let found = run(&traced(graph), &positives, &negatives, columns);
        for (i, &positive) in positives.iter().enumerate() {
            let range = i * columns..(i + 1) * columns;
            let wide: Vec<f64> = negatives[range.clone()].iter().map(|&t| t.into()).collect();
            let row = derived.row(&parameters, positive.into(), &wide);
            prop_assert!(close(found.loss[i], row.loss, 1e-4), "{} {}", found.loss[i], row.loss);
            // Near a kink, a difference in the last place may change the side, so gradients are compared only where
            // they are steady.
            let nudged = |h: f64| {
                let wide: Vec<f64> = wide.iter().map(|t| t * (1.0 + h)).collect();
                derived.row(&parameters, f64::from(positive) * (1.0 - h), &wide)
            };
            let (up, down) = (nudged(1e-5), nudged(-1e-5));
            let steady = |f: &dyn Fn(&pbg_formula::loss::interpret::RowLoss) -> f64| {
                (f(&up) - f(&down)).abs() < 1e-2 * (1.0 + f(&row).abs())
            };
            if steady(&|row| row.positive) {
                prop_assert!(close(found.positive[i], row.positive, 1e-3), "{} {}", found.positive[i], row.positive);
            }
            for (j, at) in range.enumerate() {
                if negatives[at] == MASKED {
                    prop_assert_eq!(found.negative[at].to_bits(), 0);
                } else if steady(&|row| row.negative[j]) {
                    prop_assert!(close(found.negative[at], row.negative[j], 1e-3), "{} {}", found.negative[at], row.negative[j]);
                }
            }
        }
    }

    #[test]
    fn rows_may_be_cut_anywhere(
        definition in definitions(),
        seed in any::<u32>(),
        columns in 0_usize..70,
        cut in 0_usize..=90,
    ) {
        let loss = traced(definition.check(1000).expect("a valid graph"));
        let number = |i: usize| ((i as u32).wrapping_mul(2_654_435_761) ^ seed) as f32 / 2e9 - 1.0;
        let positives: Vec<f32> = (0..90).map(number).collect();
        let mut negatives: Vec<f32> = (0..90 * columns).map(|i| number(i + 1000)).collect();
        negatives.iter_mut().skip(3).step_by(11).for_each(|t| *t = MASKED);
        let whole = run(&loss, &positives, &negatives, columns);
        let (first, second) = positives.split_at(cut);
        let (left, right) = negatives.split_at(cut * columns);
        let (first, second) = (run(&loss, first, left, columns), run(&loss, second, right, columns));
        let joined = Found {
            loss: [first.loss, second.loss].concat(),
            positive: [first.positive, second.positive].concat(),
            negative: [first.negative, second.negative].concat(),
        };
        let bits = |values: &[f32]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        prop_assert_eq!(bits(&joined.loss), bits(&whole.loss));
        prop_assert_eq!(bits(&joined.positive), bits(&whole.positive));
        prop_assert_eq!(bits(&joined.negative), bits(&whole.negative));
    }
}

/// Returns each graph with the handwritten loss of the same name.
fn pairs() -> [(GraphLoss, Box<dyn Loss>); 3] {
    [
        (
            traced(ranking(0.5)),
            Box::new(HandwrittenLoss::ranking(0.5)),
        ),
        (traced(logistic()), Box::new(HandwrittenLoss::logistic())),
        (traced(softmax()), Box::new(HandwrittenLoss::softmax())),
    ]
}

#[test]
fn graphs_agree_with_losses_written_by_hand() {
    for columns in [1, 15, 16, 100, 1050, 5000] {
        let number = |i: usize| ((i * 7919) % 1013) as f32 / 101.3 - 5.0;
        let positives: Vec<f32> = (0..33).map(number).collect();
        let mut negatives: Vec<f32> = (0..33 * columns).map(|i| number(i + 31)).collect();
        for row in 0..33 {
            negatives[row * columns + row % columns] = MASKED;
        }
        for (graph, hand) in pairs() {
            let name = &hand.id().name;
            let found = run(&graph, &positives, &negatives, columns);
            let expected = run(hand.as_ref(), &positives, &negatives, columns);
            for (values, others) in [
                (&found.loss, &expected.loss),
                (&found.positive, &expected.positive),
                (&found.negative, &expected.negative),
            ] {
                for (&value, &other) in values.iter().zip(others) {
                    let tolerance = 1e-6 + 3e-6 * other.abs();
                    assert!(
                        (value - other).abs() <= tolerance,
                        "{name} {columns}: {value} {other}"
                    );
                }
            }
        }
    }
}

#[test]
fn extreme_scores_stay_finite() {
    for (graph, hand) in pairs() {
        let found = run(&graph, &[1e9, -1e9], &[-1e8, 1e9, 1e9, -1e8], 2);
        let all = [&found.loss, &found.positive, &found.negative];
        assert!(
            all.into_iter().flatten().all(|v| v.is_finite()),
            "{}: {found:?}",
            hand.id().name
        );
    }
}

#[test]
fn a_score_that_is_not_a_number_shows_in_the_loss() {
    let largest = graph(&[
        FormulaNode::Negative,
        FormulaNode::Reduce(Reduction::Max, 0),
    ]);
    let mut graphs: Vec<GraphLoss> = pairs().into_iter().map(|(graph, _)| graph).collect();
    graphs.push(traced(largest));
    for (at, graph) in graphs.iter().enumerate() {
        let mut negatives = vec![0.5; 40];
        negatives[33] = f32::NAN;
        assert!(run(graph, &[0.5], &negatives, 40).loss[0].is_nan(), "{at}");
    }
    for (graph, hand) in pairs() {
        let found = run(&graph, &[f32::NAN], &[0.5; 4], 4);
        assert!(found.loss[0].is_nan(), "{}", hand.id().name);
    }
}

#[test]
fn rows_that_fail_keep_their_scores() {
    // The largest negative has no square root if it is below 0.
    let graph = graph(&[
        FormulaNode::Negative,
        FormulaNode::Reduce(Reduction::Max, 0),
        FormulaNode::Unary(Unary::Sqrt, 1),
    ]);
    let columns = 5000;
    let before: Vec<f32> = [4.0, -1.0, 4.0]
        .into_iter()
        .flat_map(|score| (0..columns).map(move |i| if i == 7 { score } else { -2.0 }))
        .collect();
    let (mut negative, mut gradient, mut losses) = (before.clone(), [9.0; 3], [9.0; 3]);
    let mut scores = ScoreBlock {
        positive: &[0.0; 3],
        negative: &mut negative,
        columns,
        positive_gradient: &mut gradient,
        loss: &mut losses,
    };
    let failed = traced(graph).worker().evaluate(&mut scores);
    let reason = failed.expect_err("no number").reason;
    assert!(reason.contains("from -2 to -1"), "{reason}");
    assert_eq!((scores.rows(), &*scores.negative), (2, &before[columns..]));
    assert_eq!((losses[0], negative[7]), (2.0, 0.25));
}

/// Adds 1 to every parameter, and sends each progress that it receives to the test.
struct Counting(std::sync::mpsc::Sender<ScheduleProgress>);

impl ParameterSchedule for Counting {
    fn update(
        &mut self,
        progress: &ScheduleProgress,
        values: &[f32],
    ) -> Result<Vec<f32>, StrategyError> {
        self.0.send(*progress).expect("the test listens");
        Ok(values.iter().map(|value| value + 1.0).collect())
    }
}

fn scheduled() -> (GraphLoss, std::sync::mpsc::Receiver<ScheduleProgress>) {
    let (sender, receiver) = std::sync::mpsc::channel();
    let definition = LossDefinition {
        nodes: vec![
            FormulaNode::Positive,
            FormulaNode::Parameter(0),
            FormulaNode::Binary(Binary::Mul, 0, 1),
        ],
        output: 2,
        parameters: vec![LossParameter {
            name: "scale".to_owned(),
            value: 1.0,
        }],
        update_every: 3,
    };
    let graph = definition.check(10).expect("a valid graph");
    assert_eq!(graph.update_every(), NonZeroU32::new(3));
    let loss = GraphLoss::new(TracedLoss {
        keep: None,
        id: id(),
        graph,
        schedule: Some(Box::new(Counting(sender))),
    });
    (loss, receiver)
}

#[test]
fn parameters_are_updated_every_so_many_batches() {
    let (loss, heard) = scheduled();
    let mut workers = [loss.worker(), loss.worker()];
    for batch in 0..7 {
        let updates = (batch / 3) as f32;
        for worker in &mut workers {
            let found = ask(worker.as_mut(), &[2.0], &[], 0).expect("graphs do not fail");
            assert_eq!(found.loss, [2.0 * (1.0 + updates)]);
            let formula = worker.formula().expect("the loss is a formula");
            assert_eq!(formula.parameters, [1.0 + updates]);
        }
        loss.observe(10, 5.0 * f64::from(batch))
            .expect("the batch is counted");
    }
    let told: Vec<ScheduleProgress> = heard.try_iter().collect();
    let progress = |step, mean_loss| ScheduleProgress {
        step,
        edges: 30,
        mean_loss,
    };
    assert_eq!(told, [progress(3, 0.5), progress(6, 2.0)]);
}

#[test]
fn what_several_observe_is_counted_where_one_says_so() {
    let (one, heard) = scheduled();
    let (two, unheard) = scheduled();
    for loss in [&one, &two] {
        loss.observe(10, 1.0).expect("the batch is counted");
        loss.share_parameters();
        for _ in 0..4 {
            loss.observe(10, 5.0).expect("the batch is counted");
        }
    }
    let observed = two.take_observed();
    assert_eq!(
        (observed.batches, observed.edges, observed.loss),
        (4, 40, 20.0)
    );
    assert!(two.take_observed().is_empty());
    let mut all = one.take_observed();
    all.add(&observed);
    one.update_shared(&all).expect("the batch is counted");
    // A single update for three that became due, with the batches that both observed.
    let told: Vec<ScheduleProgress> = heard.try_iter().collect();
    assert_eq!(
        told.iter().map(|p| (p.step, p.edges)).collect::<Vec<_>>(),
        [(9, 90)]
    );
    two.restore(&one.state().expect("it has parameters"))
        .expect("the same loss");
    assert_eq!(run(&two, &[2.0], &[], 0).loss, [4.0]);
    assert!(unheard.try_recv().is_err());
}

#[test]
fn what_was_stopped_goes_on_with_the_values_that_it_had() {
    let (first, _heard) = scheduled();
    for _ in 0..4 {
        first.observe(10, 5.0).expect("the batch is counted");
    }
    let (second, heard) = scheduled();
    second
        .restore(&first.state().expect("it has parameters"))
        .expect("the same loss");
    assert_eq!(run(&second, &[2.0], &[], 0).loss, [4.0]);
    for _ in 0..2 {
        second.observe(10, 11.0).expect("the batch is counted");
    }
    assert_eq!(heard.try_recv().map(|p| (p.step, p.edges)), Ok((6, 30)));
    assert_eq!(run(&second, &[2.0], &[], 0).loss, [6.0]);

    let mut other = first.state().expect("it has parameters");
    other.parameters.push(1.0);
    let refused = second
        .restore(&other)
        .expect_err("two values for one parameter");
    assert_eq!(
        refused,
        "returned 2 values for the 1 parameters of the graph"
    );
}
