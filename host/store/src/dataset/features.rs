//! `features_<type>.arrow` and `feature_names_<type>.arrow`: entities as bags of features.

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;

use super::arrow::Batches;
use super::{Dataset, DatasetError, open_verified, write};

/// The features of all entities of a featurized type, by offset of the entity.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Where the list of each entity ends in `ids`.
    ends: Vec<usize>,
    ids: Vec<u32>,
    names: Vec<String>,
}

impl Features {
    pub(super) fn read(dataset: &Dataset, entity_type: &str) -> Result<Self, DatasetError> {
        let manifest = dataset.manifest();
        let info = manifest.entities.get(entity_type);
        let info = info.ok_or_else(|| dataset.unknown_type(entity_type))?;
        let Some(features) = &info.features else {
            let what = format!("entity type `{entity_type}` has no features");
            return Err(DatasetError::damaged(dataset.path(), what));
        };
        let mut read = Self::default();
        read.read_names(dataset, &features.names_file)?;
        read.read_lists(dataset, &features.file)?;
        let in_range = read.ids.iter().all(|&id| id < features.count);
        if read.names.len() != features.count as usize
            || read.len() as u64 != info.total()
            || !in_range
        {
            let path = dataset.path().join(&features.file);
            return Err(DatasetError::damaged(
                &path,
                "it does not match the manifest",
            ));
        }
        Ok(read)
    }

    fn read_names(&mut self, dataset: &Dataset, name: &str) -> Result<(), DatasetError> {
        let (path, file) = open_verified(dataset.path(), dataset.manifest(), name)?;
        for batch in Batches::open(path.clone(), file, write::names_schema())? {
            let batch = batch?;
            let names = batch
                .column_by_name("name")
                .and_then(|c| c.as_string_opt::<i32>());
            let names = names.ok_or_else(|| DatasetError::damaged(&path, "it has no names"))?;
            self.names.extend(names.iter().flatten().map(str::to_owned));
        }
        Ok(())
    }

    fn read_lists(&mut self, dataset: &Dataset, name: &str) -> Result<(), DatasetError> {
        let (path, file) = open_verified(dataset.path(), dataset.manifest(), name)?;
        for batch in Batches::open(path.clone(), file, write::features_schema())? {
            let batch = batch?;
            let lists = batch
                .column_by_name("features")
                .and_then(|c| c.as_list_opt::<i32>());
            let lists = lists.ok_or_else(|| DatasetError::damaged(&path, "it has no features"))?;
            for list in lists.iter() {
                let list = list.unwrap_or_else(|| {
                    arrow_array::new_empty_array(&arrow_schema::DataType::UInt32)
                });
                let ids = list.as_primitive_opt::<UInt32Type>();
                let ids = ids.ok_or_else(|| DatasetError::damaged(&path, "ids are no integers"))?;
                self.ids.extend_from_slice(ids.values());
                self.ends.push(self.ids.len());
            }
        }
        Ok(())
    }

    /// Number of entities.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is no entity.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Ids of the features of an entity; none for one that does not exist.
    #[must_use]
    pub fn of(&self, offset: u32) -> &[u32] {
        let at = offset as usize;
        let start = at
            .checked_sub(1)
            .map_or(0, |before| self.ends.get(before).copied().unwrap_or(0));
        self.ends.get(at).map_or(&[], |&end| &self.ids[start..end])
    }

    /// Names of all features, in the order of their ids.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }
}
