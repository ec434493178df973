//! The settings of a worker's execution change its speed and its memory, but not the results.

use std::sync::Arc;

use pbg_core::model::{Comparator, Operator, Precision, Update};
use pbg_kernels::negatives::NegativeDraws;
use pbg_kernels::step::{
    Batch, BatchJob, BatchRelations, BatchStats, BatchTables, Execution, StepWorker, TableSizes,
    has_fast_bf16, worker_bytes,
};
use pbg_reference::losses::{LossKind, native};
use pbg_reference::twin::{relations_of, spec};
use pbg_rows::params::Params;
use pbg_rows::spec::ModelSpec;
use pbg_rows::table::Table;
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

const ENTITIES: usize = 4000;
const BATCH: usize = 1000;
const DIMENSION: usize = 64;

fn model(dynamic: bool, all_negs: bool, operator: Operator) -> ModelSpec {
    let mut spec = spec(dynamic, true, operator, Comparator::Dot);
    (spec.num_batch_negs, spec.num_uniform_negs) = (50, if all_negs { 0 } else { 100 });
    (spec.lr, spec.relation_lr) = (0.1, 0.1);
    spec.entities
        .iter_mut()
        .for_each(|e| e.dimension = DIMENSION);
    spec.relations
        .iter_mut()
        .for_each(|r| r.all_negs = all_negs);
    spec
}

/// Trains one step from a fixed start. Returns its statistics, the embeddings after it, and the bytes of the buffers.
fn step(spec: &ModelSpec, execution: Execution, distinct: bool) -> (BatchStats, Vec<f32>, u64) {
    if execution.precision == Precision::Bf16 {
        // libtorch computes the products.
        pbg_torch::load_found();
    }
    let spec = Arc::new(spec.clone());
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
    let values = (0..ENTITIES * DIMENSION)
        .map(|_| rng.random::<f32>() - 0.5)
        .collect();
    let table = Table::new(values, DIMENSION);
    let count = BATCH as u32;
    let (lhs, rhs): (Vec<u32>, Vec<u32>) = if distinct {
        ((0..count).collect(), (count..2 * count).collect())
    } else {
        let mut draw = || rng.random_range(0..ENTITIES as u32);
        (
            (0..count).map(|_| draw()).collect(),
            (0..count).map(|_| draw()).collect(),
        )
    };
    let relations: Vec<u32> = (0..count)
        .map(|i| i % spec.relation_count() as u32)
        .collect();
    let mut draws = NegativeDraws::default();
    draws.draw(&spec, &spec.relations[0], BATCH, [ENTITIES; 2], &mut rng);
    let batch = Batch {
        lhs: &lhs,
        rhs: &rhs,
        relation: relations_of(&spec, &relations, 0),
        weight: None,
    };
    let tables = BatchTables {
        lhs: &table,
        rhs: &table,
    };
    let mut worker = StepWorker::new(Arc::clone(&spec))
        .expect("a worker")
        .with_execution(execution);
    let mut loss = native(LossKind::Softmax);
    let params = Params::new(&spec, 0);
    let stats = worker
        .train(
            &BatchJob {
                batch: &batch,
                tables: &tables,
                params: &params,
                draws: &draws,
            },
            loss.as_mut(),
        )
        .expect("a step");
    let mut out = vec![0.0; ENTITIES * DIMENSION];
    for (row, out) in out.chunks_exact_mut(DIMENSION).enumerate() {
        table.embeddings.read_row(row, out);
    }
    (stats, out, worker.bytes() as u64)
}

fn furthest(a: &[f32], b: &[f32]) -> f32 {
    a.iter()
        .zip(b)
        .map(|(a, b)| (a - b).abs())
        .fold(0.0, f32::max)
}

#[test]
fn bf16_is_fp32_with_less_precise_products() {
    if !has_fast_bf16() {
        // This processor has nothing to compare.
        return;
    }
    let bf16 = Execution {
        precision: Precision::Bf16,
        ..Execution::default()
    };
    for dynamic in [false, true] {
        for all_negs in [false, true] {
            let spec = model(dynamic, all_negs, Operator::ComplexDiagonal);
            assert_eq!(bf16.refusal(&spec), None);
            let (exact, exact_rows, _) = step(&spec, Execution::default(), false);
            let (rounded, rows, bytes) = step(&spec, bf16, false);
            let case = format!("dynamic {dynamic}, all negatives {all_negs}");
            let relative = (rounded.loss() / exact.loss() - 1.0).abs();
            assert!(relative < 2e-3, "{case}: {relative}");
            assert!(relative > 0.0, "{case}: products in bf16 cannot be exact");
            // The first step of row-Adagrad changes each number by about lr, on average.
            let apart = furthest(&rows, &exact_rows);
            assert!(apart < 0.05, "{case}: {apart}");
            let rows = TableSizes {
                largest: ENTITIES,
                partitioned: false,
            };
            let bound = worker_bytes(&spec, BATCH, &bf16, &[rows; 2]).expect("a model");
            assert!(bytes <= bound, "{case}: {bytes} of {bound}");
        }
    }
}

