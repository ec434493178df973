//! Updates of embeddings with each optimizer.

use std::sync::Arc;

use pbg_core::model::{Comparator, Operator, Optimizer};
use pbg_kernels::step::{BatchJob, StepWorker};
use pbg_reference::losses::{LossKind, native};
use pbg_reference::twin::{ACCUMULATED, DIMENSION, Twin, spec};
use pbg_rows::shared_rows::SharedRows;
use pbg_rows::spec::ModelSpec;
use pbg_rows::table::Table;

/// Returns the rows before one step, the rows after it, and the accumulators after it; they start at `state`.
fn stepped(spec: &ModelSpec, state: impl Fn(usize) -> (Optimizer, Vec<f32>)) -> [Vec<f32>; 3] {
    let mut twin = Twin::new(spec.clone(), true, 9);
    for table in &mut twin.tables {
        let rows = table.embeddings.rows();
        let mut values = vec![0.0; rows * DIMENSION];
        table.embeddings.read_rows(0, &mut values);
        *table = Table::with_optimizer(values, state(rows), DIMENSION);
    }
    let numbers = |rows: &SharedRows| {
        let mut values = vec![0.0; rows.rows() * rows.width()];
        rows.read_rows(0, &mut values);
        values
    };
    let before = numbers(&twin.tables[0].embeddings);
    let mut worker = StepWorker::new(Arc::new(spec.clone())).expect("a worker");
    let job = BatchJob {
        batch: &twin.batch(),
        tables: &twin.tables(),
        params: &twin.params,
        draws: &twin.edges.draws,
    };
    worker
        .train(&job, native(LossKind::Softmax).as_mut())
        .expect("a step");
    let table = &twin.tables[0];
    [before, numbers(&table.embeddings), numbers(&table.adagrad)]
}

#[test]
fn adagrad_remembers_every_number_and_row_adagrad_every_row() {
    let base = spec(true, true, Operator::Diagonal, Comparator::Dot);
    let [before, after, _] = stepped(&base, |rows| {
        (Optimizer::RowAdagrad, vec![ACCUMULATED; rows])
    });
    let gradient: Vec<f32> = before.iter().zip(&after).map(|(b, a)| b - a).collect();
    let spec = ModelSpec { lr: 0.1, ..base };
    let near = |found: f32, expected: f32| {
        let apart = (found - expected).abs();
        assert!(
            apart <= 1e-3 * expected.abs().max(1.0),
            "{found} {expected}"
        );
    };
    let [before, after, sums] = stepped(&spec, |rows| {
        (Optimizer::Adagrad, vec![0.5; rows * DIMENSION])
    });
    for (i, &g) in gradient.iter().enumerate() {
        near(sums[i], 0.5 + g * g);
        near(after[i], before[i] - 0.1 * g / (0.5 + g * g).sqrt());
    }
    let [before, after, sums] = stepped(&spec, |rows| (Optimizer::RowAdagrad, vec![0.5; rows]));
    for (row, g) in gradient.chunks(DIMENSION).enumerate() {
        let mean = g.iter().map(|g| g * g).sum::<f32>() / DIMENSION as f32;
        near(sums[row], 0.5 + mean);
        for (i, g) in (row * DIMENSION..).zip(g) {
            near(after[i], before[i] - 0.1 * g / (0.5 + mean).sqrt());
        }
    }
}
