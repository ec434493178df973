//! Scores of queries against many candidates: what evaluation, neighbours and scoring are made of.
//!
//! A *query* is the known side of an edge as it enters the comparison, a *candidate* is an entity that
//! might be the other side. With dynamic relations the query went through the operator and candidates
//! are compared as they are; with static relations the operator belongs to the right side, whichever
//! role that has.

use std::ops::Range;

use pbg_core::config::Operator;
use pbg_core::graph::Side;

use crate::comparators::{Comparison, RowExtras};
use crate::matmul::{Block, Factor, product};
use crate::operators;
use crate::params::Params;
use crate::rows::TensorBuffer;
use crate::spec::ModelSpec;
use crate::step::StepError;
use crate::table::Table;
use crate::vector;

/// Scores that differ by less than this share of the positive's are ties: the same product may be
/// rounded differently at different places of a matrix.
const TIE: f32 = 1e-6;

/// The operator that rows go through.
#[derive(Clone, Copy, Debug)]
pub struct Transform<'a> {
    /// Relation of each row; one for all if it has length 1.
    pub relations: &'a [u32],
    /// Which of the relation's operators.
    pub side: Side,
}

/// Rows ready for comparison.
#[derive(Debug)]
pub struct Prepared {
    values: Vec<f32>,
    extras: Vec<RowExtras>,
    dimension: usize,
}

impl Prepared {
    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.extras.len()
    }

    /// Whether there is no row.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.extras.is_empty()
    }

    fn row(&self, row: usize) -> &[f32] {
        &self.values[row * self.dimension..(row + 1) * self.dimension]
    }
}

/// A model's side of ranking: prepares rows and scores them.
#[derive(Clone, Copy, Debug)]
pub struct Ranker<'a> {
    spec: &'a ModelSpec,
    params: &'a Params,
}

impl<'a> Ranker<'a> {
    /// A ranker for a model.
    #[must_use]
    pub fn new(spec: &'a ModelSpec, params: &'a Params) -> Self {
        Self { spec, params }
    }

    fn comparison(&self) -> Comparison {
        Comparison {
            comparator: self.spec.comparator,
            bias: self.spec.bias,
        }
    }

