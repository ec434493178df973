//! A block of edges as queries: the transformed known sides, which are compared with candidates.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use pbg_core::graph::Side;
use pbg_kernels::rank::{PreparedQueries, Ranker};
use pbg_kernels::step::BatchRelations;
use pbg_model::error::RunError;
use pbg_model::layout::TableKey;
use pbg_rows::spec::ModelSpec;
use pbg_rows::table::Table;

use super::known_answers::{self, EntityKey, GRANULE, Granule, QuestionNumbers};
use super::ranked_edge::RankedEdge;
use super::stats::{CandidateCounts, RankedCounts};
use super::view::{ModelView, TableSource};
/// Number of queries that are prepared together.
pub(super) const PART: usize = 160 * GRANULE;
/// Number of rows that are copied from a table together.
const ROWS: usize = 1 << 12;

/// Queries of one side that have the same candidate rows, prepared in the same way.
pub(super) struct QueryGroup {
    pub(super) side: Side,
    /// Entity type of the candidates.
    pub(super) entity: usize,
    /// Relation of the group; the only one if the candidates depend on the relation.
    pub(super) relation: u32,
    /// Positions of the edges in their block, sorted by question.
    pub(super) edges: Vec<u32>,
    /// Question number of each query.
    pub(super) questions: Vec<u32>,
    pub(super) queries: PreparedQueries,
    /// Scores of the true entities.
    pub(super) positives: Vec<f32>,
    /// The true entities.
    pub(super) positive_entities: Vec<EntityKey>,
    pub(super) counts: Vec<AtomicRankCounts>,
    /// Number of the first granule of its queries in the block.
    pub(super) first_granule: usize,
}

impl QueryGroup {
    /// Returns the group's queries whose granules are in `granules`.
    pub(super) fn within(&self, granules: &Range<usize>) -> Range<usize> {
        known_answers::queries_within(granules, self.first_granule, self.edges.len())
    }
}

/// Counts of candidates relative to a true entity. Several threads add to them.
#[derive(Debug, Default)]
pub(super) struct AtomicRankCounts {
    above: AtomicU64,
    equal: AtomicU64,
    known: AtomicU64,
    known_above: AtomicU64,
    known_equal: AtomicU64,
}

impl AtomicRankCounts {
    /// Adds counts of all candidates except the true entity, and of those among them that are known answers.
    pub(super) fn add(&self, raw: CandidateCounts, known: CandidateCounts) {
        let add = |to: &AtomicU64, n: u64| {
            if n > 0 {
                to.fetch_add(n, Ordering::Relaxed);
            }
        };
        add(&self.above, raw.above);
        add(&self.equal, raw.equal);
        add(&self.known, known.candidates);
        add(&self.known_above, known.above);
        add(&self.known_equal, known.equal);
    }

    /// Returns the result, among `candidates` entities other than the true one.
    pub(super) fn ranked(&self, candidates: u64) -> RankedCounts {
        let of = |from: &AtomicU64| from.load(Ordering::Relaxed);
        let raw = CandidateCounts {
            candidates,
            above: of(&self.above),
            equal: of(&self.equal),
        };
        let known = CandidateCounts {
            candidates: of(&self.known),
            above: of(&self.known_above),
            equal: of(&self.known_equal),
        };
        RankedCounts {
            raw,
            filtered: raw.without(known),
        }
    }
}

/// Returns the entity type of the candidates that replace a side of a relation. Also returns the relation if it forms a
/// group of its own: because the operator transforms its candidates, or because static relations may differ in the type
/// of the known side.
pub(super) fn group_of(view: &ModelView<'_>, relation: u32, side: Side) -> (usize, Option<u32>) {
    let entity = view.blueprint.type_of(relation, side);
    let alone = relation_alone(&view.blueprint.spec, relation, side);
    (entity, alone.then_some(relation))
}

/// Whether queries of `side` of `relation` share no candidates with those of other relations.
pub(super) fn relation_alone(spec: &ModelSpec, relation: u32, side: Side) -> bool {
    let depends = spec.candidates_depend_on_relation(side, relation);
    !spec.is_dynamic() && (spec.entities.len() > 1 || depends)
}

