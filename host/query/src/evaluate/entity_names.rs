//! Lookup of many names: each dictionary is read once, and not kept in memory.

use std::collections::HashMap;

use pbg_dataset::EntityId;
use pbg_model::error::{RunError, UnknownName};
use pbg_model::name_lookup;
use pbg_model::trained::TrainedModel;

/// Names to look up, by entity type, with their ids once they are found.
pub(super) struct EntityNames<'q> {
    ids: Vec<HashMap<&'q str, Option<EntityId>>>,
}

impl<'q> EntityNames<'q> {
    /// Creates an empty collection for the entity types of a model.
    pub(super) fn new(trained: &TrainedModel<'_>) -> Self {
        Self {
            ids: vec![HashMap::new(); trained.blueprint.layout.types.len()],
        }
    }

    /// Adds a name of an entity type.
    pub(super) fn add(&mut self, entity_type: usize, name: &'q str) {
        self.ids[entity_type].insert(name, None);
    }

    /// Looks up all names.
    ///
    /// # Errors
    /// When a dictionary is damaged.
    pub(super) fn find(&mut self, trained: &TrainedModel<'_>) -> Result<(), RunError> {
        let types = &trained.blueprint.layout.types;
        for (ids, layout) in self.ids.iter_mut().zip(types) {
            if !ids.is_empty() {
                let visit = &mut |id, name: &str| {
                    if let Some(slot) = ids.get_mut(name) {
                        *slot = Some(id);
                    }
                };
                trained.dataset.visit_entities(&layout.name, visit)?;
            }
        }
        Ok(())
    }

    /// Returns the id of a name that was looked up; `None` if no entity of the type has it.
    pub(super) fn id(&self, entity_type: usize, name: &str) -> Option<EntityId> {
        self.ids[entity_type].get(name).copied().flatten()
    }

    /// Returns the id of an entity that has an embedding.
    ///
    /// # Errors
    /// When no entity of the type has the name, or it has no embedding.
    pub(super) fn trained(
        &self,
        trained: &TrainedModel<'_>,
        entity_type: usize,
        name: &str,
    ) -> Result<EntityId, RunError> {
        match self.id(entity_type, name) {
            Some(id) if trained.has(entity_type, id) => Ok(id),
            Some(_) => Err(is_new(trained, name)),
            None => {
                let of_type = &trained.blueprint.layout.types[entity_type].name;
                Err(name_lookup::unknown_entity(trained, name, Some(of_type))?.into())
            }
        }
    }
}

/// Returns the error for an entity without an embedding.
pub(super) fn is_new(trained: &TrainedModel<'_>, name: &str) -> RunError {
    let unknown = UnknownName::EntityIsNew {
        entity: name.to_owned(),
        checkpoint: trained.checkpoint.path().to_owned(),
    };
    unknown.into()
}
