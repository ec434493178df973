//! Compares the gradients of one step with central differences of the reference loss, in the cases that PBG's vectors
//! do not cover: separate tables, entity types, features, other chunk sizes, many slices.

use std::sync::Arc;

use pbg_core::graph::Side;
use pbg_core::model::{Comparator, Operator, Regularizer};
use pbg_kernels::step::{BatchJob, Execution, StepWorker};
use pbg_reference::comparators::{comparators, random};
use pbg_reference::losses::{LossKind, native};
use pbg_reference::model::Model;
use pbg_reference::twin::{Twin, global, packed, rows_of, spec};
use pbg_rows::spec::ModelSpec;

/// Trains one step, and compares the change of every number with the slope of the reference loss.
pub(crate) fn check(name: &str, twin: &Twin, kind: LossKind, slice_bytes: usize) {
    let spec = Arc::new(twin.model.spec.clone());
    let mut worker = StepWorker::new(spec)
        .expect("a worker")
        .with_execution(Execution {
            slice_bytes,
            ..Execution::default()
        });
    let mut loss = native(kind);
    let stats = worker
        .train(
            &BatchJob {
                batch: &twin.batch(),
                tables: &twin.tables(),
                params: &twin.params,
                draws: &twin.edges.draws,
            },
            loss.as_mut(),
        )
        .unwrap_or_else(|error| panic!("{name}: {error}"));
    let close = |what: &str, found: f64, expected: f64| {
        assert!(
            (found - expected).abs() <= 2e-4 * (1.0 + expected.abs()),
            "{name}: {what}: {found}, not {expected}"
        );
    };
    close(
        "loss",
        stats.loss() + stats.loss_relations + stats.reg,
        twin.model.loss(&twin.edges, kind),
    );
    let slope = |change: &dyn Fn(&mut Model, f64)| {
        const STEP: f64 = 1e-5;
        let moved = |by: f64| {
            let mut model = twin.model.clone();
            change(&mut model, by);
            model.loss(&twin.edges, kind)
        };
        (moved(STEP) - moved(-STEP)) / (2.0 * STEP)
    };
    for (t, table) in twin.tables.iter().enumerate() {
        for (r, row) in rows_of(table).iter().enumerate() {
            for (d, &after) in row.iter().enumerate() {
                let moved = twin.model.tables[t][r][d] - after;
                close(
                    &format!("table {t}[{r}][{d}]"),
                    moved,
                    slope(&|m, by| m.tables[t][r][d] += by),
                );
            }
        }
    }
    for side in Side::BOTH {
        let after = packed(&twin.model.spec, &twin.params, side);
        for (r, row) in after.iter().enumerate() {
            for (i, &after) in row.iter().enumerate() {
                let s = side as usize;
                let moved = twin.model.operators[s][r][i] - after;
                close(
                    &format!("operator {side:?}[{r}][{i}]"),
                    moved,
                    slope(&|m, by| m.operators[s][r][i] += by),
                );
            }
        }
    }
    for entity in 0..twin.model.globals.len() {
        for (d, &after) in global(&twin.model.spec, &twin.params, entity)
            .iter()
            .enumerate()
        {
            let moved = twin.model.globals[entity][d] - after;
            close(
                &format!("global {entity}[{d}]"),
                moved,
                slope(&|m, by| m.globals[entity][d] += by),
            );
        }
    }
}

#[test]
fn every_operator_comparator_and_bias() {
    for operator in Operator::BUILT_IN {
        for comparator in comparators() {
            for (dynamic, bias) in [(false, false), (false, true), (true, false), (true, true)] {
                let spec = ModelSpec {
                    bias,
                    ..spec(dynamic, false, operator, comparator)
                };
                let name = format!("{operator:?} {comparator:?} dynamic {dynamic} bias {bias}");
                check(&name, &Twin::new(spec, true, 1), LossKind::Softmax, 1 << 20);
            }
        }
    }
}

/// Formulas that nobody thought of, for candidates of each side.
#[test]
fn random_comparators() {
    for seed in 0..100 {
        let comparator = random(seed);
        for dynamic in [false, true] {
            let spec = ModelSpec {
                bias: seed % 3 == 0,
                ..spec(dynamic, seed % 2 == 0, Operator::Translation, comparator)
            };
            let definition = comparator
                .formula()
                .map(|formula| formula.formula().definition());
            let name = format!("{definition:?} dynamic {dynamic}");
            let twin = Twin::new(spec, false, seed);
            check(&name, &twin, LossKind::Softmax, 1 << 20);
        }
    }
}

