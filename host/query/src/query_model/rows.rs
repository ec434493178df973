//! Embeddings of a selection of entities: named ones, or those with the most edges.

use std::collections::BTreeMap;
use std::sync::Arc;

use pbg_core::graph::{Bucket, EdgeColumns, Side};
use pbg_core::model::Comparator;
use pbg_dataset::EntityId;
use pbg_kernels::rank::Ranker;
use pbg_model::error::{RunError, SettingError};
use pbg_model::model_bytes::READ_ROWS;
use pbg_model::{memory, name_lookup};

use super::QueryModel;
use crate::without_operators;

/// Entity of a model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedEntity {
    /// Name of the entity.
    pub name: String,
    /// Name of its type.
    pub entity_type: String,
    place: (usize, EntityId),
}

/// Entities with their embeddings.
#[derive(Clone, Debug, PartialEq)]
pub struct EntityEmbeddings {
    /// The entities.
    pub entities: Vec<NamedEntity>,
    /// Elements of an embedding.
    pub dimension: usize,
    /// Embeddings, `[entities, dimension]`.
    pub rows: Vec<f32>,
}

/// Number of edges of each entity, by type, partition and offset.
type Degrees = Vec<Vec<Vec<u32>>>;

impl QueryModel<'_> {
    /// Returns the entity `name`.
    ///
    /// # Errors
    /// When no entity has the name, or several types have it and `entity_type` does not choose one.
    pub fn named(
        &mut self,
        name: &str,
        entity_type: Option<&str>,
    ) -> Result<NamedEntity, RunError> {
        let place = self.find(name, entity_type)?;
        Ok(self.entity(name.to_owned(), place))
    }

    /// Returns the `count` entities with the most edges in the edge sets `sets`, highest first; only those of
    /// `entity_type` if it is given.
    ///
    /// # Errors
    /// When the type or an edge set does not exist, or a file cannot be read.
    pub fn most_connected(
        &mut self,
        count: usize,
        sets: &[String],
        entity_type: Option<&str>,
    ) -> Result<Vec<NamedEntity>, RunError> {
        let types = 0..self.trained.blueprint.layout.types.len();
        let wanted = match entity_type {
            None => types.collect(),
            Some(wanted) => vec![name_lookup::entity_type(&self.trained.blueprint, wanted)?],
        };
        let degrees = self.degrees(sets)?;
        let mut best: Vec<(u32, usize, EntityId)> = Vec::new();
        for index in wanted {
            for (partition, degrees) in (0..).zip(&degrees[index]) {
                let ids = (0..).map(|offset| EntityId { partition, offset });
                let entities = degrees.iter().zip(ids);
                let known = entities.filter(|(_, id)| self.trained.has(index, *id));
                best.extend(known.map(|(&degree, id)| (degree, index, id)));
                best.sort_unstable_by(|a, b| b.0.cmp(&a.0).then((a.1, a.2).cmp(&(b.1, b.2))));
                best.truncate(count);
            }
        }
        let mut names = BTreeMap::new();
        for index in 0..self.lookups.len() {
            let of_type = best.iter().filter(|(_, of_type, _)| *of_type == index);
            let ids: Vec<EntityId> = of_type.map(|&(_, _, id)| id).collect();
            if !ids.is_empty() {
                let found = self.names(index, &ids)?;
                names.extend(ids.into_iter().map(|id| (index, id)).zip(found));
            }
        }
        let places = best.into_iter().map(|(_, index, id)| (index, id));
        let entity = |place| self.entity(names.remove(&place).unwrap_or_default(), place);
        Ok(places.map(entity).collect())
    }

    /// Returns the embeddings of `entities` as they are compared by `comparator`, or else by the model's comparator:
    /// embeddings for `cos` have length 1. Each partition is read once and not kept.
    ///
    /// # Errors
    /// When the types have embeddings of different dimensions, or the model cannot be read.
    pub fn embeddings(
        &mut self,
        entities: Vec<NamedEntity>,
        comparator: Option<Comparator>,
    ) -> Result<EntityEmbeddings, RunError> {
        let spec = without_operators::spec(&self.trained.blueprint.spec, comparator);
        let params = &without_operators::params(&self.trained.params, &spec)?;
        let mut ranker = Ranker::new(Arc::new(spec))?;
        let mut tables: BTreeMap<(usize, u32), Vec<(usize, u32)>> = BTreeMap::new();
        for (at, entity) in entities.iter().enumerate() {
            let (index, id) = entity.place;
            let table = tables.entry((index, id.partition)).or_default();
            table.push((at, id.offset));
        }
        let types = &self.trained.blueprint.layout.types;
        let mut dimensions = tables.keys().map(|(index, _)| types[*index].dimension);
        let dimension = dimensions.next().unwrap_or(1);
        if dimensions.any(|other| other != dimension) {
            return Err(SettingError::Dimensions.into());
        }
        let mut rows = vec![0.0; entities.len() * dimension];
        for ((index, partition), wanted) in tables {
            let table = self.trained.table(index, partition)?;
            let offsets: Vec<u32> = wanted.iter().map(|(_, offset)| *offset).collect();
            let replacement = without_operators::replaced(index, params);
            let prepared = ranker.prepared(replacement, &offsets, &table);
            for ((at, _), row) in wanted.iter().zip(prepared.chunks_exact(dimension)) {
                rows[at * dimension..(at + 1) * dimension].copy_from_slice(row);
            }
        }
        Ok(EntityEmbeddings {
            entities,
            dimension,
            rows,
        })
    }

    fn entity(&self, name: String, place: (usize, EntityId)) -> NamedEntity {
        let entity_type = self.trained.blueprint.layout.types[place.0].name.clone();
        NamedEntity {
            name,
            entity_type,
            place,
        }
    }

    /// Counts the edges of the entities.
    fn degrees(&self, sets: &[String]) -> Result<Degrees, RunError> {
        let types = 0..self.trained.blueprint.layout.types.len();
        let entities = |index| {
            let partitions = 0..self.trained.partitions(index);
            partitions.map(move |p| self.trained.entities(index, p))
        };
        let bytes = types.clone().flat_map(entities).sum::<u64>();
        memory::require_more(
            "counting the edges of entities",
            bytes.saturating_mul(size_of::<u32>() as u64),
            "close other programs or use a machine with more memory",
        )?;
        let of_type = |index| entities(index).map(|n| vec![0; n as usize]).collect();
        let mut degrees: Degrees = types.map(of_type).collect();
        for set in sets {
            let set = self.trained.dataset.edge_set(set)?;
            for bucket in set.filled_buckets() {
                let len = set.bucket_len(bucket);
                for start in (0..len).step_by(READ_ROWS as usize) {
                    let edges = set.read(bucket, start..(start + READ_ROWS).min(len))?;
                    self.count(bucket, &edges, &mut degrees);
                }
            }
        }
        Ok(degrees)
    }

    fn count(&self, bucket: Bucket, edges: &EdgeColumns, degrees: &mut Degrees) {
        let blueprint = &self.trained.blueprint;
        let sides = [
            (Side::Lhs, bucket.lhs, &edges.lhs),
            (Side::Rhs, bucket.rhs, &edges.rhs),
        ];
        for (side, partition, offsets) in sides {
            for (&offset, &relation) in offsets.iter().zip(&edges.rel) {
                // A dataset that has grown may have relations and entities that the model lacks.
                if relation as usize >= blueprint.relation_names.len() {
                    continue;
                }
                let of_type = &mut degrees[blueprint.type_of(relation, side)];
                // The only partition of a type occurs in every bucket.
                let partition = if of_type.len() == 1 { 0 } else { partition };
                let of_partition = of_type.get_mut(partition as usize);
                if let Some(degree) = of_partition.and_then(|p| p.get_mut(offset as usize)) {
                    *degree = degree.saturating_add(1);
                }
            }
        }
    }
}