#[test]
fn bf16_is_refused_where_it_would_do_harm() {
    let bf16 = Execution {
        precision: Precision::Bf16,
        ..Execution::default()
    };
    for comparator in [
        Comparator::L2,
        Comparator::SquaredL2,
        Comparator::L1,
        Comparator::ComplexL1,
    ] {
        let distances = spec(false, true, Operator::None, comparator);
        assert!(bf16.refusal(&distances).is_some_and(|r| r.contains("fp32")));
        assert_eq!(Execution::default().refusal(&distances), None);
    }
}

#[test]
fn updates_by_slice_are_those_by_batch_where_slices_share_no_rows() {
    let mut spec = model(false, false, Operator::None);
    spec.num_uniform_negs = 0;
    let slices = |update| Execution {
        slice_bytes: 1,
        update,
        ..Execution::default()
    };
    let (by_batch, batch_rows, _) = step(&spec, slices(Update::Batch), true);
    let (by_slice, slice_rows, _) = step(&spec, slices(Update::Slice), true);
    assert_eq!(by_batch, by_slice);
    assert_eq!(batch_rows, slice_rows);
    // Rows that occur in several slices include the updates of the earlier slices.
    let (_, batch_rows, _) = step(&spec, slices(Update::Batch), false);
    let (_, slice_rows, _) = step(&spec, slices(Update::Slice), false);
    assert!(furthest(&batch_rows, &slice_rows) > 0.0);
}

/// A step whose right negatives also come from the left partition.
#[test]
fn negatives_may_come_from_both_partitions_of_a_bucket() {
    let mut spec = model(true, false, Operator::ComplexDiagonal);
    (spec.num_batch_negs, spec.num_uniform_negs, spec.chunk_size) = (0, 2, Some(1));
    let values = |seed| {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        (0..4 * DIMENSION)
            .map(|_| rng.random::<f32>() - 0.5)
            .collect::<Vec<_>>()
    };
    // Partitions of two and four rows, and a table that contains both.
    let (small, large) = (values(1)[..2 * DIMENSION].to_vec(), values(2));
    let both = [small.clone(), large.clone()].concat();
    let step = |lhs: &Table, rhs: &Table, ids: [u32; 2], draws: NegativeDraws| {
        let spec = Arc::new(spec.clone());
        let mut worker = StepWorker::new(Arc::clone(&spec)).expect("a worker");
        let batch = Batch {
            lhs: &ids[..1],
            rhs: &ids[1..],
            relation: BatchRelations::PerEdge(&[0]),
            weight: None,
        };
        let mut loss = native(LossKind::Softmax);
        worker.train(
            &BatchJob {
                batch: &batch,
                tables: &BatchTables { lhs, rhs },
                params: &Params::new(&spec, 0),
                draws: &draws,
            },
            loss.as_mut(),
        )
    };
    let (lhs, rhs) = (Table::new(small, DIMENSION), Table::new(large, DIMENSION));
    // Left offsets 2 to 5 are offsets 0 to 3 of the right partition; right offsets 4 and 5 are offsets 0 and 1 of the
    // left one.
    let draws = NegativeDraws {
        lhs: vec![0, 5],
        rhs: vec![3, 5],
        ..NegativeDraws::default()
    };
    let apart = step(&lhs, &rhs, [0, 0], draws).expect("a step");
    let whole = Table::new(both, DIMENSION);
    let draws = NegativeDraws {
        lhs: vec![0, 5],
        rhs: vec![5, 1],
        ..NegativeDraws::default()
    };
    let joint = step(&whole, &whole, [0, 2], draws).expect("a step");
    assert!((apart.loss() - joint.loss()).abs() < 1e-5 * joint.loss());
    let row = |table: &Table, row: usize| {
        let mut out = vec![0.0; DIMENSION];
        table.embeddings.read_row(row, &mut out);
        out
    };
    for entity in 0..6 {
        let apart = match entity {
            0 | 1 => row(&lhs, entity),
            _ => row(&rhs, entity - 2),
        };
        assert!(furthest(&apart, &row(&whole, entity)) < 1e-5, "{entity}");
    }
    let beyond = NegativeDraws {
        lhs: vec![0, 6],
        rhs: vec![0, 0],
        ..NegativeDraws::default()
    };
    assert!(step(&lhs, &rhs, [0, 0], beyond).is_err());
}

#[test]
fn many_positives_may_share_negatives() {
    let mut spec = model(true, false, Operator::ComplexDiagonal);
    (spec.num_batch_negs, spec.chunk_size) = (0, Some(BATCH));
    let (shared, ..) = step(&spec, Execution::default(), false);
    assert_eq!(shared.count, BATCH);
    // One hundred candidates for the whole batch, not one hundred per chunk.
    let mut draws = NegativeDraws::default();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(5);
    draws.draw(&spec, &spec.relations[0], BATCH, [ENTITIES; 2], &mut rng);
    assert_eq!(draws.side(pbg_core::graph::Side::Lhs).len(), 100);
}
