//! Training of the same rows by several workers.

use std::sync::Arc;

use pbg_core::model::{Comparator, Operator};
use pbg_kernels::losses::handwritten::HandwrittenLoss;
use pbg_kernels::negatives::NegativeDraws;
use pbg_kernels::step::{Batch, BatchJob, BatchRelations, BatchTables, StepWorker};
use pbg_reference::twin::spec;
use pbg_rows::params::Params;
use pbg_rows::spec::ModelSpec;
use pbg_rows::table::Table;
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

const ENTITIES: u32 = 40;

/// Trains a ring, in which entity `i` is followed by entity `i + 1`. Returns the mean losses of the first and last
/// batches.
fn train(worker: u64, spec: &Arc<ModelSpec>, table: &Table, params: &Params) -> (f64, f64) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(worker);
    let mut worker = StepWorker::new(Arc::clone(spec)).expect("a worker");
    let mut draws = NegativeDraws::default();
    let tables = BatchTables {
        lhs: table,
        rhs: table,
    };
    let mut losses = Vec::new();
    for _ in 0..400 {
        let lhs: Vec<u32> = (0..20).map(|_| rng.random_range(0..ENTITIES)).collect();
        let rhs: Vec<u32> = lhs.iter().map(|l| (l + 1) % ENTITIES).collect();
        draws.draw(
            spec,
            &spec.relations[0],
            20,
            [ENTITIES as usize; 2],
            &mut rng,
        );
        let batch = Batch {
            lhs: &lhs,
            rhs: &rhs,
            relation: BatchRelations::PerEdge(&[0; 20]),
            weight: None,
        };
        let stats = worker
            .train(
                &BatchJob {
                    batch: &batch,
                    tables: &tables,
                    params,
                    draws: &draws,
                },
                &mut HandwrittenLoss::softmax(),
            )
            .expect("a step");
        losses.push(stats.loss() / 20.0);
    }
    let mean = |losses: &[f64]| losses.iter().sum::<f64>() / losses.len() as f64;
    (mean(&losses[..10]), mean(&losses[390..]))
}

#[test]
fn workers_learn_together_and_rows_stay_finite() {
    let spec = ModelSpec {
        lr: 0.1,
        relation_lr: 0.1,
        num_batch_negs: 10,
        num_uniform_negs: 10,
        ..spec(true, true, Operator::ComplexDiagonal, Comparator::Dot)
    };
    let spec = Arc::new(spec);
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
    let values = (0..ENTITIES as usize * 6)
        .map(|_| 0.2 * rng.random::<f32>() - 0.1)
        .collect();
    let mut table = Table::new(values, 6);
    let params = Params::new(&spec, 0);
    let results: Vec<(f64, f64)> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..3)
            .map(|w| {
                scope.spawn({
                    let (s, t, p) = (&spec, &table, &params);
                    move || train(w, s, t, p)
                })
            })
            .collect();
        workers
            .into_iter()
            .map(|w| w.join().expect("a worker"))
            .collect()
    });
    // A worker that starts late reads rows that the others have already trained.
    let untrained = results.iter().map(|&(first, _)| first).fold(0.0, f64::max);
    for (_, last) in results {
        assert!(last < 0.6 * untrained, "{untrained} {last}");
    }
    assert!(table.embeddings.get_mut().iter().all(|x| x.is_finite()));
}
