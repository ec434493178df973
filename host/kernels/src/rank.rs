//! Scores of one side against many entities, for evaluation, nearest neighbours and scores of triples.
//!
//! A query is the prepared known side of an edge, transformed by its relation; candidates are entities that may replace
//! the other side. Candidates are prepared in blocks, and all queries are compared with a block before the next one. So
//! a block is read and transformed once, and every score is used while it is in the cache.

mod kernel;
mod operands;
mod points;
mod prepare;

use std::ops::Range;
use std::sync::Arc;

use pbg_core::graph::Side;
use pbg_rows::params::Params;
use pbg_rows::spec::{ModelSpec, SpecError};
use pbg_rows::table::Table;
use pbg_rows::vector;

use crate::batch::BatchRelations;
use crate::operators;
use crate::operators::formula::pairs::{PairEvaluator, QueryPairs};
use crate::subnormal::SubnormalMode;

pub use operands::{CandidateBlock, PreparedQueries};
pub use points::PointSpace;
pub use prepare::ReplacedSide;
use prepare::{PreparationSteps, Preparer};

/// Number of queries whose scores against a block are computed at once: queries and scores share the second-level
/// cache.
const QUERIES_AT_ONCE: usize = 16 * kernel::GROUP;

/// Recommended number of candidates per block, which suits the caches.
pub const CANDIDATE_BLOCK: usize = 512;

/// Numbers of candidates that score at least as high as a positive.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RankCounts {
    /// Candidates that score above the positive.
    pub above: u32,
    /// Other candidates that score the same.
    pub equal: u32,
}

impl RankCounts {
    /// Ranks `positive` among `scores`, the result of [`Ranker::scores`].
    #[must_use]
    pub fn count(positive: f32, scores: &[f32]) -> Self {
        let (above, equal) = vector::count_above_equal(scores, positive, 0.0);
        Self { above, equal }
    }

    /// Returns the rank of the positive; ties count as their average.
    #[must_use]
    pub fn rank(&self) -> f64 {
        1.0 + f64::from(self.above) + f64::from(self.equal) / 2.0
    }
}

impl std::ops::AddAssign for RankCounts {
    fn add_assign(&mut self, other: Self) {
        self.above += other.above;
        self.equal += other.equal;
    }
}

/// Returns the bytes that the formulas of a model's operators take in each [`Ranker`].
#[must_use]
pub fn formula_bytes(spec: &ModelSpec) -> usize {
    operators::formula::worker_bytes(spec)
}

/// Computes the scores of queries, each with the side of its candidates, with all candidates: `[queries, candidates]`. A
/// tile of candidates is compared with all queries before the next one.
fn pair_scores(
    evaluator: &mut PairEvaluator,
    (queries, sides): (&[f32], &[Side]),
    candidates: &[f32],
    scores: &mut [f32],
) {
    let columns = scores.len() / sides.len().max(1);
    let dimension = candidates.len() / columns.max(1);
    let at_once = PairEvaluator::rows_at_once(dimension);
    for (index, tile) in candidates.chunks(at_once * dimension).enumerate() {
        let first = index * at_once;
        let rows = queries.chunks_exact(dimension).zip(sides).enumerate();
        for (row, (query, &side)) in rows {
            let scores = &mut scores[row * columns + first..][..tile.len() / dimension];
            let pairs = QueryPairs {
                side,
                query,
                candidates: tile,
            };
            evaluator.scores(pairs, scores);
        }
    }
}

/// Prepares queries and candidates and compares them. Each thread needs one, since it has buffers.
#[derive(Debug)]
pub struct Ranker {
    preparer: Preparer,
    rows: Vec<f32>,
    scores: Vec<f32>,
    distances: Vec<f32>,
}

impl Ranker {
    /// Creates a ranker for `spec`.
    ///
    /// # Errors
    /// When the specification breaks a rule.
    pub fn new(spec: Arc<ModelSpec>) -> Result<Self, SpecError> {
        spec.validate()?;
        let [rows, scores, distances] = Default::default();
        Ok(Self {
            preparer: Preparer::new(spec),
            rows,
            scores,
            distances,
        })
    }

    /// Returns whether candidates that replace `side` pass through the relation's operator, so that they must be
    /// prepared anew for every relation: only with static relations, and only those of the right side unless it is an
    /// operator of both sides.
    #[must_use]
    pub fn candidates_depend_on_relation(&self, side: Side, relation: u32) -> bool {
        self.preparer
            .spec
            .candidates_depend_on_relation(side, relation)
    }

