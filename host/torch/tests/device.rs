//! A step on a device computes the same as one on cores: losses, rows and parameters are equal up to rounding.
//!
//! The step's operations are libtorch's, which can also compute them in main memory. So most is tested without a GPU;
//! where there is one, the same tests run on it.

use std::io::Write as _;
use std::sync::Arc;

use pbg_core::graph::Side;
use pbg_core::loss::TracedLoss;
use pbg_core::model::{Comparator, Operator, Precision, Regularizer, Update};
use pbg_core::strategy::{Loss as _, LossWorker, MASKED, StrategyId};
use pbg_formula::loss::{LossDefinition, LossParameter};
use pbg_formula::node::{Binary, FormulaNode, Reduction, Unary};
use pbg_kernels::device::{OpenDevice as _, OpenError};
use pbg_kernels::libtorch;
use pbg_kernels::losses::GraphLoss;
use pbg_kernels::negatives::NegativeDraws;
use pbg_kernels::step::{
    Batch, BatchJob, BatchRelations, BatchStats, BatchTables, Execution, StepError, StepWorker,
};
use pbg_reference::formulas::{formulas, formulas_of_both_sides};
use pbg_reference::losses::{self, LossKind, native};
use pbg_reference::twin::{Twin, rows_of, spec};
use pbg_rows::params::Params;
use pbg_rows::spec::{ModelSpec, RelationSpec};
use pbg_rows::table::Table;
use pbg_torch::TorchDevice;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;

/// Results of some training steps.
struct After {
    stats: Vec<BatchStats>,
    /// Numbers of negatives whose score equals that of their positive up to rounding, per step and side: other
    /// occurrences of the true entity.
    ties: Vec<[u64; 2]>,
    /// Number of scores so near a kink of the loss or the comparator that rounding decides on which side they are, and so
    /// which gradient they have.
    kinks: usize,
    rows: Vec<Vec<f64>>,
    accumulators: Vec<f32>,
    parameters: Vec<f32>,
}

/// A model, its loss, and how it is trained.
#[derive(Clone, Debug)]
struct Case {
    spec: ModelSpec,
    weighted: bool,
    loss: usize,
    execution: Execution,
    steps: usize,
    seed: u64,
}

fn loss(which: usize) -> Box<dyn LossWorker> {
    match which {
        0 => losses::traced(losses::softmax()).worker(),
        1 => losses::traced(losses::logistic()).worker(),
        2 => losses::traced(losses::ranking(0.3)).worker(),
        3 => every_operation().worker(),
        // Not a formula, so scores are copied to the host.
        _ => native(LossKind::Softmax),
    }
}