    /// The transform of the known side's rows, one per edge, when `replaced` is the other side.
    #[must_use]
    pub fn query_transform<'r>(
        &self,
        replaced: Side,
        relations: &'r [u32],
    ) -> Option<Transform<'r>> {
        let known = replaced.other();
        (self.spec.is_dynamic() || known == Side::Rhs).then_some(Transform {
            relations,
            side: known,
        })
    }

    /// The transform of all candidates, when they replace `replaced` of edges with this relation.
    #[must_use]
    pub fn candidate_transform<'r>(
        &self,
        replaced: Side,
        relation: &'r u32,
    ) -> Option<Transform<'r>> {
        let transformed = !self.spec.is_dynamic()
            && replaced == Side::Rhs
            && self.spec.relation(*relation).operator != Operator::None;
        transformed.then_some(Transform {
            relations: std::slice::from_ref(relation),
            side: Side::Rhs,
        })
    }

    /// Prepares `rows`, `[n, dimension]`, raw embeddings of entities of type `entity`.
    ///
    /// # Errors
    /// When libtorch cannot allocate, or a relation does not exist.
    pub fn prepare(
        &self,
        rows: &[f32],
        entity: usize,
        transform: Option<Transform<'_>>,
    ) -> Result<Prepared, StepError> {
        let dimension = self.spec.entities[entity].dimension;
        let mut prepared = Prepared {
            values: vec![0.0; rows.len()],
            extras: Vec::with_capacity(rows.len() / dimension),
            dimension,
        };
        let global = self.global(entity);
        let mut operator = Applied::new(self, transform, dimension)?;
        let mut input = vec![0.0; dimension];
        let outputs = prepared.values.chunks_exact_mut(dimension);
        for (index, (raw, out)) in rows.chunks_exact(dimension).zip(outputs).enumerate() {
            input.copy_from_slice(raw);
            if let Some(max_norm) = self.spec.max_norm {
                renorm(&mut input, max_norm);
            }
            if let Some(global) = &global {
                vector::add(&mut input, global);
            }
            operator.apply(index, &input, out)?;
            prepared.extras.push(self.comparison().prepare(out));
        }
        Ok(prepared)
    }

    fn global(&self, entity: usize) -> Option<Vec<f32>> {
        self.spec.global_emb.then(|| {
            self.params
                .global(entity)
                .map(crate::params::ParamTensor::to_vec)
        })?
    }

    /// Scores of pairs: row `i` of `queries` with row `i` of `candidates`.
    #[must_use]
    pub fn score_pairs(&self, queries: &Prepared, candidates: &Prepared) -> Vec<f32> {
        let pairs = 0..queries.len().min(candidates.len());
        pairs
            .map(|i| {
                let (q, k) = (queries.extras[i], candidates.extras[i]);
                self.comparison()
                    .score(queries.row(i), q, candidates.row(i), k)
                    .0
            })
            .collect()
    }

    /// Puts the candidates `columns` into `block`, to be scored with any number of queries.
    ///
    /// # Errors
    /// When libtorch cannot allocate.
    pub fn load_candidates(
        &self,
        candidates: &Prepared,
        columns: Range<usize>,
        block: &mut ScoreBlock,
    ) -> Result<(), StepError> {
        let dimension = candidates.dimension;
        let floats = columns.start * dimension..columns.end * dimension;
        fill(&mut block.candidates, &candidates.values[floats])?;
        block.extras.clear();
        block.extras.extend_from_slice(&candidates.extras[columns]);
        Ok(())
    }

    /// Scores of the queries `rows` with every candidate in `block`, `[rows, candidates]`.
    ///
    /// # Errors
    /// When libtorch fails.
    pub fn score_block<'b>(
        &self,
        queries: &Prepared,
        rows: Range<usize>,
        block: &'b mut ScoreBlock,
    ) -> Result<&'b [f32], StepError> {
        let (n, m, dimension) = (rows.len(), block.extras.len(), queries.dimension);
        fill(
            &mut block.queries,
            &queries.values[rows.start * dimension..rows.end * dimension],
        )?;
        if block.scores.len() < n * m {
            block.scores = TensorBuffer::zeros(n * m)?;
        }
        product(
            &mut block.scores,
            Block::one(0, n, m),
            Factor::plain(&block.queries, Block::one(0, n, dimension)),
            Factor::transposed(&block.candidates, Block::one(0, m, dimension)),
            false,
        )?;
        let comparison = self.comparison();
        if comparison.has_epilogue() {
            block.distances.resize(m, 0.0);
            let scores = block.scores.as_mut_slice()[..n * m].chunks_exact_mut(m);
            for (scores, &query) in scores.zip(&queries.extras[rows]) {
                comparison.finish_scores(scores, query, &block.extras, &mut block.distances);
            }
        }
        Ok(&block.scores.as_slice()[..n * m])
    }
}

/// Copies `values` to the beginning of `buffer`, which grows if it must.
fn fill(buffer: &mut TensorBuffer, values: &[f32]) -> Result<(), StepError> {
    if buffer.len() < values.len() {
        *buffer = TensorBuffer::zeros(values.len())?;
    }
    buffer.as_mut_slice()[..values.len()].copy_from_slice(values);
    Ok(())
}

/// Memory of one thread for a block of candidates, queries and their scores, used again.
///
/// Prepared rows are shared by threads, tensors are not, so every thread copies what it multiplies.
#[derive(Debug)]
pub struct ScoreBlock {
    queries: TensorBuffer,
    candidates: TensorBuffer,
    extras: Vec<RowExtras>,
    scores: TensorBuffer,
    distances: Vec<f32>,
}

impl ScoreBlock {
    /// An empty block.
    ///
    /// # Errors
    /// When libtorch cannot allocate.
    pub fn new() -> Result<Self, StepError> {
        Ok(Self {
            queries: TensorBuffer::zeros(0)?,
            candidates: TensorBuffer::zeros(0)?,
            extras: Vec::new(),
            scores: TensorBuffer::zeros(0)?,
            distances: Vec::new(),
        })
    }
}

