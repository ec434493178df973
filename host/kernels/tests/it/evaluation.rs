//! Compares the metrics of evaluation during training with a naive count, and tests which batches are rejected.

use std::collections::BTreeSet;
use std::sync::Arc;

use pbg_core::graph::Side;
use pbg_core::model::{Comparator, Operator};
use pbg_kernels::losses::handwritten::HandwrittenLoss;
use pbg_kernels::step::{
    Batch, BatchJob, BatchRelations, EvalStats, Execution, StepError, StepWorker,
};
use pbg_reference::losses::{LossKind, native};
use pbg_reference::twin::{Twin, rows_of, spec};
use pbg_rows::spec::ModelSpec;

/// Returns the entities that positive `i` is compared with: all of its negatives, each once, without its own entity.
fn sampled(twin: &Twin, side: Side, i: usize) -> BTreeSet<u32> {
    let mut entities: BTreeSet<u32> = twin
        .model
        .negatives(&twin.edges, side, i)
        .0
        .into_iter()
        .collect();
    entities.remove(&twin.edges.sides[side as usize][i]);
    entities
}

/// Returns all entities of a side except that of positive `i`: the candidates of unfiltered ranks in `eval`.
fn all(twin: &Twin, side: Side, i: usize) -> BTreeSet<u32> {
    let mut entities: BTreeSet<u32> = (0..twin.model.entities(side) as u32).collect();
    entities.remove(&twin.edges.sides[side as usize][i]);
    entities
}

fn naive(
    twin: &Twin,
    kind: LossKind,
    candidates: fn(&Twin, Side, usize) -> BTreeSet<u32>,
) -> EvalStats {
    let mut stats = EvalStats {
        count: twin.edges.relations.len(),
        ..EvalStats::default()
    };
    for i in 0..stats.count {
        for side in Side::BOTH {
            let score = |entity| twin.model.score(&twin.edges, side, i, entity);
            let positive = score(twin.edges.sides[side as usize][i]);
            let negatives: Vec<f64> = candidates(twin, side, i).into_iter().map(score).collect();
            let above = negatives.iter().filter(|&&n| n > positive + 1e-6).count() as f64;
            let equal = negatives
                .iter()
                .filter(|&&n| (n - positive).abs() <= 1e-6)
                .count() as f64;
            let rank = 1.0 + above + equal / 2.0;
            stats.pos_rank += rank / 2.0;
            stats.mrr += 0.5 / rank;
            for (metric, at) in [
                (&mut stats.r1, 1.0),
                (&mut stats.r10, 10.0),
                (&mut stats.r50, 50.0),
            ] {
                *metric += if rank <= at { 0.5 } else { 0.0 };
            }
        }
    }
    stats.loss = twin.model.loss(&twin.edges, kind);
    stats
}

fn assert_same(found: &EvalStats, expected: &EvalStats, seed: u64) {
    let pairs = [
        (found.loss, expected.loss),
        (found.pos_rank, expected.pos_rank),
        (found.mrr, expected.mrr),
        (found.r1, expected.r1),
        (found.r10, expected.r10),
        (found.r50, expected.r50),
    ];
    for (i, (found, expected)) in pairs.into_iter().enumerate() {
        assert!(
            (found - expected).abs() < 1e-4 * (1.0 + expected),
            "{seed} metric {i}: {found} {expected}"
        );
    }
}

/// If every entity is drawn, most of them repeatedly, ranks are those among all entities.
#[test]
fn draws_of_every_entity_give_the_ranks_among_all() {
    for seed in 30..50 {
        for (dynamic, shared, batch) in [
            (true, true, 3),
            (true, false, 0),
            (false, true, 4),
            (false, false, 0),
        ] {
            let spec = ModelSpec {
                num_batch_negs: batch,
                num_uniform_negs: 40,
                ..spec(dynamic, shared, Operator::Translation, Comparator::Dot)
            };
            let mut twin = Twin::new(spec, false, seed);
            twin.edges.draws.counts = Default::default();
            for side in Side::BOTH {
                let entities = twin.model.entities(side) as u32;
                let draws = match side {
                    Side::Lhs => &mut twin.edges.draws.lhs,
                    Side::Rhs => &mut twin.edges.draws.rhs,
                };
                for (draw, entity) in draws.iter_mut().zip((0..).map(|i| i * 5 % entities)) {
                    *draw = entity;
                }
            }
            let mut expected = naive(&twin, LossKind::Softmax, all);
            let mut worker = StepWorker::new(Arc::new(twin.model.spec.clone())).expect("a worker");
            let job = BatchJob {
                batch: &twin.batch(),
                tables: &twin.tables(),
                params: &twin.params,
                draws: &twin.edges.draws,
            };
            let mut loss = native(LossKind::Softmax);
            let found = worker
                .evaluate(&job, loss.as_mut(), 1)
                .expect("an evaluation");
            // The loss counts what PBG counts: positives among the draws too, and entities as often as they are drawn.
            expected.loss = found.loss;
            assert_same(&found, &expected, seed);
        }
    }
}

