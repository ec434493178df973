//! The same random numbers twice: as a [`Model`] in double precision, and as tables and parameters.

use pbg_core::graph::Side;
use pbg_core::model::{Comparator, Operator, Optimizer, Regularizer};
use pbg_kernels::negatives::NegativeDraws;
use pbg_kernels::step::{Batch, BatchRelations, BatchTables};
use pbg_rows::params::Params;
use pbg_rows::spec::{EntitySpec, ModelSpec, RelationSpec};
use pbg_rows::table::{FeatureBags, Table};
use rand::RngExt;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::SeedableRng;

use crate::model::{Edges, Model};

/// Floats per embedding.
pub const DIMENSION: usize = 6;
const RELATIONS: usize = 3;
const ROWS: [usize; 2] = [9, 7];
const BATCH: usize = 8;

/// Returns the relations of a batch: those of its edges if relations are dynamic, and `one` if they are static.
pub fn relations_of<'a>(spec: &ModelSpec, per_edge: &'a [u32], one: u32) -> BatchRelations<'a> {
    match spec.is_dynamic() {
        true => BatchRelations::PerEdge(per_edge),
        false => BatchRelations::One(one),
    }
}

/// Returns a model with two entity types, or with one on both sides.
pub fn spec(dynamic: bool, shared: bool, operator: Operator, comparator: Comparator) -> ModelSpec {
    let entity = |name: &str| EntitySpec {
        name: name.to_owned(),
        dimension: DIMENSION,
        featurized: false,
        frozen: false,
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

/// Initial value of accumulators, so large that a step does not change it.
pub const ACCUMULATED: f32 = 1e8;

/// The same numbers twice: as a model in f64, and as tables and parameters.
pub struct Twin {
    /// The numbers as a model in double precision.
    pub model: Model,
    /// Tables: one if both sides share it.
    pub tables: Vec<Table>,
    /// Parameters.
    pub params: Params,
    /// A batch.
    pub edges: Edges,
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
    /// Creates random numbers of a model, and a batch of random edges.
    pub fn new(spec: ModelSpec, weighted: bool, seed: u64) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let rules = spec.relations[0].clone();
        let shared = rules.lhs == rules.rhs;
        let mut tables = Vec::new();
        let mut features = [None, None];
        for side in Side::BOTH.into_iter().take(if shared { 1 } else { 2 }) {
            let rows = ROWS[side as usize];
            let dimension = spec.entities[rules.entity(side)].dimension;
            let values = numbers(&mut rng, rows * dimension);
            let mut table = Table::with_optimizer(
                values,
                (Optimizer::RowAdagrad, vec![ACCUMULATED; rows]),
                dimension,
            );
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
        let params = params_with(&spec, ACCUMULATED, |count| numbers(&mut rng, count));
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

    /// Returns the table of `side`.
    pub fn table(&self, side: Side) -> &Table {
        &self.tables[if self.model.shared { 0 } else { side as usize }]
    }

    /// Returns the edges as a batch.
    pub fn batch(&self) -> Batch<'_> {
        let relations = &self.edges.relations;
        let [lhs, rhs] = &self.edges.sides;
        Batch {
            lhs,
            rhs,
            relation: relations_of(&self.model.spec, relations, relations[0]),
            weight: self.edges.weights.as_deref(),
        }
    }

    /// Returns the tables of both sides.
    pub fn tables(&self) -> BatchTables<'_> {
        BatchTables {
            lhs: self.table(Side::Lhs),
            rhs: self.table(Side::Rhs),
        }
    }
}

/// Returns the rows of a table in double precision.
pub fn rows_of(table: &Table) -> Vec<Vec<f64>> {
    let mut values = vec![0.0; table.embeddings.rows() * table.embeddings.width()];
    table.embeddings.read_rows(0, &mut values);
    values.chunks(table.embeddings.width()).map(wide).collect()
}

/// Returns parameters with the given numbers and accumulators; `numbers` returns as many as it is asked for.
pub fn params_with(
    spec: &ModelSpec,
    accumulated: f32,
    mut numbers: impl FnMut(usize) -> Vec<f32>,
) -> Params {
    let mut params = Params::new(spec, 0);
    let names: Vec<_> = params
        .tensors()
        .iter()
        .map(|t| (t.name.clone(), t.to_vec().len()))
        .collect();
    for (name, len) in names {
        params
            .set(&name, &numbers(len), Some(&vec![accumulated; len]))
            .expect("a parameter");
    }
    params
}

/// Returns the concatenated tensors of an operator, per relation.
pub fn packed(spec: &ModelSpec, params: &Params, side: Side) -> Vec<Vec<f64>> {
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

/// Returns the global embedding of an entity type; empty if there is none.
pub fn global(spec: &ModelSpec, params: &Params, entity: usize) -> Vec<f64> {
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
    if rng.random_bool(0.3) {
        let relation = model.spec.relation(relations[0]);
        draws.leave_out(&model.spec, relation, BATCH, |_, _, drawn| {
            // A loss need not be finite without negatives.
            rng.random_range(1..=drawn)
        });
    }
    let weights = weighted.then(|| (0..BATCH).map(|i| 0.25 + 0.5 * i as f32).collect());
    Edges {
        sides: edges,
        relations,
        weights,
        draws,
    }
}