/// Returns a loss of many kinds of nodes with a parameter, smooth except at [`KINKS`].
fn every_operation() -> GraphLoss {
    let nodes = vec![
        FormulaNode::Positive,
        FormulaNode::Negative,
        FormulaNode::Constant(0.5),
        FormulaNode::Parameter(0),
        // 4: sqrt(exp(clamp(t, -4, 4)) + parameter^2)
        FormulaNode::Constant(-4.0),
        FormulaNode::Constant(4.0),
        FormulaNode::Clamp(1, 4, 5),
        FormulaNode::Unary(Unary::Exp, 6),
        FormulaNode::Binary(Binary::Mul, 3, 3),
        FormulaNode::Binary(Binary::Add, 7, 8),
        FormulaNode::Unary(Unary::Sqrt, 9),
        // 11: ln(1 + |difference|) where a negative is above a constant, else a power. The positive cannot be the
        // threshold, since a draw may tie with it.
        FormulaNode::Binary(Binary::Sub, 1, 2),
        FormulaNode::Binary(Binary::Greater, 1, 2),
        FormulaNode::Unary(Unary::Abs, 11),
        FormulaNode::Constant(1.0),
        FormulaNode::Binary(Binary::Add, 13, 14),
        FormulaNode::Unary(Unary::Log, 15),
        FormulaNode::Constant(1.5),
        FormulaNode::Binary(Binary::Pow, 15, 17),
        FormulaNode::Select(12, 16, 18),
        FormulaNode::Binary(Binary::Min, 10, 19),
        // 21: weighted by a softmax without gradient, and by 1 / columns
        FormulaNode::Binary(Binary::Mul, 1, 2),
        FormulaNode::Softmax(21),
        FormulaNode::Unary(Unary::StopGradient, 22),
        FormulaNode::Binary(Binary::Mul, 20, 23),
        FormulaNode::Reduce(Reduction::Sum, 24),
        FormulaNode::Reduce(Reduction::Mean, 19),
        FormulaNode::Binary(Binary::Add, 25, 26),
        // 28: the remaining reductions
        FormulaNode::Unary(Unary::Sigmoid, 0),
        FormulaNode::Reduce(Reduction::LogSumExp, 21),
        FormulaNode::Binary(Binary::Sub, 29, 28),
        FormulaNode::Binary(Binary::Div, 30, 14),
        FormulaNode::Binary(Binary::Add, 27, 31),
        FormulaNode::Reduce(Reduction::Max, 6),
        FormulaNode::Binary(Binary::Mul, 33, 2),
        FormulaNode::Binary(Binary::Add, 32, 34),
    ];
    let definition = LossDefinition {
        output: nodes.len() as u32 - 1,
        nodes,
        parameters: vec![LossParameter {
            name: "offset".to_owned(),
            value: 0.7,
        }],
        update_every: 0,
    };
    GraphLoss::new(TracedLoss {
        keep: None,
        id: StrategyId {
            name: "every operation".to_owned(),
            version: "1".to_owned(),
            sha256: String::new(),
        },
        graph: definition.check(1000).expect("a valid graph"),
        schedule: None,
    })
}

/// Scores of negatives at which the slope of [`every_operation`] jumps: the ends of the clamp, the threshold, and where the
/// two sides of the minimum are equal, below the threshold and beyond the clamp.
const KINKS: [f32; 5] = [-4.0, 0.280_469_7, 0.5, 4.0, 1672.107_7];
/// Size of rounding errors of scores, relative to the largest score of a block.
const ROUNDING: f32 = 1e-4;
/// Smallest distance, relative to the largest one, whose direction is more than rounding.
const DIRECTED: f32 = 0.05;

/// Returns how many scores of a row are near a kink; `largest` is the largest score of the block.
fn near_kinks(case: &Case, positive: f32, negatives: &[f32], largest: f32) -> usize {
    let rounding = ROUNDING * (1.0 + largest);
    let near = |a: f32, b: f32| (a - b).abs() <= rounding;
    let at_kink = |negative: &f32| match case.loss {
        // The margin.
        2 => near(*negative - positive, -0.3),
        3 => KINKS.iter().any(|kink| near(*negative, *kink)),
        _ => false,
    };
    // Which negative is the maximum. Equal numbers belong to one entity.
    let most = negatives.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    let also_most = |negative: &&f32| **negative != most && near(**negative, most);
    let tied = match case.loss {
        3 => negatives.iter().filter(also_most).count(),
        _ => 0,
    };
    // A bias is part of the score, which then is no distance.
    let is_distance = case.spec.comparator == Comparator::L2 && !case.spec.bias;
    let is_near = |score: f32| is_distance && score.abs() <= DIRECTED * largest;
    let scores = negatives.iter().copied().chain([positive]);
    negatives.iter().filter(|score| at_kink(score)).count()
        + tied
        + scores.filter(|score| is_near(*score)).count()
}

