//! A batch that several workers share is trained as by a single worker.

use std::sync::Arc;

use pbg_core::model::{Comparator, Operator, Optimizer, Precision, Update};
use pbg_core::strategy::{FaultCause, LossWorker, ScoreBlock, StrategyError, StrategyId};
use pbg_kernels::negatives::NegativeDraws;
use pbg_kernels::step::{
    Batch, BatchJob, BatchStats, BatchTables, Execution, StepError, StepWorker, has_fast_bf16,
};
use pbg_reference::comparators::comparators;
use pbg_reference::formulas::{householder, paired};
use pbg_reference::losses::{LossKind, native};
use pbg_reference::twin::{params_with, relations_of, spec};
use pbg_rows::params::Params;
use pbg_rows::spec::ModelSpec;
use pbg_rows::table::Table;
use proptest::prelude::*;
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

const DIMENSION: usize = 8;
const BATCHES: usize = 3;

/// Everything that training changes, and the statistics that it returns.
#[derive(Debug)]
pub(crate) struct Trained {
    stats: Vec<BatchStats>,
    pub(crate) numbers: Vec<f32>,
}

/// Numbers of entities of both tables, and of edges per batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct World {
    pub(crate) entities: [usize; 2],
    pub(crate) edges: usize,
    pub(crate) seed: u64,
}

/// Returns a table with accumulators above zero. With zeros, the first step would be equally long for a gradient that
/// consists of rounding errors.
fn random_table(rows: usize, rng: &mut Xoshiro256PlusPlus) -> Table {
    let values = (0..rows * DIMENSION).map(|_| rng.random::<f32>() - 0.5);
    Table::with_optimizer(
        values.collect(),
        (Optimizer::RowAdagrad, vec![0.1; rows]),
        DIMENSION,
    )
}

/// Returns random parameters with accumulators above zero. The initial ones map every entity to itself, and an edge
/// between an entity and itself would have a distance of zero, where the direction of the gradient follows from rounding.
pub(crate) fn random_parameters(spec: &ModelSpec, seed: u64) -> Params {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(!seed);
    params_with(spec, 0.1, |count| {
        (0..count).map(|_| rng.random::<f32>() - 0.5).collect()
    })
}

