//! Model and tables that edges are ranked with.

use pbg_core::graph::Side;
use pbg_dataset::describe::TrainedVocabulary;
use pbg_dataset::{Dataset, EntityId};
use pbg_kernels::rank::ReplacedSide;
use pbg_model::blueprint::Blueprint;
use pbg_model::error::RunError;
use pbg_model::layout::TableKey;
use pbg_model::trained::{self, TrainedModel};
use pbg_rows::params::Params;
use pbg_rows::table::{FeatureBags, Table};

use super::ranked_edge::RankedEdge;
/// Model without its tables.
#[derive(Clone, Copy)]
pub struct ModelView<'a> {
    /// Dataset the ids belong to.
    pub dataset: &'a Dataset,
    /// Model and layout.
    pub blueprint: &'a Blueprint,
    /// Operators and global embeddings.
    pub params: &'a Params,
    /// Features of each entity type, restricted to features with rows; set if the dataset has entities or relations
    /// without an embedding.
    pub grown: Option<&'a [Option<FeatureBags>]>,
    /// Entities and relations of the trained edges, if only edges among these are ranked.
    pub seen: Option<&'a TrainedVocabulary>,
}

impl<'a> ModelView<'a> {
    /// Returns the view of a committed model.
    pub(crate) fn of(model: &'a TrainedModel<'_>) -> Self {
        Self {
            dataset: model.dataset,
            blueprint: &model.blueprint,
            params: &model.params,
            grown: (!model.missing.is_empty()).then(|| model.features()),
            seen: None,
        }
    }

    /// Returns the view that leaves out edges with an entity or relation that `seen` lacks.
    pub(super) fn with_seen(self, seen: Option<&'a TrainedVocabulary>) -> Self {
        Self { seen, ..self }
    }
}

impl ModelView<'_> {
    /// Returns the number of entities in a partition that may be candidates.
    pub(super) fn entities(&self, (type_index, partition): TableKey) -> u64 {
        let layout = &self.blueprint.layout.types[type_index];
        if !self.blueprint.spec.entities[type_index].featurized {
            return layout.rows.get(partition as usize).copied().unwrap_or(0);
        }
        let info = self.dataset.manifest().entities.get(&layout.name);
        let count = info.and_then(|info| info.counts.get(partition as usize));
        count.map_or(0, |&n| u64::from(n))
    }

    /// Returns the transformation of candidates that replace a side of a relation.
    pub(crate) fn replaced(&self, side: Side, relation: u32) -> ReplacedSide<'_> {
        let params = self.params;
        ReplacedSide {
            side,
            relation,
            params,
        }
    }

    /// Whether some edges may be left out.
    pub(super) fn leaves_out(&self) -> bool {
        self.grown.is_some() || self.seen.is_some()
    }

    /// Whether an edge with embeddings is ranked: its entities and its relation occur in trained edges, or this is not
    /// required.
    pub(super) fn is_seen(&self, edge: &RankedEdge) -> bool {
        let ends = (edge.lhs, edge.rel, edge.rhs);
        self.seen.is_none_or(|seen| seen.has(edge.bucket, ends))
    }

    /// Whether both entities and the relation of an edge have embeddings.
    pub(super) fn is_trained(&self, edge: &RankedEdge) -> bool {
        let Some(features) = self.grown else {
            return true;
        };
        let known = self.blueprint.relation_names.len() as u64;
        let has = |side: Side| {
            let entity_type = self.blueprint.type_of(edge.rel, side);
            let layout = &self.blueprint.layout;
            let id = EntityId {
                partition: layout.partition(entity_type, side, edge.bucket),
                offset: edge.offset(side),
            };
            let rows = &layout.types[entity_type].rows;
            trained::has(rows, features[entity_type].as_ref(), id)
        };
        u64::from(edge.rel) < known && Side::BOTH.into_iter().all(has)
    }
}

/// Source of tables for ranking, which are read one at a time.
pub trait TableSource {
    /// Returns a partition of an entity type. Only the last table that was read is kept in memory.
    ///
    /// # Errors
    /// When the partition cannot be read or is damaged.
    fn table(&mut self, key: TableKey) -> Result<&Table, RunError>;
}

/// Tables of a checkpoint that is open for reading.
pub(crate) struct CommittedTables<'a> {
    model: &'a TrainedModel<'a>,
    held: LastTable,
}

impl<'a> CommittedTables<'a> {
    pub(crate) fn new(model: &'a TrainedModel<'a>) -> Self {
        Self {
            model,
            held: LastTable::default(),
        }
    }
}

impl TableSource for CommittedTables<'_> {
    fn table(&mut self, key: TableKey) -> Result<&Table, RunError> {
        self.held.or_read(key, || self.model.table(key.0, key.1))
    }
}

/// Table that was read last.
#[derive(Default)]
pub struct LastTable {
    table: Option<(TableKey, Table)>,
}

impl LastTable {
    /// Returns the table `key`. If it is not the held one, drops the held one before calling `read`.
    pub fn or_read(
        &mut self,
        key: TableKey,
        read: impl FnOnce() -> Result<Table, RunError>,
    ) -> Result<&Table, RunError> {
        let table = match self.table.take() {
            Some((held, table)) if held == key => table,
            other => {
                drop(other);
                read()?
            }
        };
        Ok(&self.table.insert((key, table)).1)
    }
}
