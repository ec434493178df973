//! Names of entities in the dataset. A few lookups scan the dictionary; many make it worthwhile to keep it in memory.

use std::collections::HashMap;

use pbg_dataset::{Dictionary, EntityId};
use pbg_model::error::RunError;
use pbg_model::memory;
use pbg_model::trained::TrainedModel;

/// A dictionary of at most this many names is read into memory for the first lookup, if there is room for it.
const FEW: u64 = 1 << 20;
/// Number of scans that take about as long as reading a dictionary into memory and indexing it.
const PASSES: u32 = 8;
/// Bytes of an indexed name in memory, in addition to its text. The size of the text is that of the file.
const BYTES_PER_NAME: u64 = 32;

/// Names of one entity type.
#[derive(Default)]
pub(super) struct NameLookup {
    passes: u32,
    dictionary: Option<Dictionary>,
}

impl NameLookup {
    /// Returns the id of the entity `name`.
    pub(super) fn find(
        &mut self,
        trained: &TrainedModel<'_>,
        type_index: usize,
        name: &str,
    ) -> Result<Option<EntityId>, RunError> {
        if let Some(dictionary) = self.dictionary(trained, type_index)? {
            return Ok(dictionary.find(name));
        }
        let mut found = None;
        self.pass(trained, type_index, &mut |id, other| {
            if other == name {
                found = Some(id);
            }
        })?;
        Ok(found)
    }

    /// Returns the names of entities.
    pub(super) fn names(
        &mut self,
        trained: &TrainedModel<'_>,
        type_index: usize,
        ids: &[EntityId],
    ) -> Result<Vec<String>, RunError> {
        if let Some(dictionary) = self.dictionary(trained, type_index)? {
            let name = |&id| dictionary.name_of(id).unwrap_or_default().to_owned();
            return Ok(ids.iter().map(name).collect());
        }
        let mut found: HashMap<EntityId, String> =
            ids.iter().map(|&id| (id, String::new())).collect();
        self.pass(trained, type_index, &mut |id, name| {
            if let Some(found) = found.get_mut(&id) {
                name.clone_into(found);
            }
        })?;
        let name = |id| found.get(id).cloned().unwrap_or_default();
        Ok(ids.iter().map(name).collect())
    }

    fn pass(
        &mut self,
        trained: &TrainedModel<'_>,
        type_index: usize,
        visit: &mut dyn FnMut(EntityId, &str),
    ) -> Result<(), RunError> {
        self.passes += 1;
        let name = &trained.blueprint.layout.types[type_index].name;
        Ok(trained.dataset.visit_entities(name, visit)?)
    }

    /// Returns the dictionary if it is in memory, or if it is worthwhile to load it now and there is room.
    fn dictionary(
        &mut self,
        trained: &TrainedModel<'_>,
        type_index: usize,
    ) -> Result<Option<&Dictionary>, RunError> {
        if self.dictionary.is_none() {
            let name = &trained.blueprint.layout.types[type_index].name;
            let manifest = trained.dataset.manifest();
            let info = manifest.entities.get(name);
            let entities = info.map_or(0, |info| info.total());
            let file = info.and_then(|info| manifest.files.get(&info.file));
            let bytes = BYTES_PER_NAME * entities + file.map_or(0, |file| file.size);
            let has_room = || memory::free_bytes().is_none_or(|free| bytes < free);
            if (entities <= FEW || self.passes >= PASSES) && has_room() {
                self.dictionary = Some(trained.dictionary(type_index)?);
            }
        }
        Ok(self.dictionary.as_ref())
    }
}
