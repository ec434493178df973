//! What edges are ranked with: a model, and its tables wherever they are.

use pbg_core::graph::Side;
use pbg_kernels::params::Params;
use pbg_kernels::table::{Features, Table};
use pbg_store::dataset::{Dataset, EntityId};
use pbg_store::describe::Seen;

use super::edges::Edge;
use crate::buffer::PartitionBuffer;
use crate::error::RunError;
use crate::layout::TableKey;
use crate::model::Blueprint;
use crate::tables::DiskTables;
use crate::trained::{self, Trained};

/// A model without its tables.
#[derive(Clone, Copy)]
pub(crate) struct View<'a> {
    /// Dataset the ids belong to.
    pub(crate) dataset: &'a Dataset,
    /// Who is compared with whom.
    pub(crate) blueprint: &'a Blueprint,
    /// Operators and global embeddings.
    pub(crate) params: &'a Params,
    /// Features of each entity type as far as they have rows, where the dataset has entities or relations
    /// without an embedding.
    pub(crate) grown: Option<&'a [Option<Features>]>,
    /// What the trained edges have, where no other edges are ranked.
    pub(crate) seen: Option<&'a Seen>,
}

impl<'a> View<'a> {
    /// Of a model that was committed.
    pub(super) fn of(model: &'a Trained<'_>) -> Self {
        Self {
            dataset: model.dataset,
            blueprint: &model.blueprint,
            params: &model.params,
            grown: (!model.missing.is_empty()).then(|| model.features()),
            seen: None,
        }
    }

    /// Leaves out the edges that have something that `seen` lacks.
    pub(super) fn with_seen(self, seen: Option<&'a Seen>) -> Self {
        Self { seen, ..self }
    }
}

impl View<'_> {
    /// Entities of a partition that may be candidates.
    pub(super) fn entities(&self, (type_index, partition): TableKey) -> u64 {
        let layout = &self.blueprint.layout.types[type_index];
        if !self.blueprint.spec.entities[type_index].featurized {
            return layout.rows.get(partition as usize).copied().unwrap_or(0);
        }
        let info = self.dataset.manifest().entities.get(&layout.name);
        info.and_then(|info| info.counts.get(partition as usize))
            .map_or(0, |&n| u64::from(n))
    }

    /// Whether some edges may be left out.
    pub(super) fn leaves_out(&self) -> bool {
        self.grown.is_some() || self.seen.is_some()
    }

    /// Whether an edge that has its embeddings is ranked: the trained edges have its entities and relation, or that does
    /// not matter.
    pub(super) fn is_seen(&self, edge: &Edge) -> bool {
        let ends = (edge.lhs, edge.rel, edge.rhs);
        self.seen.is_none_or(|seen| seen.has(edge.bucket, ends))
    }

    /// Whether both entities and the relation of an edge have embeddings.
    pub(super) fn is_trained(&self, edge: &Edge) -> bool {
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

/// Where ranking takes tables from, one at a time.
pub(crate) trait Tables {
    /// One partition of an entity type. At most one that was read is held: the last.
    ///
    /// # Errors
    /// When it cannot be read or is damaged.
    fn table(&mut self, key: TableKey) -> Result<&Table, RunError>;
}

/// The tables of a checkpoint that is open for reading.
pub(super) struct Committed<'a> {
    model: &'a Trained<'a>,
    held: Held,
}

impl<'a> Committed<'a> {
    pub(super) fn new(model: &'a Trained<'a>) -> Self {
        Self {
            model,
            held: Held::default(),
        }
    }
}

impl Tables for Committed<'_> {
    fn table(&mut self, key: TableKey) -> Result<&Table, RunError> {
        self.held.or_read(key, || self.model.table(key.0, key.1))
    }
}

/// The tables of a run between buckets: those in its buffer as they stand there, the others from its
/// checkpoint.
pub(crate) struct Live<'a> {
    buffer: &'a PartitionBuffer<DiskTables>,
    held: Held,
}

impl<'a> Live<'a> {
    pub(crate) fn new(buffer: &'a PartitionBuffer<DiskTables>) -> Self {
        Self {
            buffer,
            held: Held::default(),
        }
    }
}

impl Tables for Live<'_> {
    fn table(&mut self, key: TableKey) -> Result<&Table, RunError> {
        if let Some(table) = self.buffer.table(key) {
            table.download()?;
            return Ok(table);
        }
        self.held.or_read(key, || self.buffer.store().read(key))
    }
}

/// The table that was read last.
#[derive(Default)]
pub(crate) struct Held {
    table: Option<(TableKey, Table)>,
}

impl Held {
    /// The table `key`; `read` after the one before has left memory, unless it is the same.
    pub(crate) fn or_read(
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
