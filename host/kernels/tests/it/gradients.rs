//! Compares the gradients of one step with central differences of the reference loss, in the cases that PBG's vectors
//! do not cover: separate tables, entity types, features, other chunk sizes, many slices.

use std::sync::Arc;

use pbg_core::graph::Side;
use pbg_core::model::{Comparator, Operator, Regularizer};
use pbg_core::strategy::LossWorker;
use pbg_kernels::losses::handwritten::{
    HandwrittenLogistic, HandwrittenRanking, HandwrittenSoftmax,
};
use pbg_kernels::negatives::NegativeDraws;
use pbg_kernels::step::{Batch, BatchJob, BatchRelations, BatchTables, StepWorker};
use pbg_rows::params::Params;
use pbg_rows::spec::{EntitySpec, ModelSpec, RelationSpec};
use pbg_rows::table::{FeatureBags, Table};
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use crate::reference::{Edges, LossKind, Model};

pub(crate) const DIMENSION: usize = 6;
const RELATIONS: usize = 3;
const ROWS: [usize; 2] = [9, 7];
const BATCH: usize = 8;

pub(crate) fn native(kind: LossKind) -> Box<dyn LossWorker> {
    match kind {
        LossKind::Ranking(margin) => Box::new(HandwrittenRanking::new(margin as f32)),
        LossKind::Logistic => Box::new(HandwrittenLogistic::new()),
        LossKind::Softmax => Box::new(HandwrittenSoftmax::new()),
    }
}

/// Returns the relations of a batch: those of its edges if relations are dynamic, and `one` if they are static.
pub(crate) fn relations_of<'a>(
    spec: &ModelSpec,
    per_edge: &'a [u32],
    one: u32,
) -> BatchRelations<'a> {
    match spec.is_dynamic() {
        true => BatchRelations::PerEdge(per_edge),
        false => BatchRelations::One(one),
    }
}

/// Returns a model with two entity types, or with one on both sides.
pub(crate) fn spec(
    dynamic: bool,
    shared: bool,
    operator: Operator,
    comparator: Comparator,
) -> ModelSpec {
    let entity = |name: &str| EntitySpec {
        name: name.to_owned(),
        dimension: DIMENSION,
        featurized: false,
    };
    let relation = RelationSpec {
        lhs: 0,
        rhs: usize::from(!shared),
        operator,
        weight: 1.5,
        all_negs: false,
    };
    ModelSpec {
        entities: vec![entity("left"), entity("right")],
        relations: vec![relation; if dynamic { 1 } else { RELATIONS }],
        dynamic_relations: dynamic.then_some(RELATIONS),
        comparator,
        bias: false,
        global_emb: false,
        max_norm: None,
        operator_init_scale: None,
        regularizer: Regularizer::N3,
        regularization_coef: 0.0,
        relation_prediction: 0.0,
        // With accumulators of 1e8 a step changes every number by exactly its gradient.
        lr: 1e4,
        relation_lr: 1e4,
        num_batch_negs: 3,
        num_uniform_negs: 2,
        chunk_size: None,
        disable_lhs_negs: false,
        disable_rhs_negs: false,
    }
}

pub(crate) const ACCUMULATED: f32 = 1e8;

/// The same numbers twice: as a model in f64, and as tables and parameters.
pub(crate) struct Twin {
    pub(crate) model: Model,
    pub(crate) tables: Vec<Table>,
    pub(crate) params: Params,
    pub(crate) edges: Edges,
}

fn numbers(rng: &mut Xoshiro256PlusPlus, count: usize) -> Vec<f32> {
    (0..count)
        .map(|_| rng.random::<f32>() * 1.6 - 0.8)
        .collect()
}

fn wide(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&x| f64::from(x)).collect()
}

fn random_features(rng: &mut Xoshiro256PlusPlus, rows: usize) -> Vec<Vec<u32>> {
    (0..5)
        .map(|_| {
            (0..rng.random_range(1..4))
                .map(|_| rng.random_range(0..rows as u32))
                .collect()
        })
        .collect()
}