/// Queries of a block, grouped by type, and their questions.
pub(super) struct QueryBlock {
    pub(super) groups: Vec<QueryGroup>,
    pub(super) questions: QuestionNumbers,
    pub(super) granules: Vec<Granule>,
}

impl QueryBlock {
    /// Prepares the queries of both sides of `edges`.
    pub(super) fn new(
        view: &ModelView<'_>,
        tables: &mut dyn TableSource,
        edges: &[RankedEdge],
        ranker: &mut Ranker,
    ) -> Result<Self, RunError> {
        let mut block = Self::sort(view, edges);
        let rows = BlockEmbeddings::read(view, tables, edges)?;
        for group in &mut block.groups {
            prepare(group, view, &rows, edges, ranker)?;
        }
        Ok(block)
    }

    /// Groups the edges and numbers their questions.
    fn sort(view: &ModelView<'_>, edges: &[RankedEdge]) -> Self {
        let mut members = BTreeMap::<_, Vec<u32>>::new();
        for (at, edge) in edges.iter().enumerate() {
            for side in Side::BOTH {
                let (entity, relation) = group_of(view, edge.rel, side);
                let key = (entity, relation, side as usize);
                members.entry(key).or_default().push(at as u32);
            }
        }
        let mut block = Self {
            groups: Vec::with_capacity(members.len()),
            questions: QuestionNumbers::default(),
            granules: Vec::new(),
        };
        for ((entity, _, side), mut places) in members {
            let side = Side::BOTH[side];
            let question = |&at: &u32| {
                let edge = &edges[at as usize];
                (edge.rel, known_answers::entity(view, edge, side.other()))
            };
            places.sort_by_key(question);
            let numbers = &mut block.questions;
            let questions = places.iter().map(|at| numbers.number(side, question(at)));
            let questions: Vec<u32> = questions.collect();
            let first_granule = block.granules.len();
            block.granules.extend(Granule::divide(&questions));
            let positive = |&at: &u32| known_answers::entity(view, &edges[at as usize], side);
            block.groups.push(QueryGroup {
                side,
                entity,
                relation: edges[places[0] as usize].rel,
                positive_entities: places.iter().map(positive).collect(),
                questions,
                queries: PreparedQueries::default(),
                positives: Vec::with_capacity(places.len()),
                counts: places.iter().map(|_| AtomicRankCounts::default()).collect(),
                edges: places,
                first_granule,
            });
        }
        block
    }
}

/// Computes the queries of a group and the scores of the true entities.
fn prepare(
    group: &mut QueryGroup,
    view: &ModelView<'_>,
    rows: &BlockEmbeddings,
    edges: &[RankedEdge],
    ranker: &mut Ranker,
) -> Result<(), RunError> {
    let replacement = view.replaced(group.side, group.relation);
    let known = view.blueprint.type_of(group.relation, group.side.other());
    let (known_rows, positive_rows) = (&rows.types[known], &rows.types[group.entity]);
    let width = known_rows.table.embeddings.width();
    group.queries = PreparedQueries::with_capacity(group.edges.len(), width);
    let mut part = PreparedQueries::default();
    let positives = group.positive_entities.chunks(PART);
    for (members, positives) in group.edges.chunks(PART).zip(positives) {
        let edge = |&at: &u32| &edges[at as usize];
        let relations: Vec<u32> = members.iter().map(|at| edge(at).rel).collect();
        let row = |at: &u32| {
            let known = known_answers::entity(view, edge(at), group.side.other());
            known_rows.row_of(known)
        };
        let known: Vec<u32> = members.iter().map(row).collect();
        let relations = BatchRelations::PerEdge(&relations);
        let (table, params) = (&known_rows.table, view.params);
        ranker.queries(group.side, &known, relations, table, params, &mut part);
        let row = |&positive: &EntityKey| positive_rows.row_of(positive);
        let positives: Vec<u32> = positives.iter().map(row).collect();
        let scores = ranker.pair_scores(replacement, &part, &positives, &positive_rows.table);
        if let Some(at) = scores.iter().position(|score| !score.is_finite()) {
            return Err(RunError::Diverged(edge(&members[at]).bucket));
        }
        group.positives.extend(scores);
        group.queries.append(&part);
    }
    Ok(())
}