/// In a graph with one entity on each side, no negative remains for a positive, neither for ranks nor for the area.
#[test]
fn a_positive_is_no_negative_of_itself() {
    let mut twin = Twin::new(
        spec(true, false, Operator::None, Comparator::Dot),
        false,
        51,
    );
    twin.edges.sides = [vec![0; 8], vec![0; 8]];
    twin.edges.draws.lhs.fill(0);
    twin.edges.draws.rhs.fill(0);
    let mut worker = StepWorker::new(Arc::new(twin.model.spec.clone())).expect("a worker");
    let job = BatchJob {
        batch: &twin.batch(),
        tables: &twin.tables(),
        params: &twin.params,
        draws: &twin.edges.draws,
    };
    let stats = worker
        .evaluate(&job, &mut HandwrittenLoss::softmax(), 5)
        .expect("an evaluation");
    assert_eq!((stats.pos_rank, stats.mrr, stats.r1), (8.0, 8.0, 8.0));
    assert_eq!(stats.auc, 0.0);
}

#[test]
fn metrics_equal_a_naive_count_at_any_slice_size() {
    for seed in 10..30 {
        for dynamic in [false, true] {
            let twin = Twin::new(
                spec(dynamic, false, Operator::Diagonal, Comparator::Cos),
                true,
                seed,
            );
            let expected = naive(&twin, LossKind::Softmax, sampled);
            let before = rows_of(&twin.tables[0]);
            for slice_bytes in [1, 1 << 20] {
                let spec = Arc::new(twin.model.spec.clone());
                let mut worker =
                    StepWorker::new(spec)
                        .expect("a worker")
                        .with_execution(Execution {
                            slice_bytes,
                            ..Execution::default()
                        });
                let mut loss = native(LossKind::Softmax);
                let draws = &twin.edges.draws;
                let found = worker
                    .evaluate(
                        &BatchJob {
                            batch: &twin.batch(),
                            tables: &twin.tables(),
                            params: &twin.params,
                            draws,
                        },
                        loss.as_mut(),
                        1,
                    )
                    .expect("an evaluation");
                assert_same(&found, &expected, seed);
                assert!(
                    (0.0..=found.count as f64).contains(&found.auc),
                    "{}",
                    found.auc
                );
            }
            assert_eq!(
                before,
                rows_of(&twin.tables[0]),
                "evaluation changed a table"
            );
        }
    }
}

/// If all positives score above every negative, the area is 1; if all score below, it is 0.
#[test]
fn the_area_under_the_curve_has_the_right_ends() {
    for (sign, expected) in [(1.0, 8.0), (-1.0, 0.0)] {
        let spec = ModelSpec {
            num_batch_negs: 0,
            ..spec(true, false, Operator::None, Comparator::Dot)
        };
        let mut twin = Twin::new(spec, false, 7);
        for table in &mut twin.tables {
            table.embeddings.get_mut().fill(0.1);
            // Entity 0 of each side scores far from all others.
            table.embeddings.get_mut()[..6].fill(10.0);
        }
        twin.tables[1]
            .embeddings
            .get_mut()
            .iter_mut()
            .for_each(|x| *x *= sign);
        twin.edges.sides = [vec![0; 8], vec![0; 8]];
        twin.edges.draws.lhs.fill(3);
        twin.edges.draws.rhs.fill(4);
        let mut worker = StepWorker::new(Arc::new(twin.model.spec.clone())).expect("a worker");
        let stats = worker
            .evaluate(
                &BatchJob {
                    batch: &twin.batch(),
                    tables: &twin.tables(),
                    params: &twin.params,
                    draws: &twin.edges.draws,
                },
                &mut HandwrittenLoss::softmax(),
                5,
            )
            .expect("an evaluation");
        assert_eq!(stats.auc, expected);
    }
}

