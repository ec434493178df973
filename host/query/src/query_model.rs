//! Single queries of a trained model: nearest neighbours of an entity, the score of an edge.

mod indexed_neighbors;
mod lookup;
mod rows;

use std::sync::Arc;

use lookup::NameLookup;
use pbg_checkpoint::ReadCheckpoint;
use pbg_core::graph::Side;
use pbg_core::model::Comparator;
use pbg_dataset::EntityId;
use pbg_kernels::rank::{self, CandidateBlock, PreparedQueries, Ranker, ReplacedSide};
use pbg_kernels::step::BatchRelations;
use pbg_model::error::{RunError, UnknownName};
use pbg_model::name_lookup;
use pbg_model::resolved::ResolvedConfig;
use pbg_model::trained::{TrainedModel, UntrainedNames};
use pbg_rows::table::Table;
use serde::Serialize;

use crate::without_operators;
pub use rows::{EntityEmbeddings, NamedEntity};

/// Entity with its nearness to another one.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Neighbor {
    /// Name of the entity.
    pub name: String,
    /// Score by the model's comparator; a higher score is nearer.
    pub score: f32,
}

/// Model to query. Tables are read when queries need them, and kept.
pub struct QueryModel<'a> {
    trained: TrainedModel<'a>,
    lookups: Vec<NameLookup>,
    tables: Vec<((usize, u32), Arc<Table>)>,
}

impl<'a> QueryModel<'a> {
    /// Opens the trained model for queries.
    ///
    /// # Errors
    /// As [`TrainedModel::open`].
    pub fn open(resolved: &'a ResolvedConfig) -> Result<Self, RunError> {
        let trained = TrainedModel::open(resolved)?;
        let types = trained.blueprint.layout.types.iter();
        let lookups = types.map(|_| NameLookup::default()).collect();
        Ok(Self {
            trained,
            lookups,
            tables: Vec::new(),
        })
    }
}