/// Rows that were read, or the error.
pub(crate) type ReadRows = Result<Vec<f32>, RunError>;

/// Embeddings of a block's entities.
pub(crate) struct BlockEmbeddings {
    pub(crate) types: Vec<TypeEmbeddings>,
}

/// Embeddings of one type's entities.
pub(crate) struct TypeEmbeddings {
    /// Entities in ascending order.
    entities: Vec<EntityKey>,
    /// One row for each entity.
    pub(crate) table: Table,
}

impl TypeEmbeddings {
    /// Returns the row of an entity.
    pub(crate) fn row_of(&self, entity: EntityKey) -> u32 {
        self.entities.partition_point(|&other| other < entity) as u32
    }
}

impl BlockEmbeddings {
    /// Copies the embeddings of both sides of `edges`.
    fn read(
        view: &ModelView<'_>,
        tables: &mut dyn TableSource,
        edges: &[RankedEdge],
    ) -> Result<Self, RunError> {
        let layout = &view.blueprint.layout;
        let mut wanted: Vec<Vec<EntityKey>> = vec![Vec::new(); layout.types.len()];
        for edge in edges {
            for side in Side::BOTH {
                let entity_type = view.blueprint.type_of(edge.rel, side);
                wanted[entity_type].push(known_answers::entity(view, edge, side));
            }
        }
        Self::gather(view, wanted, &mut from_tables(view, tables))
    }

    /// Copies the embeddings of the entities `wanted` of each type. `read` returns rows of a table; it is called for
    /// one table after the other.
    pub(crate) fn gather(
        view: &ModelView<'_>,
        mut wanted: Vec<Vec<EntityKey>>,
        read: &mut dyn FnMut(TableKey, &[u32]) -> ReadRows,
    ) -> Result<Self, RunError> {
        let layout = &view.blueprint.layout;
        for entities in &mut wanted {
            entities.sort_unstable();
            entities.dedup();
            entities.shrink_to_fit();
        }
        let sizes = wanted.iter().zip(&layout.types);
        let sizes = sizes.map(|(wanted, layout)| wanted.len() * layout.dimension);
        let mut rows: Vec<Vec<f32>> = sizes.map(Vec::with_capacity).collect();
        let partitions = layout.types.iter().map(|t| t.rows.len() as u32).max();
        // The types are in descending order, so that comparing candidates starts with the table that was read last.
        for partition in 0..partitions.unwrap_or(0) {
            for entity_type in (0..layout.types.len()).rev() {
                let all = &wanted[entity_type];
                let from = all.partition_point(|&(p, _)| p < partition);
                let to = all.partition_point(|&(p, _)| p <= partition);
                for part in all[from..to].chunks(ROWS) {
                    let offsets: Vec<u32> = part.iter().map(|&(_, offset)| offset).collect();
                    rows[entity_type].extend(read((entity_type, partition), &offsets)?);
                }
            }
        }
        let types = wanted.into_iter().zip(rows).zip(&layout.types);
        let types = types.map(|((entities, rows), layout)| TypeEmbeddings {
            entities,
            table: Table::new(rows, layout.dimension),
        });
        Ok(Self {
            types: types.collect(),
        })
    }
}

/// Returns a reader of rows from whole tables, each of which is loaded once.
pub(crate) fn from_tables<'t>(
    view: &'t ModelView<'_>,
    tables: &'t mut dyn TableSource,
) -> impl FnMut(TableKey, &[u32]) -> ReadRows + 't {
    |key, offsets| {
        let table = tables.table(key)?;
        Ok(table.gather(offsets, view.blueprint.spec.max_norm))
    }
}