#[test]
fn a_loss_that_is_not_finite_leaves_everything_as_it_was() {
    let mut twin = Twin::new(
        spec(true, false, Operator::Affine, Comparator::Dot),
        false,
        8,
    );
    let hit = twin.edges.sides[0][5] as usize;
    twin.tables[0].embeddings.get_mut()[hit * 6] = f32::INFINITY;
    let before: Vec<_> = twin.tables.iter().map(rows_of).collect();
    let parameters: Vec<_> = twin.params.tensors().iter().map(|t| t.to_vec()).collect();
    let mut worker = StepWorker::new(Arc::new(twin.model.spec.clone()))
        .expect("a worker")
        .with_execution(Execution {
            slice_bytes: 1,
            ..Execution::default()
        });
    let error = worker.train(
        &BatchJob {
            batch: &twin.batch(),
            tables: &twin.tables(),
            params: &twin.params,
            draws: &twin.edges.draws,
        },
        &mut HandwrittenLoss::softmax(),
    );
    assert_eq!(error, Err(StepError::NonFinite("loss")));
    assert_eq!(before, twin.tables.iter().map(rows_of).collect::<Vec<_>>());
    assert_eq!(
        parameters,
        twin.params
            .tensors()
            .iter()
            .map(|t| t.to_vec())
            .collect::<Vec<_>>()
    );
    // The next batch is not affected by the sums of the failed one.
    twin.tables[0].embeddings.get_mut()[hit * 6] = 0.5;
    let fresh = Twin::new(
        spec(true, false, Operator::Affine, Comparator::Dot),
        false,
        8,
    );
    let mut healthy = fresh;
    healthy.tables[0].embeddings.get_mut()[hit * 6] = 0.5;
    let mut other = StepWorker::new(Arc::new(healthy.model.spec.clone()))
        .expect("a worker")
        .with_execution(Execution {
            slice_bytes: 1,
            ..Execution::default()
        });
    for (worker, twin) in [(&mut worker, &twin), (&mut other, &healthy)] {
        worker
            .train(
                &BatchJob {
                    batch: &twin.batch(),
                    tables: &twin.tables(),
                    params: &twin.params,
                    draws: &twin.edges.draws,
                },
                &mut HandwrittenLoss::softmax(),
            )
            .expect("a step");
    }
    let after = |twin: &Twin| twin.tables.iter().map(rows_of).collect::<Vec<_>>();
    assert_eq!(after(&twin), after(&healthy));
}

#[test]
fn batches_that_do_not_fit_are_refused() {
    let twin = Twin::new(
        spec(true, false, Operator::Diagonal, Comparator::Dot),
        false,
        9,
    );
    let mut worker = StepWorker::new(Arc::new(twin.model.spec.clone())).expect("a worker");
    let good = twin.batch();
    let bad = [
        Batch {
            lhs: &[100, 0, 0, 0, 0, 0, 0, 0],
            ..good
        },
        Batch {
            rhs: &good.rhs[..7],
            ..good
        },
        Batch {
            weight: Some(&[1.0]),
            ..good
        },
        Batch {
            relation: BatchRelations::One(0),
            ..good
        },
        Batch {
            relation: BatchRelations::PerEdge(&[3; 8]),
            ..good
        },
        Batch {
            lhs: &good.lhs[..2],
            rhs: &good.rhs[..2],
            ..good
        },
    ];
    for (i, batch) in bad.iter().enumerate() {
        let found = worker.train(
            &BatchJob {
                batch,
                tables: &twin.tables(),
                params: &twin.params,
                draws: &twin.edges.draws,
            },
            &mut HandwrittenLoss::softmax(),
        );
        assert!(matches!(found, Err(StepError::Batch(_))), "{i}: {found:?}");
    }
    let mut draws = twin.edges.draws.clone();
    draws.rhs[0] = 7;
    let found = worker.train(
        &BatchJob {
            batch: &good,
            tables: &twin.tables(),
            params: &twin.params,
            draws: &draws,
        },
        &mut HandwrittenLoss::softmax(),
    );
    assert!(matches!(found, Err(StepError::Batch(_))), "{found:?}");
}