impl Twin {
    pub(crate) fn new(spec: ModelSpec, weighted: bool, seed: u64) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let rules = spec.relations[0].clone();
        let shared = rules.lhs == rules.rhs;
        let mut tables = Vec::new();
        let mut features = [None, None];
        for side in Side::BOTH.into_iter().take(if shared { 1 } else { 2 }) {
            let rows = ROWS[side as usize];
            let dimension = spec.entities[rules.entity(side)].dimension;
            let values = numbers(&mut rng, rows * dimension);
            let mut table = Table::with_state(values, vec![ACCUMULATED; rows], dimension);
            if spec.entities[rules.entity(side)].featurized {
                let bags = random_features(&mut rng, rows);
                let ends = bags.iter().scan(0, |end, bag| {
                    *end += bag.len() as u64;
                    Some(*end)
                });
                let offsets = std::iter::once(0).chain(ends).collect();
                table.features =
                    Some(FeatureBags::new(offsets, bags.concat(), rows).expect("features"));
                features[side as usize] = Some(bags);
            }
            tables.push(table);
        }
        let params = random_params(&spec, &mut rng);
        let model = Model {
            tables: std::array::from_fn(|i| tables.get(i).map(rows_of).unwrap_or_default()),
            shared,
            features,
            operators: Side::BOTH.map(|side| packed(&spec, &params, side)),
            globals: (0..spec.entities.len())
                .map(|e| global(&spec, &params, e))
                .collect(),
            spec,
        };
        let edges = random_edges(&model, weighted, &mut rng);
        Self {
            model,
            tables,
            params,
            edges,
        }
    }

    pub(crate) fn table(&self, side: Side) -> &Table {
        &self.tables[if self.model.shared { 0 } else { side as usize }]
    }

    pub(crate) fn batch(&self) -> Batch<'_> {
        let relations = &self.edges.relations;
        let [lhs, rhs] = &self.edges.sides;
        Batch {
            lhs,
            rhs,
            relation: relations_of(&self.model.spec, relations, relations[0]),
            weight: self.edges.weights.as_deref(),
        }
    }

    pub(crate) fn tables(&self) -> BatchTables<'_> {
        BatchTables {
            lhs: self.table(Side::Lhs),
            rhs: self.table(Side::Rhs),
        }
    }
}

pub(crate) fn rows_of(table: &Table) -> Vec<Vec<f64>> {
    let mut values = vec![0.0; table.embeddings.rows() * table.embeddings.width()];
    table.embeddings.read_rows(0, &mut values);
    values.chunks(table.embeddings.width()).map(wide).collect()
}

fn random_params(spec: &ModelSpec, rng: &mut Xoshiro256PlusPlus) -> Params {
    let mut params = Params::new(spec, 0);
    let names: Vec<_> = params
        .tensors()
        .iter()
        .map(|t| (t.name.clone(), t.to_vec().len()))
        .collect();
    for (name, len) in names {
        params
            .set(&name, &numbers(rng, len), Some(&vec![ACCUMULATED; len]))
            .expect("a parameter");
    }
    params
}

/// Returns the concatenated tensors of an operator, per relation.
fn packed(spec: &ModelSpec, params: &Params, side: Side) -> Vec<Vec<f64>> {
    let side = if side == Side::Lhs { "lhs" } else { "rhs" };
    let mut rows = vec![Vec::new(); RELATIONS];
    for (relation, row) in rows.iter_mut().enumerate() {
        let index = if spec.is_dynamic() { 0 } else { relation };
        let prefix = format!("relations/{index}/operator/{side}/");
        for tensor in params
            .tensors()
            .iter()
            .filter(|t| t.name.starts_with(&prefix))
        {
            let (values, width) = (tensor.to_vec(), tensor.values.width());
            let at = if spec.is_dynamic() { relation } else { 0 };
            row.extend(wide(&values[at * width..(at + 1) * width]));
        }
    }
    rows
}

fn global(spec: &ModelSpec, params: &Params, entity: usize) -> Vec<f64> {
    let name = format!("entities/{}/global_embedding", spec.entities[entity].name);
    params
        .tensor(&name)
        .map(|t| wide(&t.to_vec()))
        .unwrap_or_default()
}

fn random_edges(model: &Model, weighted: bool, rng: &mut Xoshiro256PlusPlus) -> Edges {
    let sides = Side::BOTH.map(|side| model.entities(side));
    let mut ids = |limit: usize, n: usize| {
        (0..n)
            .map(|_| rng.random_range(0..limit as u32))
            .collect::<Vec<_>>()
    };
    let relations = if model.spec.is_dynamic() {
        ids(RELATIONS, BATCH)
    } else {
        vec![1; BATCH]
    };
    let edges = [ids(sides[0], BATCH), ids(sides[1], BATCH)];
    let mut draws = NegativeDraws::default();
    draws.draw(
        &model.spec,
        model.spec.relation(relations[0]),
        BATCH,
        sides,
        rng,
    );
    let weights = weighted.then(|| (0..BATCH).map(|i| 0.25 + 0.5 * i as f32).collect());
    Edges {
        sides: edges,
        relations,
        weights,
        draws,
    }
}

/// Trains one step, and compares the change of every number with the slope of the reference loss.
pub(crate) fn check(name: &str, twin: &Twin, kind: LossKind, slice_bytes: usize) {
    let spec = Arc::new(twin.model.spec.clone());
    let mut worker = StepWorker::new(spec)
        .expect("a worker")
        .with_slice_bytes(slice_bytes);
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
        for comparator in Comparator::ALL {
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
        for comparator in Comparator::ALL {
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
    let with_all = |regularizer| Comparator::ALL.map(|comparator| (regularizer, comparator));
    Regularizer::ALL
        .into_iter()
        .flat_map(with_all)
        .filter(|&pair| pair != (Regularizer::N3Embeddings, Comparator::Cos))
}

#[test]
fn n3_with_every_operator_it_is_defined_for() {
    for operator in [
        Operator::None,
        Operator::Diagonal,
        Operator::Translation,
        Operator::ComplexDiagonal,
    ] {
        for (regularizer, comparator) in regularized() {
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