/// Trains some steps, on a core or on `place`.
fn train(case: &Case, place: Option<TorchDevice>) -> Result<After, StepError> {
    let mut twin = Twin::new(case.spec.clone(), case.weighted, case.seed);
    let spec = Arc::new(case.spec.clone());
    let mut loss = loss(case.loss);
    let (mut stats, mut ties, mut kinks) = (Vec::new(), Vec::new(), 0);
    if let Some(place) = place {
        twin.tables
            .iter_mut()
            .try_for_each(|table| place.upload(table))?;
        let mut worker = place.worker(spec, case.execution).expect("a worker");
        for _ in 0..case.steps {
            let (batch, tables) = (twin.batch(), twin.tables());
            let draws = &twin.edges.draws;
            stats.push(worker.train(
                &BatchJob {
                    batch: &batch,
                    tables: &tables,
                    params: &twin.params,
                    draws,
                },
                loss.as_mut(),
            )?);
        }
        worker.download(&twin.params)?;
        twin.tables.iter().try_for_each(Table::download)?;
    } else {
        let worker = StepWorker::new(spec).expect("a worker");
        let mut worker = worker.with_execution(case.execution);
        for _ in 0..case.steps {
            let (batch, tables) = (twin.batch(), twin.tables());
            let (loss, draws) = (loss.as_mut(), &twin.edges.draws);
            let mut tied = [0; 2];
            let mut count = |side: Side, _: usize, positive: &[f32], negative: &[f32]| {
                let columns = negative.len() / positive.len();
                let all = positive.iter().chain(negative).map(|score| score.abs());
                let largest = all.filter(|score| *score != -MASKED).fold(0.0, f32::max);
                for (row, p) in positive.iter().enumerate() {
                    let row = &negative[row * columns..(row + 1) * columns];
                    let tie = |n: &&f32| (*n - p).abs() <= 1e-4 * (1.0 + p.abs());
                    tied[side as usize] += row.iter().filter(tie).count() as u64;
                    kinks += near_kinks(case, *p, row, largest);
                }
            };
            let params = &twin.params;
            stats.push(worker.train_observed(
                &BatchJob {
                    batch: &batch,
                    tables: &tables,
                    params,
                    draws,
                },
                loss,
                &mut count,
            )?);
            ties.push(tied);
        }
    }
    let mut accumulators = Vec::new();
    for table in &twin.tables {
        let mut values = vec![0.0; table.state.rows()];
        table.state.read_rows(0, &mut values);
        accumulators.extend(values);
    }
    let parameters = twin.params.tensors().iter();
    Ok(After {
        stats,
        ties,
        kinks,
        rows: twin.tables.iter().flat_map(rows_of).collect(),
        accumulators,
        parameters: parameters
            .flat_map(|t| [t.to_vec(), t.adagrad_to_vec()].concat())
            .collect(),
    })
}

/// Returns the reason why a device cannot train `spec`, if there is one.
fn refusal(spec: &ModelSpec, precision: Precision) -> Option<String> {
    pbg_torch::load_found();
    libtorch::installed()
        .expect("installed")
        .refusal(spec, precision)
}

/// Asserts that a device and a core compute the same. Returns false if rounding decides what they compute, so that they
/// need not.
#[must_use]
fn compare(case: &Case, place: TorchDevice) -> bool {
    pbg_torch::load_found();
    let expected = train(case, None).unwrap_or_else(|e| panic!("{case:?}: {e}"));
    if expected.kinks > 0 {
        return false;
    }
    let found = train(case, Some(place)).unwrap_or_else(|e| panic!("{case:?}: {e}"));
    agree(case, &found, &expected);
    true
}

/// Asserts that both results are equal within 1e-4, relative to the largest number of a row.
fn agree(case: &Case, found: &After, expected: &After) {
    let close = |what: &str, found: f64, expected: f64, size: f64| {
        assert!(
            (found - expected).abs() <= 1e-4 * (1.0 + size.abs()),
            "{what}: {found}, not {expected}: {case:?}"
        );
    };
    let steps = found.stats.iter().zip(&expected.stats);
    for ((found, expected), ties) in steps.zip(&expected.ties) {
        assert_eq!(found.count, expected.count);
        close(
            "left loss",
            found.loss_lhs,
            expected.loss_lhs,
            expected.loss_lhs,
        );
        close(
            "right loss",
            found.loss_rhs,
            expected.loss_rhs,
            expected.loss_rhs,
        );
        close("regulariser", found.reg, expected.reg, expected.reg);
        // Rounding decides whether a tie counts as above.
        for (found, expected, ties) in [
            (found.violators_lhs, expected.violators_lhs, ties[0]),
            (found.violators_rhs, expected.violators_rhs, ties[1]),
        ] {
            let apart = found.abs_diff(expected);
            assert!(apart <= ties, "{found} {expected} +- {ties}: {case:?}");
        }
    }
    for (found, expected) in found.rows.iter().zip(&expected.rows) {
        let size = expected.iter().fold(0.0_f64, |a, &x| a.max(x.abs()));
        for (&found, &expected) in found.iter().zip(expected) {
            close("row", found, expected, size);
        }
    }
    let wide = |x: &f32| f64::from(*x);
    for (what, found, expected) in [
        ("accumulator", &found.accumulators, &expected.accumulators),
        ("parameter", &found.parameters, &expected.parameters),
    ] {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().map(wide).zip(expected.iter().map(wide)) {
            close(what, found, expected, expected);
        }
    }
}

