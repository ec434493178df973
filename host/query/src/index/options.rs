//! Options of building an index and of answering by it.

use pbg_core::model::Comparator;
use pbg_model::blueprint::Blueprint;
use pbg_model::error::UnknownName;
use pbg_model::name_lookup;

/// Options of building an index.
#[derive(Clone, Debug)]
pub struct IndexOptions {
    /// Entity type to index; all types if `None`.
    pub entity_type: Option<String>,
    /// Comparator of embeddings; the model's comparator if `None`.
    pub comparator: Option<Comparator>,
    /// Largest number of links of an entity.
    pub degree: u32,
    /// Beam width while the neighbours of a new entity are searched.
    pub width: u32,
    /// Number of entities and of edges that the recall is measured with; not measured if 0.
    pub questions: u32,
    /// Number of threads; all cores if `None`.
    pub threads: Option<usize>,
}

impl IndexOptions {
    /// Returns the indexes of the entity types to build.
    pub(super) fn types(&self, blueprint: &Blueprint) -> Result<Vec<usize>, UnknownName> {
        match &self.entity_type {
            Some(wanted) => Ok(vec![name_lookup::entity_type(blueprint, wanted)?]),
            None => Ok((0..blueprint.layout.types.len()).collect()),
        }
    }
}

/// Options of answering by an index.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IndexQueryOptions {
    /// Beam width: the number of best candidates that a walk keeps in each partition. If `None`, the smallest width
    /// that found 95 % of the nearest entities when the index was built; if no width did, all entities are compared.
    pub width: Option<u32>,
}