fn batches(
    spec: &ModelSpec,
    world: World,
    mut train: impl FnMut(&BatchJob<'_>) -> BatchStats,
) -> Trained {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(world.seed);
    let [lhs_table, rhs_table] = world.entities.map(|rows| random_table(rows, &mut rng));
    let one = spec.relations[0].lhs == spec.relations[0].rhs;
    let tables = BatchTables {
        lhs: &lhs_table,
        rhs: if one { &lhs_table } else { &rhs_table },
    };
    let rows = [tables.lhs.entities(), tables.rhs.entities()];
    let (params, draws) = (
        random_parameters(spec, world.seed),
        NegativeDraws::default(),
    );
    let mut stats = Vec::new();
    for _ in 0..BATCHES {
        let [lhs, rhs]: [Vec<u32>; 2] = rows.map(|rows| {
            let draw = |_| rng.random_range(0..rows as u32);
            (0..world.edges).map(draw).collect()
        });
        let relations = (0..world.edges).map(|_| rng.random_range(0..spec.relation_count() as u32));
        let relations: Vec<u32> = relations.collect();
        let weight: Vec<f32> = lhs.iter().map(|&e| 0.5 + (e % 3) as f32).collect();
        let batch = Batch {
            lhs: &lhs,
            rhs: &rhs,
            relation: relations_of(spec, &relations, 0),
            weight: Some(&weight),
        };
        stats.push(train(&BatchJob {
            batch: &batch,
            tables: &tables,
            params: &params,
            draws: &draws,
        }));
    }
    let mut numbers = Vec::new();
    for table in [&lhs_table, &rhs_table] {
        let first = numbers.len();
        numbers.resize(first + table.embeddings.rows() * DIMENSION, 0.0);
        table.embeddings.read_rows(0, &mut numbers[first..]);
        let first = numbers.len();
        let sums = table.state.rows() * table.state.width();
        numbers.resize(first + sums, 0.0);
        table.state.read_rows(0, &mut numbers[first..]);
    }
    for tensor in params.tensors() {
        numbers.extend(tensor.to_vec());
    }
    Trained { stats, numbers }
}

pub(crate) fn alone(spec: &ModelSpec, execution: Execution, world: World) -> Trained {
    let worker = StepWorker::new(Arc::new(spec.clone())).expect("a step");
    let mut worker = worker.with_execution(execution);
    let mut loss = native(LossKind::Softmax);
    batches(spec, world, |job| {
        worker.train(job, loss.as_mut()).expect("a step")
    })
}

fn workers(spec: &ModelSpec, execution: Execution, count: usize) -> Vec<StepWorker> {
    let spec = Arc::new(spec.clone());
    let worker = |_| StepWorker::new(Arc::clone(&spec)).expect("a step");
    (0..count)
        .map(|i| worker(i).with_execution(execution))
        .collect()
}

fn together(spec: &ModelSpec, execution: Execution, world: World, count: usize) -> Trained {
    let mut workers = workers(spec, execution, count);
    let mut losses: Vec<_> = (0..count).map(|_| native(LossKind::Softmax)).collect();
    batches(spec, world, |job| {
        let mut team: Vec<_> = workers.iter_mut().collect();
        StepWorker::train_together(&mut team, &mut losses, job).expect("a step")
    })
}

fn model(
    dynamic: bool,
    one: bool,
    operator: Operator,
    comparator: Comparator,
    extras: bool,
) -> ModelSpec {
    let mut spec = spec(dynamic, one, operator, comparator);
    spec.relations.iter_mut().for_each(|r| r.all_negs = true);
    spec.entities
        .iter_mut()
        .for_each(|e| e.dimension = DIMENSION);
    (spec.num_batch_negs, spec.num_uniform_negs) = (0, 0);
    (spec.lr, spec.relation_lr) = (0.1, 0.1);
    (spec.bias, spec.global_emb) = (extras, extras);
    if operator == Operator::ComplexDiagonal {
        spec.regularization_coef = 0.01;
    }
    spec
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn workers_that_share_a_batch_train_what_one_does(
        (dynamic, one, extras, slices) in any::<(bool, bool, bool, bool)>(),
        operator in prop::sample::select(
            Operator::BUILT_IN.into_iter().chain([householder(), paired()]).collect::<Vec<_>>()
        ),
        comparator in prop::sample::select(comparators().collect::<Vec<_>>()),
        (lhs, rhs, edges) in (1_usize..60, 1_usize..60, 1_usize..40),
        count in 2_usize..6, slice_bytes in prop_oneof![Just(1_usize), Just(1 << 20)], seed in any::<u64>(),
    ) {
        let mut spec = model(dynamic, one, operator, comparator, extras);
        let predicting = ModelSpec { relation_prediction: 0.5, ..spec.clone() };
        if seed % 2 == 0 && predicting.validate().is_ok() {
            spec = predicting;
        }
        prop_assume!(spec.validate().is_ok());
        // These operators map some entities almost to themselves. There the direction of the gradient of a distance, or
        // its sign, follows from rounding, and updates differ by up to a hundredth; with the other comparators they
        // differ by 4e-6 at most.
        let has_kink = matches!(comparator, Comparator::L1 | Comparator::L2 | Comparator::ComplexL1);
        prop_assume!(!has_kink || !matches!(operator, Operator::Traced(_)));
        prop_assert!(spec.shares_batches());
        let execution = Execution {
            slice_bytes,
            update: if slices { Update::Slice } else { Update::Batch },
            ..Execution::default()
        };
        let world = World { entities: [lhs, rhs], edges, seed };
        let expected = alone(&spec, execution, world);
        let found = together(&spec, execution, world, count);
        for (found, expected) in found.stats.iter().zip(&expected.stats) {
            prop_assert_eq!(found.count, expected.count);
            let apart = (found.loss() - expected.loss()).abs() / expected.loss().abs().max(1.0);
            prop_assert!(apart < 1e-4, "{:?} {:?}", found, expected);
            let apart = (found.loss_relations - expected.loss_relations).abs();
            prop_assert!(apart <= 1e-4 * expected.loss_relations.max(1.0), "{:?} {:?}", found, expected);
            prop_assert!((found.reg - expected.reg).abs() <= 1e-4 * expected.reg.abs().max(1.0));
        }
        for (i, (found, expected)) in found.numbers.iter().zip(&expected.numbers).enumerate() {
            let apart = (found - expected).abs() / expected.abs().max(1.0);
            prop_assert!(apart < 2e-3, "number {}: {} {}", i, found, expected);
        }
        // The same number of workers yields the same bytes.
        let again = together(&spec, execution, world, count);
        prop_assert_eq!(&again.numbers, &found.numbers);
    }
}

#[test]
fn workers_that_share_a_batch_predict_relations_together() {
    let spec = ModelSpec {
        relation_prediction: 0.5,
        ..model(
            true,
            true,
            Operator::ComplexDiagonal,
            Comparator::Dot,
            false,
        )
    };
    let world = World {
        entities: [40, 1],
        edges: 30,
        seed: 5,
    };
    let expected = alone(&spec, Execution::default(), world);
    assert!(
        expected
            .stats
            .iter()
            .all(|stats| stats.loss_relations > 0.0)
    );
    let found = together(&spec, Execution::default(), world, 3);
    for (found, expected) in found.numbers.iter().zip(&expected.numbers) {
        assert!((found - expected).abs() < 1e-3, "{found} {expected}");
    }
}

#[test]
fn products_of_bf16_are_shared_too() {
    if !has_fast_bf16() {
        // This processor has nothing to compare.
        return;
    }
    pbg_torch::load_found();
    let spec = model(
        true,
        true,
        Operator::ComplexDiagonal,
        Comparator::Dot,
        false,
    );
    let execution = Execution {
        precision: Precision::Bf16,
        ..Execution::default()
    };
    let world = World {
        entities: [101, 1],
        edges: 60,
        seed: 3,
    };
    let expected = alone(&spec, execution, world);
    let found = together(&spec, execution, world, 3);
    let losses = |trained: &Trained| -> f64 { trained.stats.iter().map(BatchStats::loss).sum() };
    assert!((losses(&found) / losses(&expected) - 1.0).abs() < 1e-3);
    for (found, expected) in found.numbers.iter().zip(&expected.numbers) {
        // The gradients of positives are rounded separately in each share.
        assert!((found - expected).abs() < 0.02, "{found} {expected}");
    }
}

/// A loss that fails after a number of batches.
struct Failing {
    batches: usize,
    loss: Box<dyn LossWorker>,
}

impl LossWorker for Failing {
    fn evaluate(&mut self, scores: &mut ScoreBlock<'_>) -> Result<(), StrategyError> {
        self.batches = self.batches.checked_sub(1).ok_or_else(|| StrategyError {
            strategy: StrategyId {
                name: "failing".to_owned(),
                version: String::new(),
                sha256: String::new(),
            },
            function: "evaluate",
            reason: "no more".into(),
            cause: FaultCause::Strategy,
        })?;
        self.loss.evaluate(scores)
    }
}

#[test]
fn where_one_worker_fails_all_end_and_nothing_is_applied() {
    let spec = model(true, true, Operator::Diagonal, Comparator::Dot, false);
    let world = World {
        entities: [30, 1],
        edges: 20,
        seed: 1,
    };
    let mut workers = workers(&spec, Execution::default(), 3);
    let mut failed = 0;
    let mut before = None;
    batches(&spec, world, |job| {
        let mut numbers = vec![0.0; 30 * DIMENSION];
        let losses = [usize::MAX, 0, usize::MAX].map(|batches| {
            let loss = native(LossKind::Softmax);
            Box::new(Failing { batches, loss }) as Box<dyn LossWorker>
        });
        let mut team: Vec<_> = workers.iter_mut().collect();
        let error = StepWorker::train_together(&mut team, &mut Vec::from(losses), job).unwrap_err();
        assert!(matches!(error, StepError::Strategy(_)), "{error}");
        failed += 1;
        job.tables.lhs.embeddings.read_rows(0, &mut numbers);
        assert_eq!(before.get_or_insert_with(|| numbers.clone()), &numbers);
        BatchStats::default()
    });
    assert_eq!(failed, BATCHES);
}