prop_compose! {
    fn cases()(
        (dynamic, shared, bias, global, weighted, by_slice) in any::<(bool, bool, bool, bool, bool, bool)>(),
        regularizer in proptest::option::of(prop::sample::select(&Regularizer::ALL[..])),
        (operator, comparator, loss) in (0..13_usize, 0..4_usize, 0..5_usize),
        max_norm in proptest::option::of(0.7_f32..1.2),
        all_negs in prop::bool::weighted(0.2),
        (num_batch_negs, num_uniform_negs) in prop_oneof![Just((3, 2)), Just((0, 3)), Just((4, 0)), Just((1, 1))],
        chunk_size in proptest::option::of(1..9_usize),
        disabled in 0..4_u8,
        slice_bytes in prop_oneof![Just(1), Just(1500), Just(1 << 20)],
        steps in 1..3_usize,
        seed in any::<u64>(),
    ) -> Case {
        let operators = Operator::BUILT_IN.into_iter().chain(formulas());
        let operators = operators.chain(formulas_of_both_sides());
        let operator = operators.into_iter().nth(operator).expect("so many");
        let dynamic = dynamic && operator.on_lhs() == Operator::None;
        let comparator = Comparator::BUILT_IN[comparator];
        // The maximum of no negatives is infinite. There are none if they are disabled, and for an edge that is alone
        // in its chunk without uniform negatives.
        let none = matches!(disabled, 1 | 2) || num_uniform_negs == 0;
        let loss = if loss == 3 && none { 0 } else { loss };
        // The distance of an entity to itself is rounding error, and so is its derivative.
        let shared = shared && (comparator != Comparator::L2 || operator != Operator::None);
        let matrix = matches!(operator, Operator::Linear | Operator::Affine);
        // Of matrices, DURA alone is a penalty; of normalised rows, N3 alone.
        let regularizer = regularizer.filter(|&regularizer| match regularizer {
            Regularizer::Dura => comparator != Comparator::Cos,
            Regularizer::N3 => !matrix,
            Regularizer::N3Embeddings => !matrix && comparator != Comparator::Cos,
        });
        let mut spec = ModelSpec {
            bias,
            global_emb: global && !dynamic,
            max_norm,
            regularizer: regularizer.unwrap_or(Regularizer::N3),
            regularization_coef: if regularizer.is_some() { 0.05 } else { 0.0 },
            num_batch_negs,
            num_uniform_negs,
            chunk_size,
            disable_lhs_negs: disabled == 1,
            disable_rhs_negs: disabled == 2,
            ..spec(dynamic, shared, operator, comparator)
        };
        spec.relations.iter_mut().for_each(|relation| relation.all_negs = all_negs);
        // A single step changes every number by its gradient. Further steps amplify the rounding errors of earlier
        // ones, so they are small.
        if by_slice || steps > 1 {
            (spec.lr, spec.relation_lr) = (100.0, 100.0);
        }
        let update = if by_slice { Update::Slice } else { Update::Batch };
        let execution = Execution { slice_bytes, update, precision: Precision::Fp32 };
        Case { spec, weighted, loss, execution, steps, seed }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn a_device_computes_what_a_core_does(case in cases()) {
        // A traced operator may map an entity almost to another. There the direction of the gradient of l2 follows from
        // rounding, so the results differ; with a bias, the score does not show it.
        let moves = |relation: &RelationSpec| matches!(relation.operator, Operator::Traced(_));
        let is_moved = case.spec.relations.iter().any(moves);
        prop_assume!(case.spec.comparator != Comparator::L2 || !is_moved || !case.spec.bias);
        prop_assume!(compare(&case, TorchDevice::MAIN_MEMORY));
    }

    /// The results do not depend on how a batch is cut into slices.
    #[test]
    fn the_sliced_form_computes_the_same(
        mut case in cases(),
        chunk_size in 1..5_usize,
        slice_bytes in prop_oneof![Just(1), 1..20_000_usize],
    ) {
        // Several chunks. With all negatives a slice would have at least 256 edges.
        case.spec.chunk_size = Some(chunk_size);
        case.spec.relations.iter_mut().for_each(|relation| relation.all_negs = false);
        case.execution.update = Update::Batch;
        case.execution.slice_bytes = 1 << 30;
        let whole = train(&case, None).unwrap_or_else(|e| panic!("{case:?}: {e}"));
        prop_assume!(whole.kinks == 0);
        case.execution.slice_bytes = slice_bytes;
        let sliced = train(&case, None).unwrap_or_else(|e| panic!("{case:?}: {e}"));
        agree(&case, &sliced, &whole);
    }
}

/// Prints the reason if it is skipped without a GPU, which is a failure with `PBG_TEST_CUDA=1`.
#[test]
fn a_gpu_computes_what_a_core_does() {
    pbg_torch::load_found();
    let place = match TorchDevice::cuda(0) {
        Ok(place) => place,
        Err(reason) => {
            assert!(std::env::var_os("PBG_TEST_CUDA").is_none(), "{reason}");
            // Written directly to the terminal, since the harness hides the output of tests that pass.
            writeln!(std::io::stderr(), "skipped: {reason}").expect("a terminal");
            return;
        }
    };
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let drawn = (0..400).map(|_| cases().new_tree(&mut runner).expect("a case").current());
    let compared = drawn.filter(|case| compare(case, place)).count();
    assert!(compared >= 300, "only {compared} cases have no kink");
}

/// A step whose negatives also come from the other side's partition.
#[test]
fn negatives_may_come_from_both_partitions_of_a_bucket() {
    pbg_torch::load_found();
    let mut spec = spec(true, true, Operator::ComplexDiagonal, Comparator::Dot);
    (spec.num_batch_negs, spec.num_uniform_negs, spec.chunk_size) = (0, 3, Some(2));
    (spec.lr, spec.relation_lr) = (0.1, 0.1);
    let spec = Arc::new(spec);
    let width = spec.entities[0].dimension;
    let values = |rows: usize, seed: f32| {
        (0..rows * width)
            .map(|i| (i as f32 * 0.7 + seed).sin())
            .collect::<Vec<_>>()
    };
    let run = |place: Option<TorchDevice>| {
        let mut lhs = Table::new(values(2, 0.0), width);
        let mut rhs = Table::new(values(4, 0.5), width);
        let params = Params::new(&spec, 0);
        let batch = Batch {
            lhs: &[0, 1, 1],
            rhs: &[3, 0, 2],
            relation: BatchRelations::PerEdge(&[0, 2, 0]),
            weight: None,
        };
        // Left offsets 2 to 5 are offsets 0 to 3 of the right partition; right offsets 4 and 5 are those of the left
        // one.
        let draws = NegativeDraws {
            lhs: vec![0, 5, 2, 3, 1, 1],
            rhs: vec![3, 5, 4, 0, 0, 4],
            ..NegativeDraws::default()
        };
        let mut loss = loss(0);
        if let Some(place) = place {
            place.upload(&mut lhs).expect("room");
            place.upload(&mut rhs).expect("room");
        }
        let tables = BatchTables {
            lhs: &lhs,
            rhs: &rhs,
        };
        let job = BatchJob {
            batch: &batch,
            tables: &tables,
            params: &params,
            draws: &draws,
        };
        let stats = match place {
            None => StepWorker::new(Arc::clone(&spec))
                .expect("a worker")
                .train(&job, loss.as_mut()),
            Some(place) => place
                .worker(Arc::clone(&spec), Execution::default())
                .expect("a worker")
                .train(&job, loss.as_mut()),
        };
        lhs.download().expect("room");
        rhs.download().expect("room");
        let loss = stats.expect("a step").loss();
        (loss, [rows_of(&lhs), rows_of(&rhs)].concat().concat())
    };
    let ((loss, rows), (found, found_rows)) = (run(None), run(Some(TorchDevice::MAIN_MEMORY)));
    assert!((loss - found).abs() < 1e-4 * loss, "{found} {loss}");
    for (found, expected) in found_rows.iter().zip(&rows) {
        assert!((found - expected).abs() < 1e-4, "{found} {expected}");
    }
}

#[test]
fn bf16_products_are_near() {
    pbg_torch::load_found();
    let mut case = Case {
        spec: spec(true, true, Operator::ComplexDiagonal, Comparator::Dot),
        weighted: false,
        loss: 0,
        execution: Execution::default(),
        steps: 1,
        seed: 3,
    };
    (case.spec.lr, case.spec.relation_lr) = (0.1, 0.1);
    let exact = train(&case, Some(TorchDevice::MAIN_MEMORY)).expect("a step");
    case.execution.precision = Precision::Bf16;
    let rounded = train(&case, Some(TorchDevice::MAIN_MEMORY)).expect("a step");
    let apart = (rounded.stats[0].loss() / exact.stats[0].loss() - 1.0).abs();
    assert!(apart > 0.0 && apart < 0.02, "{apart}");
    let distances = spec(true, true, Operator::None, Comparator::L2);
    assert!(refusal(&distances, Precision::Bf16).is_some());
    assert!(refusal(&distances, Precision::Fp32).is_none());
}

#[test]
fn features_are_refused() {
    pbg_torch::load_found();
    let mut spec = spec(false, true, Operator::None, Comparator::Dot);
    spec.entities[0].featurized = true;
    let reason = refusal(&spec, Precision::Fp32).expect("a reason");
    assert!(reason.contains("execution.device = \"cpu\""), "{reason}");
}

#[test]
fn what_is_not_finite_is_an_error_and_changes_nothing() {
    pbg_torch::load_found();
    let case = Case {
        spec: spec(false, true, Operator::Diagonal, Comparator::Dot),
        weighted: false,
        loss: 0,
        execution: Execution::default(),
        steps: 1,
        seed: 4,
    };
    let twin = Twin::new(case.spec.clone(), false, case.seed);
    let mut table = Table::new(
        rows_of(&twin.tables[0])
            .concat()
            .iter()
            .map(|&x| x as f32 * 1e25)
            .collect(),
        case.spec.entities[0].dimension,
    );
    let place = TorchDevice::MAIN_MEMORY;
    place.upload(&mut table).expect("room");
    let spec = Arc::new(case.spec);
    let mut worker = place.worker(spec, case.execution).expect("a worker");
    let tables = BatchTables {
        lhs: &table,
        rhs: &table,
    };
    let before = rows_of(&table);
    let mut loss = loss(0);
    let draws = &twin.edges.draws;
    let result = worker.train(
        &BatchJob {
            batch: &twin.batch(),
            tables: &tables,
            params: &twin.params,
            draws,
        },
        loss.as_mut(),
    );
    assert_eq!(result, Err(StepError::NonFinite("loss")));
    table.download().expect("room");
    assert_eq!(rows_of(&table), before);
}

#[test]
fn without_a_gpu_the_error_says_what_to_do() {
    pbg_torch::load_found();
    match TorchDevice::cuda(0) {
        Ok(place) => assert_eq!(place.to_string(), "cuda:0"),
        Err(error @ OpenError::Library(_)) => {
            let text = error.to_string();
            for part in [
                "libtorch_cuda.so",
                "built without CUDA",
                "PBG_HOST_LIBTORCH",
            ] {
                assert!(text.contains(part), "{part}: {text}");
            }
        }
        Err(error) => assert!(error.to_string().contains("GPU"), "{error}"),
    }
}