impl QueryModel<'_> {
    /// Returns the version of the checkpoint.
    #[must_use]
    pub fn version(&self) -> &ReadCheckpoint {
        &self.trained.checkpoint
    }

    /// Returns the names of the dataset that the model has no embedding for.
    #[must_use]
    pub fn missing(&self) -> &UntrainedNames {
        &self.trained.missing
    }

    /// Returns the `k` entities of the same type whose embeddings have the highest scores with that of `name`, without
    /// the operator of any relation, highest first and without the entity itself. The comparator is `comparator`, or
    /// else the model's.
    ///
    /// # Errors
    /// When no entity has this name, several types have it and `entity_type` does not choose one, or the model cannot
    /// be read.
    pub fn neighbors(
        &mut self,
        name: &str,
        k: usize,
        entity_type: Option<&str>,
        comparator: Option<Comparator>,
    ) -> Result<Vec<Neighbor>, RunError> {
        let (type_index, id) = self.find(name, entity_type)?;
        let spec = without_operators::spec(&self.trained.blueprint.spec, comparator);
        let params = &without_operators::params(&self.trained.params, &spec)?;
        let mut ranker = Ranker::new(Arc::new(spec))?;
        let replacement = without_operators::replaced(type_index, params);
        let known = self.trained.table(type_index, id.partition)?;
        let query = single_query(&mut ranker, replacement, id.offset, &known);
        let mut block = CandidateBlock::default();
        let mut best: Vec<(f32, EntityId)> = Vec::new();
        for partition in 0..self.trained.partitions(type_index) {
            let table = self.trained.table(type_index, partition)?;
            for first in (0..table.entities()).step_by(rank::CANDIDATE_BLOCK) {
                let entities = first..(first + rank::CANDIDATE_BLOCK).min(table.entities());
                ranker.candidates(replacement, entities.clone(), &table, &mut block);
                let scores = ranker.scores(&query, 0..1, &block).iter().copied();
                let offsets = entities.map(|entity| entity as u32);
                let ids = offsets.map(|offset| EntityId { partition, offset });
                let others = scores.zip(ids).filter(|(_, other)| *other != id);
                keep(&mut best, k, others);
            }
        }
        self.name_all(type_index, best)
    }

    fn name_all(
        &mut self,
        type_index: usize,
        best: Vec<(f32, EntityId)>,
    ) -> Result<Vec<Neighbor>, RunError> {
        let (scores, ids): (Vec<f32>, Vec<EntityId>) = best.into_iter().unzip();
        let names = self.names(type_index, &ids)?;
        let named = |(name, score)| Neighbor { name, score };
        Ok(names.into_iter().zip(scores).map(named).collect())
    }

    /// Returns the score of an edge. With dynamic relations, it is the score of the right side, as in ranking left
    /// sides.
    ///
    /// # Errors
    /// When a name is unknown or the model cannot be read.
    pub fn score(&mut self, lhs: &str, relation: &str, rhs: &str) -> Result<f32, RunError> {
        let relation = name_lookup::relation(&self.trained, relation)?;
        let blueprint = &self.trained.blueprint;
        let types = Side::BOTH.map(|side| blueprint.type_of(relation, side));
        let names = types.map(|t| blueprint.layout.types[t].name.clone());
        let (_, left) = self.find(lhs, Some(&names[0]))?;
        let (_, right) = self.find(rhs, Some(&names[1]))?;
        let right_table = self.table(types[1], right.partition)?;
        let left_table = self.table(types[0], left.partition)?;
        let mut ranker = Ranker::new(Arc::new(self.trained.blueprint.spec.clone()))?;
        let params = &self.trained.params;
        // The left side is replaced, so the right side is the query, which the operator transforms.
        let replacement = ReplacedSide {
            side: Side::Lhs,
            relation,
            params,
        };
        let query = single_query(&mut ranker, replacement, right.offset, &right_table);
        Ok(ranker.pair_scores(replacement, &query, &[left.offset], &left_table)[0])
    }

    /// Returns the vector with which a question compares its candidates, the entities of the side `open`: the embedding
    /// of the entity `known`, transformed by the operator of the relation if it applies to that side, as the comparator
    /// uses it.
    ///
    /// # Errors
    /// When a name is unknown or the model cannot be read.
    pub fn query_vector(
        &mut self,
        known: &str,
        relation: &str,
        open: Side,
    ) -> Result<Vec<f32>, RunError> {
        let relation = name_lookup::relation(&self.trained, relation)?;
        let blueprint = &self.trained.blueprint;
        let of_type = blueprint.type_of(relation, open.other());
        let type_name = blueprint.layout.types[of_type].name.clone();
        let (_, id) = self.find(known, Some(&type_name))?;
        let table = self.table(of_type, id.partition)?;
        let mut ranker = Ranker::new(Arc::new(self.trained.blueprint.spec.clone()))?;
        let replacement = ReplacedSide {
            side: open,
            relation,
            params: &self.trained.params,
        };
        let query = single_query(&mut ranker, replacement, id.offset, &table);
        Ok(query.vector(0).to_vec())
    }

    fn find(
        &mut self,
        name: &str,
        entity_type: Option<&str>,
    ) -> Result<(usize, EntityId), RunError> {
        let blueprint = &self.trained.blueprint;
        let wanted = entity_type.map(|name| name_lookup::entity_type(blueprint, name));
        let wanted = wanted.transpose()?;
        let types = &blueprint.layout.types;
        let mut found = Vec::new();
        for index in 0..types.len() {
            if wanted.is_none_or(|wanted| wanted == index)
                && let Some(id) = self.lookups[index].find(&self.trained, index, name)?
            {
                found.push((index, id));
            }
        }
        let entity = name.to_owned();
        let unknown = match found[..] {
            [(index, id)] if !self.trained.has(index, id) => UnknownName::EntityIsNew {
                entity,
                checkpoint: self.trained.checkpoint.path().to_owned(),
            },
            [only] => return Ok(only),
            [] => name_lookup::unknown_entity(&self.trained, name, entity_type)?,
            _ => UnknownName::Ambiguous {
                entity,
                types: name_lookup::few(found.iter().map(|(i, _)| types[*i].name.as_str())),
            },
        };
        Err(unknown.into())
    }

    fn names(&mut self, type_index: usize, ids: &[EntityId]) -> Result<Vec<String>, RunError> {
        self.lookups[type_index].names(&self.trained, type_index, ids)
    }

    fn table(&mut self, type_index: usize, partition: u32) -> Result<Arc<Table>, RunError> {
        let key = (type_index, partition);
        if let Some((_, table)) = self.tables.iter().find(|(k, _)| *k == key) {
            return Ok(Arc::clone(table));
        }
        let table = Arc::new(self.trained.table(type_index, partition)?);
        self.tables.push((key, Arc::clone(&table)));
        Ok(table)
    }
}

/// Returns the query of the known entity in row `row` of `table`.
fn single_query(
    ranker: &mut Ranker,
    replaced: ReplacedSide<'_>,
    row: u32,
    table: &Table,
) -> PreparedQueries {
    let (mut query, relation) = (PreparedQueries::default(), replaced.relation);
    let relation = BatchRelations::One(relation);
    ranker.queries(
        replaced.side,
        &[row],
        relation,
        table,
        replaced.params,
        &mut query,
    );
    query
}

/// Keeps the `k` entities with the highest scores; equal scores are ordered by id.
fn keep(best: &mut Vec<(f32, EntityId)>, k: usize, others: impl Iterator<Item = (f32, EntityId)>) {
    best.extend(others);
    best.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    best.truncate(k);
}