#[test]
fn every_loss_on_one_table_for_both_sides() {
    for kind in [
        LossKind::Ranking(0.3),
        LossKind::Logistic,
        LossKind::Softmax,
    ] {
        for dynamic in [false, true] {
            let spec = spec(dynamic, true, Operator::ComplexDiagonal, Comparator::Dot);
            check(
                &format!("{kind:?} dynamic {dynamic}"),
                &Twin::new(spec, false, 2),
                kind,
                1,
            );
        }
    }
}

#[test]
fn every_kind_of_negatives_in_slices() {
    for dynamic in [false, true] {
        for comparator in comparators() {
            let base = spec(dynamic, false, Operator::Translation, comparator);
            let mut all = base.clone();
            all.relations.iter_mut().for_each(|r| r.all_negs = true);
            let cases = [
                (
                    "batch only",
                    ModelSpec {
                        num_uniform_negs: 0,
                        ..base.clone()
                    },
                ),
                (
                    "uniform only",
                    ModelSpec {
                        num_batch_negs: 0,
                        num_uniform_negs: 3,
                        ..base.clone()
                    },
                ),
                (
                    "other chunks",
                    ModelSpec {
                        chunk_size: Some(5),
                        ..base.clone()
                    },
                ),
                (
                    "uniform in other chunks",
                    ModelSpec {
                        num_batch_negs: 0,
                        chunk_size: Some(5),
                        ..base.clone()
                    },
                ),
                (
                    "no left ones",
                    ModelSpec {
                        disable_lhs_negs: true,
                        ..base.clone()
                    },
                ),
                (
                    "no right ones",
                    ModelSpec {
                        disable_rhs_negs: true,
                        ..base.clone()
                    },
                ),
                (
                    "all with a bias",
                    ModelSpec {
                        bias: true,
                        ..all.clone()
                    },
                ),
                (
                    "all but left ones",
                    ModelSpec {
                        disable_lhs_negs: true,
                        ..all.clone()
                    },
                ),
                ("all", all),
            ];
            for (name, spec) in cases {
                let name = format!("{name} {comparator:?} dynamic {dynamic}");
                for kind in [LossKind::Logistic, LossKind::Softmax] {
                    check(&name, &Twin::new(spec.clone(), false, 3), kind, 1);
                }
            }
        }
    }
}

/// Returns every regularizer with every comparator for which it is defined.
fn regularized() -> impl Iterator<Item = (Regularizer, Comparator)> {
    let with_all = |regularizer| comparators().map(move |comparator| (regularizer, comparator));
    Regularizer::ALL
        .into_iter()
        .flat_map(with_all)
        .filter(|&(regularizer, comparator)| {
            regularizer == Regularizer::N3 || comparator != Comparator::Cos
        })
}

#[test]
fn regularizers_with_every_operator_they_are_defined_for() {
    for operator in Operator::BUILT_IN {
        let defined = |&(regularizer, _): &(Regularizer, Comparator)| {
            regularizer == Regularizer::Dura || !operator.is_matrix()
        };
        for (regularizer, comparator) in regularized().filter(defined) {
            for (dynamic, bias) in [(false, false), (false, true), (true, false), (true, true)] {
                let spec = ModelSpec {
                    regularizer,
                    regularization_coef: 0.05,
                    bias,
                    ..spec(dynamic, false, operator, comparator)
                };
                let name = format!(
                    "{regularizer:?} {operator:?} {comparator:?} dynamic {dynamic} bias {bias}"
                );
                check(&name, &Twin::new(spec, false, 4), LossKind::Logistic, 1);
            }
        }
    }
}

#[test]
fn global_embeddings_and_features() {
    for operator in Operator::BUILT_IN {
        for shared in [false, true] {
            for comparator in [Comparator::Dot, Comparator::Cos] {
                let spec = ModelSpec {
                    global_emb: true,
                    ..spec(false, shared, operator, comparator)
                };
                let name = format!("global {operator:?} {comparator:?} shared {shared}");
                check(&name, &Twin::new(spec, true, 5), LossKind::Softmax, 1);
            }
        }
        for (dynamic, featurized) in [(false, 0), (false, 1), (true, 0), (true, 1)] {
            let mut spec = spec(dynamic, false, operator, Comparator::Cos);
            spec.entities[featurized].featurized = true;
            let name = format!("features {operator:?} dynamic {dynamic} type {featurized}");
            check(&name, &Twin::new(spec, false, 6), LossKind::Softmax, 1);
        }
    }
}
