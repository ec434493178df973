//! Updates of embeddings with each optimizer.

use std::sync::Arc;

use pbg_core::model::{Comparator, Operator, Optimizer};
use pbg_kernels::step::{BatchJob, StepWorker};
use pbg_reference::losses::{LossKind, native};
use pbg_reference::twin::{ACCUMULATED, DIMENSION, Twin, spec};
use pbg_rows::shared_rows::SharedRows;
use pbg_rows::spec::ModelSpec;
use pbg_rows::table::Table;

/// Returns the rows before one step, the rows after it, and the state of the optimizer after it, which starts at
/// `state`.
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
    [before, numbers(&table.embeddings), numbers(&table.state)]
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

/// The second update of some rows and the first of others, beside the definition of Adam.
#[test]
fn adam_averages_what_each_row_has_seen() {
    let base = spec(true, true, Operator::Diagonal, Comparator::Dot);
    let [before, after, _] = stepped(&base, |rows| {
        (Optimizer::RowAdagrad, vec![ACCUMULATED; rows])
    });
    let gradient: Vec<f32> = before.iter().zip(&after).map(|(b, a)| b - a).collect();
    let spec = ModelSpec { lr: 0.01, ..base };
    let (width, earlier) = (2 * DIMENSION + 1, 0.3_f32);
    let [before, after, states] = stepped(&spec, |rows| {
        let mut state = vec![0.0; rows * width];
        for row in state.chunks_mut(width).step_by(2) {
            row[..DIMENSION].fill(0.1 * earlier);
            row[DIMENSION..2 * DIMENSION].fill(0.001 * earlier * earlier);
            row[2 * DIMENSION] = 1.0;
        }
        (Optimizer::Adam, state)
    });
    let (mut trained, mut compared) = (0, [0; 2]);
    for (row, state) in states.chunks(width).enumerate() {
        let gradients = &gradient[row * DIMENSION..][..DIMENSION];
        let updates = i32::from(row % 2 == 0);
        if gradients.iter().all(|&g| g == 0.0) {
            assert_eq!(state[2 * DIMENSION], updates as f32);
            continue;
        }
        trained += 1;
        let updates = updates + 1;
        assert_eq!(state[2 * DIMENSION], updates as f32);
        for (i, &g) in gradients.iter().enumerate() {
            let (mut mean, mut square) = (0.0, 0.0);
            let seen = [f64::from(earlier), f64::from(g)];
            for g in &seen[2 - updates as usize..] {
                mean = 0.9 * mean + 0.1 * g;
                square = 0.999 * square + 0.001 * g * g;
            }
            let (fair_mean, fair_square) = (
                mean / (1.0 - 0.9_f64.powi(updates)),
                square / (1.0 - 0.999_f64.powi(updates)),
            );
            let at = row * DIMENSION + i;
            let expected = f64::from(before[at]) - 0.01 * fair_mean / (fair_square.sqrt() + 1e-8);
            // The gradient is known to about three digits, and only its sign counts in a first update.
            if g.abs() > 1e-3 {
                compared[updates as usize - 1] += 1;
                let apart = (f64::from(after[at]) - expected).abs();
                assert!(apart < 5e-5, "row {row}: {} {expected}", after[at]);
                let near = |found: f32, expected: f64| {
                    (f64::from(found) - expected).abs() < 2e-2 * expected.abs()
                };
                assert!(near(state[i], mean) && near(state[DIMENSION + i], square));
            }
        }
    }
    assert!(trained > 2, "{trained}");
    assert!(compared[0] > 5 && compared[1] > 5, "{compared:?}");
}
