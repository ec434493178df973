//! What a worker needs is known before it starts.

use std::sync::Arc;

use pbg_core::config::{Comparator, Operator};
use pbg_kernels::negatives::Draws;
use pbg_kernels::params::Params;
use pbg_kernels::spec::ModelSpec;
use pbg_kernels::step::{Batch, Execution, Relations, Tables, Trainer, worker_bytes};
use pbg_kernels::table::Table;
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use crate::gradients::{native, spec};
use crate::reference::Kind;

const ROWS: [usize; 2] = [3000, 2000];
const BATCH: usize = 600;

fn used(spec: &ModelSpec, operators_on: u32) -> u64 {
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
    let mut ids = |limit: usize| {
        (0..BATCH)
            .map(|_| rng.random_range(0..limit as u32))
            .collect::<Vec<_>>()
    };
    let (lhs, rhs, relations) = (ids(ROWS[0]), ids(ROWS[1]), ids(spec.relation_count()));
    let relation = match spec.is_dynamic() {
        true => Relations::PerEdge(&relations),
        false => Relations::One(operators_on),
    };
    let mut draws = Draws::default();
    draws.draw(&spec, &spec.relations[0], BATCH, ROWS, &mut rng);
    let mut trainer = Trainer::new(Arc::clone(&spec)).expect("a trainer");
    let batch = Batch {
        lhs: &lhs,
        rhs: &rhs,
        relation,
        weight: None,
    };
    let tables = Tables {
        lhs: &tables[0],
        rhs: &tables[1],
    };
    let loss = native(Kind::Softmax);
    trainer
        .train(&batch, &tables, &Params::new(&spec), loss.as_ref(), &draws)
        .expect("a step");
    trainer.bytes() as u64
}

#[test]
fn the_bound_holds_and_is_close() {
    for operator in [Operator::None, Operator::ComplexDiagonal, Operator::Affine] {
        for dynamic in [false, true] {
            for comparator in [Comparator::Dot, Comparator::L2] {
                for (all_negs, uniform) in [(false, 40), (false, 500), (true, 0)] {
                    let mut spec = spec(dynamic, false, operator, comparator);
                    (spec.num_batch_negs, spec.num_uniform_negs) = (50, uniform);
                    spec.entities.iter_mut().for_each(|e| e.dimension = 64);
                    spec.relations
                        .iter_mut()
                        .for_each(|r| r.all_negs = all_negs);
                    let (bound, used) = (
                        worker_bytes(&spec, BATCH, &Execution::default(), &ROWS),
                        used(&spec, 1),
                    );
                    let case = format!(
                        "{operator:?} {comparator:?} dynamic {dynamic} all {all_negs} {uniform}"
                    );
                    assert!(used <= bound, "{case}: {used} of {bound}");
                    // Huge pages and distances that are not needed are all that may be too much.
                    assert!(bound <= 2 * used + (30 << 20), "{case}: {used} of {bound}");
                }
            }
        }
    }
}
