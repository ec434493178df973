//! Nearest neighbours by an index.

use std::sync::Arc;

use pbg_core::model::Comparator;
use pbg_dataset::EntityId;
use pbg_kernels::rank::Ranker;
use pbg_model::error::RunError;
use pbg_rows::table::Table;

use crate::index::{BeamWidth, ExactReason, IndexQueryOptions, IndexWalker, OpenIndex, WalkKind};
use crate::without_operators;

use super::{Neighbor, QueryModel, keep, single_query};
impl QueryModel<'_> {
    /// Returns neighbours as [`Model::neighbors`] does, as far as walks over an index find them, with the same scores.
    /// Also returns the width of the walks, or the reason why all entities were compared.
    ///
    /// # Errors
    /// As for [`Model::neighbors`], and when there is no index for the comparator, or it is damaged or belongs to other
    /// embeddings.
    pub fn neighbors_by_index(
        &mut self,
        name: &str,
        k: usize,
        entity_type: Option<&str>,
        comparator: Option<Comparator>,
        with: IndexQueryOptions,
    ) -> Result<(Vec<Neighbor>, Result<BeamWidth, ExactReason>), RunError> {
        let (type_index, id) = self.find(name, entity_type)?;
        let trained = &self.trained;
        let spec = without_operators::spec(&trained.blueprint.spec, comparator);
        let params = &without_operators::params(&trained.params, &spec)?;
        let index = OpenIndex::open(trained, spec.comparator)?;
        let layout = &trained.blueprint.layout.types[type_index];
        let width = index.width(&layout.name, WalkKind::Neighbors, with)?;
        if !width.is_used(with) {
            let found = self.neighbors(name, k, entity_type, comparator)?;
            return Ok((found, Err(ExactReason::LowRecall(width))));
        }
        let replacement = without_operators::replaced(type_index, params);
        let max_norm = spec.max_norm;
        let mut walks = IndexWalker::new(Ranker::new(Arc::new(spec))?, max_norm)?;
        let of_known = index.part(trained, (type_index, id.partition))?;
        let known = of_known.gather(&[id.offset], max_norm, &mut Vec::new())?;
        let known = Table::new(known, layout.dimension);
        let query = single_query(walks.ranker(), replacement, 0, &known);
        // The entity itself is the nearest one, and not a neighbour.
        let wanted = k.saturating_add(1).min(u32::MAX as usize) as u32;
        let in_view = width.width.max(wanted);
        let mut best = Vec::new();
        for partition in 0..trained.partitions(type_index) {
            let part = index.part(trained, (type_index, partition))?;
            let found = walks.best(&part, replacement, &query, 0, in_view)?;
            let found = found.into_iter();
            let found = found.map(|(offset, score)| (score, EntityId { partition, offset }));
            keep(&mut best, k, found.filter(|(_, other)| *other != id));
        }
        Ok((self.name_all(type_index, best)?, Ok(width)))
    }
}