    /// Prepares a query for each entity of `known`, an offset in `table`, the partition of the side that is not
    /// replaced.
    ///
    /// [`BatchRelations::PerEdge`] gives a relation for each query; this works with static relations too, if all of
    /// them have the same entity types.
    ///
    /// # Panics
    /// If an offset or a relation does not exist, or the columns have different lengths.
    pub fn queries(
        &mut self,
        side: Side,
        known: &[u32],
        relations: BatchRelations<'_>,
        table: &Table,
        params: &Params,
        out: &mut PreparedQueries,
    ) {
        let _mode = SubnormalMode::flushing();
        let (preparer, dimension) = (&mut self.preparer, table.embeddings.width());
        (out.count, out.width) = (known.len(), dimension);
        out.extras.clear();
        out.values.clear();
        out.values.resize(known.len() * dimension, 0.0);
        let mut recipe: Option<(u32, PreparationSteps<'_>)> = None;
        for (i, (&entity, row)) in known
            .iter()
            .zip(out.values.chunks_exact_mut(dimension))
            .enumerate()
        {
            let relation = match relations {
                BatchRelations::One(relation) => relation,
                BatchRelations::PerEdge(relations) => relations[i],
            };
            if recipe.as_ref().is_none_or(|(of, _)| *of != relation) {
                let new = preparer.recipe(side.other(), false, relation, params, dimension);
                preparer.read_parameters(&new, relation);
                recipe = Some((relation, new));
            }
            if let Some((_, recipe)) = &recipe {
                out.extras.push(preparer.row(recipe, table, entity, row));
            }
        }
        out.sides.clear();
        if preparer.comparison.formula().is_some() {
            out.sides.resize(known.len(), side);
            out.interleaved.clone_from(&out.values);
            let padded = known.len().next_multiple_of(kernel::GROUP) * dimension;
            out.interleaved.resize(padded, 0.0);
            return;
        }
        kernel::interleave::<{ kernel::GROUP }>(&out.values, dimension, &mut out.interleaved);
    }

    /// Prepares the entities `entities` of `table`, the partition of the replaced side, as candidates.
    ///
    /// # Panics
    /// If an entity or the relation does not exist.
    pub fn candidates(
        &mut self,
        replacement: ReplacedSide<'_>,
        entities: Range<usize>,
        table: &Table,
        out: &mut CandidateBlock,
    ) {
        let _mode = SubnormalMode::flushing();
        let dimension = table.embeddings.width();
        (out.first, out.count) = (entities.start, entities.len());
        self.rows.resize(entities.len() * dimension, 0.0);
        self.preparer.prepare_candidates(
            replacement,
            entities.map(|e| e as u32),
            table,
            &mut self.rows,
            &mut out.extras,
        );
        if self.preparer.comparison.formula().is_some() {
            out.panels.clone_from(&self.rows);
            return;
        }
        kernel::interleave::<{ kernel::PANEL }>(&self.rows, dimension, &mut out.panels);
    }

    /// Returns the entities `entities` of `table` as prepared for replacing a side, `[n, dimension]`.
    ///
    /// # Panics
    /// If an entity or the relation does not exist.
    pub fn prepared(
        &mut self,
        replacement: ReplacedSide<'_>,
        entities: &[u32],
        table: &Table,
    ) -> Vec<f32> {
        let _mode = SubnormalMode::flushing();
        let mut rows = vec![0.0; entities.len() * table.embeddings.width()];
        let entities = entities.iter().copied();
        self.preparer
            .prepare_candidates(replacement, entities, table, &mut rows, &mut Vec::new());
        rows
    }

    /// Returns the score of each query `i` with entity `entities[i]` of `table`: the same bits as [`Ranker::scores`] of
    /// a block that contains the entity.
    ///
    /// # Panics
    /// If an entity or the relation does not exist, or the numbers of entities and queries differ.
    pub fn pair_scores(
        &mut self,
        replacement: ReplacedSide<'_>,
        queries: &PreparedQueries,
        entities: &[u32],
        table: &Table,
    ) -> Vec<f32> {
        assert_eq!(queries.len(), entities.len(), "an entity for each query");
        let _mode = SubnormalMode::flushing();
        let dimension = table.embeddings.width();
        let mut rows = vec![0.0; entities.len() * dimension];
        let mut extras = Vec::new();
        self.preparer.prepare_candidates(
            replacement,
            entities.iter().copied(),
            table,
            &mut rows,
            &mut extras,
        );
        let mut scores = Vec::with_capacity(entities.len());
        for (i, candidate) in rows.chunks_exact(dimension).enumerate() {
            let query = &queries.values[i * dimension..(i + 1) * dimension];
            let mut score = [match self.preparer.comparison.formula() {
                None => kernel::pair(query, candidate),
                Some(formula) => {
                    let mut score = [0.0];
                    let pairs = QueryPairs {
                        side: replacement.side,
                        query,
                        candidates: candidate,
                    };
                    let evaluator = self.preparer.evaluators.pairs(formula);
                    evaluator.scores(pairs, &mut score);
                    score[0]
                }
            }];
            let (q, k) = (queries.extras[i], extras[i]);
            self.preparer
                .comparison
                .finish_scores(&mut score, q, &[k], &mut [0.0]);
            scores.push(score[0]);
        }
        scores
    }

    /// Returns the scores of the queries `range` with the candidates, `[queries, candidates]`.
    ///
    /// # Panics
    /// If the queries do not exist, or the range does not start at a multiple of [`PreparedQueries::GROUP`].
    pub fn scores(
        &mut self,
        queries: &PreparedQueries,
        range: Range<usize>,
        candidates: &CandidateBlock,
    ) -> &[f32] {
        assert_eq!(range.start % kernel::GROUP, 0, "queries are grouped");
        assert!(range.end <= queries.len(), "queries exist");
        let columns = candidates.count;
        if columns == 0 || range.is_empty() {
            return &[];
        }
        let _mode = SubnormalMode::flushing();
        let width = queries.width;
        let group = kernel::GROUP * width;
        let groups = range.start / kernel::GROUP..range.end.div_ceil(kernel::GROUP);
        let len = range.len() * columns;
        if self.scores.len() < len {
            self.scores.resize(len, 0.0);
        }
        let scores = &mut self.scores[..len];
        let interleaved = &queries.interleaved[groups.start * group..groups.end * group];
        let comparison = self.preparer.comparison;
        match comparison.formula() {
            None => kernel::products(interleaved, &candidates.panels, width, columns, scores),
            Some(formula) => {
                let evaluator = self.preparer.evaluators.pairs(formula);
                let sides = &queries.sides[range.clone()];
                pair_scores(evaluator, (interleaved, sides), &candidates.panels, scores);
            }
        }
        if comparison.has_epilogue() {
            self.distances.resize(columns, 0.0);
            for (row, extras) in scores.chunks_exact_mut(columns).zip(&queries.extras[range]) {
                comparison.finish_scores(row, *extras, &candidates.extras, &mut self.distances);
            }
        }
        scores
    }

    /// Returns the best number of queries per call of [`Ranker::scores`]; ranges should start at its multiples.
    #[must_use]
    pub fn query_step() -> usize {
        QUERIES_AT_ONCE
    }

    /// Adds to `counts[i]` the numbers of candidates whose score for query `i` is above, or equal to, `positives[i]`.
    ///
    /// `left_out(i)` returns the entities that are not counted, in ascending order: the positive itself and, for
    /// filtered ranks, other entities known to be true.
    ///
    /// # Panics
    /// If the columns have different lengths.
    pub fn count<'f>(
        &mut self,
        queries: &PreparedQueries,
        candidates: &CandidateBlock,
        positives: &[f32],
        left_out: impl Fn(usize) -> &'f [u32],
        counts: &mut [RankCounts],
    ) {
        assert!(
            positives.len() == queries.len() && counts.len() == queries.len(),
            "one for each query"
        );
        let entities = candidates.entities();
        for first in (0..queries.len()).step_by(QUERIES_AT_ONCE) {
            let range = first..(first + QUERIES_AT_ONCE).min(queries.len());
            let scores = self.scores(queries, range.clone(), candidates);
            let rows = scores.chunks_exact(entities.len().max(1));
            for ((query, row), count) in range.clone().zip(rows).zip(&mut counts[range]) {
                let positive = positives[query];
                let (above, equal) = vector::count_above_equal(row, positive, 0.0);
                *count += RankCounts { above, equal };
                let ids = left_out(query);
                let start = ids.partition_point(|&id| (id as usize) < entities.start);
                let mut previous = None;
                for &id in ids[start..]
                    .iter()
                    .take_while(|&&id| (id as usize) < entities.end)
                {
                    // An entity that is listed twice is subtracted once.
                    if previous.replace(id) != Some(id) {
                        let score = row[id as usize - entities.start];
                        count.above -= 1 - u32::from(score <= positive);
                        count.equal -= u32::from(score == positive);
                    }
                }
            }
        }
    }
}
