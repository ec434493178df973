//! `entities_<type>.arrow`: the names and ids of all entities of a type.

use std::sync::OnceLock;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt32Type;
use foldhash::fast::FixedState;
use hashbrown::HashTable;
use serde::{Deserialize, Serialize};
use std::hash::BuildHasher;

use super::arrow::{self, Batches};
use super::verified::open_verified;
use super::{Dataset, DatasetError, schemas};

/// Id of an entity: its partition and its row there.
#[derive(
    Default, Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
pub struct EntityId {
    /// Partition of the entity type.
    pub partition: u32,
    /// Row within the partition.
    pub offset: u32,
}

/// Names of all entities of a type, in global order: by partition, then by offset.
#[derive(Debug)]
pub struct Dictionary {
    bytes: String,
    /// End of each name in `bytes`.
    ends: Vec<usize>,
    /// Global number of the first entity of each partition, followed by the number of entities.
    starts: Vec<u64>,
    index: OnceLock<HashTable<u32>>,
}

impl Dictionary {
    pub(super) fn read(dataset: &Dataset, entity_type: &str) -> Result<Self, DatasetError> {
        let mut dictionary = Self {
            bytes: String::new(),
            ends: Vec::new(),
            starts: starts(&dataset.entity_type(entity_type)?.counts),
            index: OnceLock::new(),
        };
        read_names(dataset, entity_type, &mut |_, name| dictionary.push(name))?;
        Ok(dictionary)
    }

    fn push(&mut self, name: &str) {
        self.bytes.push_str(name);
        self.ends.push(self.bytes.len());
    }

    /// Returns the number of entities.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.ends.len() as u64
    }

    /// Returns whether the type has no entities.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns all names in global order.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &str> {
        (0..self.ends.len()).map(|at| self.at(at))
    }

    /// Returns the name of the entity with global number `global`, if it exists.
    #[must_use]
    pub fn name(&self, global: u64) -> Option<&str> {
        (global < self.len()).then(|| self.at(global as usize))
    }

    /// Returns the name of an entity, if it exists.
    #[must_use]
    pub fn name_of(&self, id: EntityId) -> Option<&str> {
        let [start, end] = *self.starts.get(id.partition as usize..)?.first_chunk()?;
        let global = start + u64::from(id.offset);
        (global < end).then(|| self.at(global as usize))
    }

    /// Returns the id of the entity with global number `global`.
    ///
    /// # Panics
    /// When there is no such entity.
    #[must_use]
    pub fn id(&self, global: u64) -> EntityId {
        let count = self.len();
        assert!(global < count, "no entity {global} among {count}");
        place(&self.starts, global).unwrap_or_default()
    }

    /// Returns the global number of an entity, if it exists.
    #[must_use]
    pub fn global(&self, id: EntityId) -> Option<u64> {
        self.name_of(id)?;
        Some(self.starts[id.partition as usize] + u64::from(id.offset))
    }

    /// Returns the id of the entity of this name. The first call builds a hash index.
    #[must_use]
    pub fn find(&self, name: &str) -> Option<EntityId> {
        let index = self.index.get_or_init(|| self.build_index());
        let found = index.find(hash(name), |&at| self.at(at as usize) == name)?;
        Some(self.id(u64::from(*found)))
    }

    fn build_index(&self) -> HashTable<u32> {
        let mut index = HashTable::with_capacity(self.ends.len());
        for (at, name) in self.names().enumerate() {
            index.insert_unique(hash(name), at as u32, |&at| hash(self.at(at as usize)));
        }
        index
    }

    fn at(&self, at: usize) -> &str {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.bytes[start..self.ends[at]]
    }
}

/// Calls `visit` with the id and the name of every entity of a type, in global order, without storing them.
pub(super) fn read_names(
    dataset: &Dataset,
    entity_type: &str,
    visit: &mut dyn FnMut(EntityId, &str),
) -> Result<(), DatasetError> {
    let info = dataset.entity_type(entity_type)?;
    let (path, file) = open_verified(dataset.path(), dataset.manifest(), &info.file)?;
    let damaged = |what: &str| DatasetError::damaged(&path, what);
    let (starts, mut read) = (starts(&info.counts), 0);
    for batch in Batches::open(path.clone(), file, schemas::dictionary_schema())? {
        let batch = batch?;
        let names = arrow::texts(&batch, "name");
        let integers = |name| batch.column_by_name(name)?.as_primitive_opt::<UInt32Type>();
        let (Some(names), Some(partitions), Some(offsets)) =
            (names, integers("partition"), integers("offset"))
        else {
            return Err(damaged("it lacks a column"));
        };
        for i in 0..batch.num_rows() {
            let at = EntityId {
                partition: partitions.value(i),
                offset: offsets.value(i),
            };
            if place(&starts, read) != Some(at) {
                return Err(damaged("an entity has a wrong partition or offset"));
            }
            read += 1;
            visit(at, names.value(i));
        }
    }
    match read == info.total() {
        true => Ok(()),
        false => Err(damaged(
            "its number of entities does not match the manifest",
        )),
    }
}

/// Returns the global number of the first entity of each partition, followed by the number of entities.
fn starts(counts: &[u32]) -> Vec<u64> {
    let mut starts = vec![0];
    let mut end = 0;
    for &count in counts {
        end += u64::from(count);
        starts.push(end);
    }
    starts
}

/// Returns the id of the entity with global number `global`, if it exists.
fn place(starts: &[u64], global: u64) -> Option<EntityId> {
    let next = starts.partition_point(|&start| start <= global);
    let partition = next.checked_sub(1).filter(|_| next < starts.len())?;
    Some(EntityId {
        partition: partition as u32,
        offset: (global - starts[partition]) as u32,
    })
}

fn hash(name: &str) -> u64 {
    FixedState::with_seed(0).hash_one(name)
}

impl Dataset {
    /// Reads the dictionary of an entity type, with the names of all its entities.
    ///
    /// # Errors
    /// When there is no such type or its file is damaged.
    pub fn dictionary(&self, entity_type: &str) -> Result<Dictionary, DatasetError> {
        self.detect_replacement(Dictionary::read(self, entity_type))
    }

    /// Calls `visit` with the id and the name of every entity of a type, in global order, without storing them.
    ///
    /// # Errors
    /// When there is no such type or its file is damaged.
    pub fn visit_entities(
        &self,
        entity_type: &str,
        visit: &mut dyn FnMut(EntityId, &str),
    ) -> Result<(), DatasetError> {
        self.detect_replacement(read_names(self, entity_type, visit))
    }

    /// Reads the names of all entities of a type in global order: by partition, then by offset.
    ///
    /// # Errors
    /// When there is no such type or its file is damaged.
    pub fn entity_names(&self, entity_type: &str) -> Result<Vec<String>, DatasetError> {
        let dictionary = self.dictionary(entity_type)?;
        Ok(dictionary.names().map(str::to_owned).collect())
    }

    /// Returns the id of an entity; `None` if the type has no entity of this name.
    ///
    /// # Errors
    /// When there is no such type or its file is damaged.
    pub fn find(&self, entity_type: &str, name: &str) -> Result<Option<EntityId>, DatasetError> {
        let dictionary = self.dictionary(entity_type)?;
        let at = dictionary.names().position(|n| n == name);
        Ok(at.map(|at| dictionary.id(at as u64)))
    }
}
