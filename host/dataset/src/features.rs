//! `features_<type>.arrow` and `feature_names_<type>.arrow`: the features of entities.

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use arrow_schema::DataType;

use super::arrow::{self, Batches};
use super::manifest::{EntityType, FeatureInfo};
use super::verified::open_verified;
use super::{Dataset, DatasetError, schemas};

/// Features of all entities of a featurized type, by offset of the entity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntityFeatures {
    /// End of each entity's list in `ids`.
    ends: Vec<usize>,
    ids: Vec<u32>,
    names: Vec<String>,
}

impl EntityFeatures {
    pub(super) fn read(dataset: &Dataset, entity_type: &str) -> Result<Self, DatasetError> {
        let mut read = Self::default();
        let Self { ends, ids, names } = &mut read;
        let add_name = &mut |name: &str| names.push(name.to_owned());
        visit(dataset, entity_type, add_name, &mut |list| {
            ids.extend_from_slice(list);
            ends.push(ids.len());
        })?;
        Ok(read)
    }

    /// Returns the number of entities.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns whether there are no entities.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the ids of the features of an entity; empty for one that does not exist.
    #[must_use]
    pub fn of(&self, offset: u32) -> &[u32] {
        let at = offset as usize;
        let before = at.checked_sub(1).and_then(|before| self.ends.get(before));
        let start = before.copied().unwrap_or(0);
        self.ends.get(at).map_or(&[], |&end| &self.ids[start..end])
    }

    /// Returns the names of all features, in the order of their ids.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }
}

/// Calls `visit` with the name of every feature of a type, in the order of their ids, without storing them.
pub(super) fn visit_names(
    dataset: &Dataset,
    entity_type: &str,
    visit: &mut dyn FnMut(&str),
) -> Result<(), DatasetError> {
    let names_file = &files_of(dataset, entity_type)?.1.names_file;
    read_names(dataset, names_file, visit)
}

/// Calls `name` with the name of every feature, then `list` with the feature ids of every entity.
///
/// # Errors
/// When a file cannot be read, is damaged, or does not match the manifest.
fn visit(
    dataset: &Dataset,
    entity_type: &str,
    name: &mut dyn FnMut(&str),
    list: &mut dyn FnMut(&[u32]),
) -> Result<(), DatasetError> {
    let (info, features) = files_of(dataset, entity_type)?;
    let (mut names, mut lists, mut in_range) = (0, 0, true);
    read_names(dataset, &features.names_file, &mut |feature| {
        names += 1;
        name(feature);
    })?;
    read_lists(dataset, &features.file, &mut |ids| {
        lists += 1;
        in_range &= ids.iter().all(|&id| id < features.count);
        list(ids);
    })?;
    if names == u64::from(features.count) && lists == info.total() && in_range {
        return Ok(());
    }
    let path = dataset.path().join(&features.file);
    let what = "it does not match the manifest";
    Err(DatasetError::damaged(&path, what))
}

/// Returns the manifest entries of an entity type and its features.
fn files_of<'d>(
    dataset: &'d Dataset,
    entity_type: &str,
) -> Result<(&'d EntityType, &'d FeatureInfo), DatasetError> {
    let info = dataset.entity_type(entity_type)?;
    let Some(features) = &info.features else {
        let what = format!("entity type `{entity_type}` has no features");
        return Err(DatasetError::damaged(dataset.path(), what));
    };
    Ok((info, features))
}

fn read_names(
    dataset: &Dataset,
    file: &str,
    visit: &mut dyn FnMut(&str),
) -> Result<(), DatasetError> {
    let (path, file) = open_verified(dataset.path(), dataset.manifest(), file)?;
    for batch in Batches::open(path.clone(), file, schemas::names_schema())? {
        let batch = batch?;
        let names = arrow::texts(&batch, "name");
        let names = names.ok_or_else(|| DatasetError::damaged(&path, "it has no names"))?;
        names.iter().flatten().for_each(&mut *visit);
    }
    Ok(())
}

fn read_lists(
    dataset: &Dataset,
    file: &str,
    visit: &mut dyn FnMut(&[u32]),
) -> Result<(), DatasetError> {
    let (path, file) = open_verified(dataset.path(), dataset.manifest(), file)?;
    let damaged = |what: &str| DatasetError::damaged(&path, what);
    for batch in Batches::open(path.clone(), file, schemas::features_schema())? {
        let batch = batch?;
        let lists = batch.column_by_name("features");
        let lists = lists.and_then(|column| column.as_list_opt::<i32>());
        for list in lists.ok_or_else(|| damaged("it has no features"))?.iter() {
            let list = list.unwrap_or_else(|| arrow_array::new_empty_array(&DataType::UInt32));
            let ids = list.as_primitive_opt::<UInt32Type>();
            let ids = ids.ok_or_else(|| damaged("its ids are not integers"))?;
            visit(ids.values());
        }
    }
    Ok(())
}

impl Dataset {
    /// Reads and verifies the features of all entities of a featurized type, without storing them.
    ///
    /// # Errors
    /// As [`Dataset::features`].
    pub fn verify_features(&self, entity_type: &str) -> Result<(), DatasetError> {
        visit(self, entity_type, &mut |_| {}, &mut |_| {})
    }

    /// Reads the features of all entities of a featurized type.
    ///
    /// # Errors
    /// When there is no such type, it has no features, or its file is damaged.
    pub fn features(&self, entity_type: &str) -> Result<EntityFeatures, DatasetError> {
        self.detect_replacement(EntityFeatures::read(self, entity_type))
    }
}
