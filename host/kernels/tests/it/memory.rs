//! The memory of a worker's buffers is known before the worker starts.

use std::sync::Arc;

use pbg_core::model::{Comparator, Operator, Precision};
use pbg_kernels::negatives::NegativeDraws;
use pbg_kernels::step::{
    Batch, BatchJob, BatchTables, Execution, StepWorker, TableSizes, scoring_bytes, worker_bytes,
};
use pbg_reference::comparators::{boxes, comparators};
use pbg_reference::formulas::{formulas, formulas_of_both_sides};
use pbg_reference::losses::{LossKind, native};
use pbg_reference::twin::{relations_of, spec};
use pbg_rows::params::Params;
use pbg_rows::spec::ModelSpec;
use pbg_rows::table::Table;
use proptest::prelude::*;
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

const ROWS: [usize; 2] = [3000, 2000];
const BATCH: usize = 600;

/// What a worker does with batches.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Work {
    Train,
    Score,
}

fn bound(spec: &ModelSpec, execution: &Execution, work: Work) -> u64 {
    let rows = ROWS.map(|largest| TableSizes {
        largest,
        partitioned: spec.relations[0].lhs == spec.relations[0].rhs,
    });
    let bytes = match work {
        Work::Train => worker_bytes,
        Work::Score => scoring_bytes,
    };
    bytes(spec, BATCH, execution, &rows).expect("a model that can be trained")
}

/// Returns the bytes of a worker's buffers after batches of `batches` edges each.
fn used(spec: &ModelSpec, execution: Execution, batches: &[usize], work: Work) -> u64 {
    let spec = Arc::new(spec.clone());
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(1);
    let width = spec.entities[0].dimension;
    let tables = ROWS.map(|rows| {
        Table::new(
            (0..rows * width)
                .map(|_| rng.random::<f32>() * 0.01)
                .collect(),
            width,
        )
    });
    let mut worker = StepWorker::new(Arc::clone(&spec))
        .expect("a worker")
        .with_execution(execution);
    let (mut loss, params) = (native(LossKind::Softmax), Params::new(&spec, 0));
    for (index, &edges) in batches.iter().enumerate() {
        // With one type on both sides, batches alternate between two partitions and one.
        let one_type = spec.relations[0].lhs == spec.relations[0].rhs;
        let other = usize::from(!one_type || index % 2 == 0);
        let mut ids = |limit: usize| -> Vec<u32> {
            (0..edges)
                .map(|_| rng.random_range(0..limit as u32))
                .collect()
        };
        let (lhs, rhs) = (ids(ROWS[0]), ids(ROWS[other]));
        let relations = ids(spec.relation_count());
        let mut draws = NegativeDraws::default();
        let entities = [ROWS[0], ROWS[other]];
        draws.draw(&spec, &spec.relations[0], edges, entities, &mut rng);
        let batch = Batch {
            lhs: &lhs,
            rhs: &rhs,
            relation: relations_of(&spec, &relations, 1),
            weight: None,
        };
        let tables = BatchTables {
            lhs: &tables[0],
            rhs: &tables[other],
        };
        let job = BatchJob {
            batch: &batch,
            tables: &tables,
            params: &params,
            draws: &draws,
        };
        let done = match work {
            Work::Train => worker.train(&job, loss.as_mut()).map(drop),
            Work::Score => worker.score(&job, &mut |_, _, _, _| {}),
        };
        done.expect("a step");
    }
    worker.bytes() as u64
}

#[test]
fn the_bound_holds_and_is_close() {
    let built_in = [Operator::None, Operator::ComplexDiagonal, Operator::Affine];
    let formulas = formulas().into_iter().chain(formulas_of_both_sides());
    for operator in built_in.into_iter().chain(formulas) {
        let of_both = operator.on_lhs() != Operator::None;
        for dynamic in if of_both {
            &[false][..]
        } else {
            &[false, true]
        } {
            let dynamic = *dynamic;
            for comparator in [
                Comparator::Dot,
                Comparator::L2,
                Comparator::ComplexL1,
                boxes(),
            ] {
                for (all_negs, uniform) in [(false, 40), (false, 500), (true, 0)] {
                    let mut spec = spec(dynamic, false, operator, comparator);
                    (spec.num_batch_negs, spec.num_uniform_negs) = (50, uniform);
                    spec.entities.iter_mut().for_each(|e| e.dimension = 64);
                    spec.relations
                        .iter_mut()
                        .for_each(|r| r.all_negs = all_negs);
                    let execution = Execution::default();
                    let bound = bound(&spec, &execution, Work::Train);
                    let used = used(&spec, execution, &[BATCH], Work::Train);
                    let case = format!(
                        "{operator:?} {comparator:?} dynamic {dynamic} all {all_negs} {uniform}"
                    );
                    assert!(used <= bound, "{case}: {used} of {bound}");
                    // The bound also counts partly used huge pages and the columns of a batch, which are not among the
                    // buffers.
                    assert!(bound <= 2 * used + (30 << 20), "{case}: {used} of {bound}");
                }
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Holds for any model and size of slices, and for batches of all sizes in any order.
    #[test]
    fn no_worker_takes_more_than_was_announced(
        (dynamic, one_type, bias, half) in any::<(bool, bool, bool, bool)>(),
        (operator, comparator) in (0..13_usize, 0..8_usize),
        dimension in 1..24_usize,
        (batch_negs, uniform, chunk) in (0..40_usize, 1..60_usize, proptest::option::of(1..700_usize)),
        (all, regularized, lhs) in any::<(bool, bool, bool)>(),
        slice_bytes in 1..2_000_000_usize,
        batches in proptest::collection::vec(1..=BATCH, 1..4),
    ) {
        let operators = Operator::BUILT_IN.into_iter().chain(formulas());
        let operators = operators.chain(formulas_of_both_sides());
        let operator = operators.into_iter().nth(operator).expect("so many");
        let comparator = comparators().nth(comparator).expect("so many");
        let dynamic = dynamic && operator.on_lhs() == Operator::None;
        let mut spec = spec(dynamic, one_type, operator, comparator);
        (spec.num_batch_negs, spec.num_uniform_negs) = (batch_negs, uniform);
        (spec.chunk_size, spec.bias, spec.disable_lhs_negs) = (chunk, bias, lhs);
        (spec.lr, spec.relation_lr) = (0.01, 0.01);
        let matrix = matches!(operator, Operator::Linear | Operator::Affine);
        spec.regularization_coef = if regularized && !matrix { 0.01 } else { 0.0 };
        spec.entities.iter_mut().for_each(|e| e.dimension = 2 * dimension);
        spec.relations.iter_mut().for_each(|r| r.all_negs = all);
        let predicting = ModelSpec { relation_prediction: 0.5, ..spec.clone() };
        if regularized && predicting.validate().is_ok() {
            spec = predicting;
        }
        let mut execution = Execution { slice_bytes, ..Execution::default() };
        if half {
            execution.precision = Precision::Bf16;
        }
        prop_assume!(execution.refusal(&spec).is_none());
        for work in [Work::Train, Work::Score] {
            let (bound, used) = (bound(&spec, &execution, work), used(&spec, execution, &batches, work));
            prop_assert!(used <= bound, "{work:?}: {used} of {bound}");
        }
    }
}