/// How many scores lie above a positive's, and how many are ties with it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Strictly above.
    pub above: u64,
    /// Equal up to rounding.
    pub equal: u64,
}

impl Standing {
    /// Where `positive` stands among `scores`.
    #[must_use]
    pub fn among(positive: f32, scores: &[f32]) -> Self {
        let margin = positive.abs() * TIE;
        let above = u64::from(vector::count_above(scores, positive + margin));
        let from = u64::from(vector::count_above(scores, (positive - margin).next_down()));
        Self {
            above,
            equal: from - above,
        }
    }

    /// Adds the standing among other candidates.
    pub fn add(&mut self, other: Self) {
        self.above += other.above;
        self.equal += other.equal;
    }

    /// Takes out candidates that were counted and should not be.
    pub fn remove(&mut self, other: Self) {
        self.above = self.above.saturating_sub(other.above);
        self.equal = self.equal.saturating_sub(other.equal);
    }

    /// The rank, from 1: ties share the average of the ranks they occupy.
    #[must_use]
    pub fn rank(self) -> f64 {
        1.0 + self.above as f64 + self.equal as f64 / 2.0
    }
}

/// Raw embeddings of the entities `offsets` of a table, `[n, dimension]`; means of features for a
/// featurized type.
#[must_use]
pub fn gather(table: &Table, offsets: &[u32]) -> Vec<f32> {
    let width = table.embeddings.width();
    let mut rows = vec![0.0; offsets.len() * width];
    let mut feature = vec![0.0; width];
    for (&offset, out) in offsets.iter().zip(rows.chunks_exact_mut(width)) {
        match &table.features {
            None => table.embeddings.read_row(offset as usize, out),
            Some(features) => {
                let ids = features.of(offset);
                for &id in ids {
                    table.embeddings.read_row(id as usize, &mut feature);
                    vector::axpy(out, 1.0 / ids.len() as f32, &feature);
                }
            }
        }
    }
    rows
}

fn renorm(row: &mut [f32], max_norm: f32) {
    let norm = vector::dot(row, row).sqrt();
    if norm > max_norm {
        vector::scale(row, max_norm / norm);
    }
}

/// An operator with the parameters of the relation it was last applied for.
struct Applied<'a> {
    ranker: &'a Ranker<'a>,
    transform: Option<Transform<'a>>,
    packed: Vec<f32>,
    operator: Operator,
    current: Option<u32>,
    dimension: usize,
}

impl<'a> Applied<'a> {
    fn new(
        ranker: &'a Ranker<'a>,
        transform: Option<Transform<'a>>,
        dimension: usize,
    ) -> Result<Self, StepError> {
        if let Some(transform) = transform {
            crate::batch::check_below(
                "relation",
                transform.relations,
                ranker.spec.relation_count(),
            )?;
        }
        let operator = Operator::None;
        Ok(Self {
            ranker,
            transform,
            packed: Vec::new(),
            operator,
            current: None,
            dimension,
        })
    }

    fn apply(&mut self, row: usize, x: &[f32], y: &mut [f32]) -> Result<(), StepError> {
        let Some(transform) = self.transform else {
            y.copy_from_slice(x);
            return Ok(());
        };
        let relations = transform.relations;
        let relation = match relations {
            [only] => *only,
            _ => *relations
                .get(row)
                .ok_or_else(|| StepError::Batch("fewer relations than rows".to_owned()))?,
        };
        if self.current != Some(relation) {
            self.load(relation, transform.side);
        }
        operators::forward(self.operator, &self.packed, x, y);
        Ok(())
    }

    fn load(&mut self, relation: u32, side: Side) {
        let spec = self.ranker.spec;
        // Dynamic relations are rows of one template's tensors, static ones have tensors of their own.
        let (index, row) = if spec.is_dynamic() {
            (0, relation as usize)
        } else {
            (relation as usize, 0)
        };
        self.operator = spec.relations[index].operator;
        self.packed
            .resize(operators::packed_width(self.operator, self.dimension), 0.0);
        operators::read_packed(
            self.ranker.params.operator(index, side),
            row,
            &mut self.packed,
        );
        self.current = Some(relation);
    }
}
