//! Identity of a model's ids: the names that they stand for, so that embeddings are never assigned to other entities.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::manifest::EntityType;
use super::{Dataset, DatasetError, NameChecksum};

/// Summary of a list of names, divided into partitions: count and checksum of each partition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NameList {
    /// Number of names per partition.
    pub counts: Vec<u32>,
    /// CRC-32 of the names of each partition.
    pub crc32: Vec<u32>,
}

impl NameList {
    /// Returns the number of names.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().map(|&n| u64::from(n)).sum()
    }

    /// Returns the number of names in a partition; 0 for a partition that does not exist.
    #[must_use]
    pub fn count(&self, partition: u32) -> u32 {
        self.counts.get(partition as usize).copied().unwrap_or(0)
    }
}

/// Names that a model's ids stand for: relations by id, and the rows of each table by partition and offset. Rows are
/// entities or, for a featurized type, features.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdSpace {
    /// Relations, as one partition; the checksum includes their entity types.
    pub relations: NameList,
    /// Rows of the table of each entity type.
    pub rows: BTreeMap<String, NameList>,
}

/// Relation of a dataset's ids to earlier ids.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IdChange {
    /// The ids are the same.
    Same,
    /// Every earlier id has kept its meaning, and there are additional ids.
    Grown,
    /// An id has another meaning now; the text says which.
    Changed(String),
}

impl Dataset {
    /// Returns the identity of the ids of all relations and of the rows of `types`. Dictionaries are read only if an
    /// earlier version of this program imported the dataset.
    ///
    /// # Errors
    /// When there is no such type, or a dictionary is damaged.
    pub fn ids<'n>(
        &self,
        types: impl IntoIterator<Item = &'n String>,
    ) -> Result<IdSpace, DatasetError> {
        let relations = self.relations().len() as u32;
        let mut rows = BTreeMap::new();
        for name in types {
            let info = self.entity_type(name)?;
            let partitions = 0..info.num_partitions;
            let counts: Vec<u32> = partitions.map(|p| info.table_rows(p)).collect();
            let crc32 = match stored_sums(info) {
                Some(sums) => sums,
                None => self.sums_of_first(name, &counts)?,
            };
            rows.insert(name.clone(), NameList { counts, crc32 });
        }
        Ok(IdSpace {
            relations: NameList {
                counts: vec![relations],
                crc32: vec![self.relations_sum(relations)],
            },
            rows,
        })
    }

    /// Compares `now`, the ids of this dataset, with `earlier` ids. Reads only the dictionaries of types that have
    /// grown.
    ///
    /// # Errors
    /// When a dictionary is damaged.
    pub fn compare_ids(&self, earlier: &IdSpace, now: &IdSpace) -> Result<IdChange, DatasetError> {
        if earlier == now {
            return Ok(IdChange::Same);
        }
        let known = earlier.relations.total() as u32;
        let relations = u64::from(known) <= now.relations.total()
            && [self.relations_sum(known)] == earlier.relations.crc32[..];
        if !relations {
            let what = "the relations or their order have changed";
            return Ok(IdChange::Changed(what.to_owned()));
        }
        for (name, earlier) in &earlier.rows {
            let Some(now) = now.rows.get(name) else {
                return Ok(IdChange::Changed(format!("there is no type `{name}`")));
            };
            if earlier == now {
                continue;
            }
            let fewer = |(earlier, now): (&u32, &u32)| earlier > now;
            if earlier.counts.len() != now.counts.len()
                || earlier.counts.iter().zip(&now.counts).any(fewer)
                || self.sums_of_first(name, &earlier.counts)? != earlier.crc32
            {
                let (was, is) = (earlier.total(), now.total());
                let what =
                    format!("rows of `{name}` have another meaning ({was} rows before, {is} now)");
                return Ok(IdChange::Changed(what));
            }
        }
        Ok(IdChange::Grown)
    }

    /// Calls `visit` with partition, offset and name of every row of the table of `entity_type`, in global order.
    ///
    /// # Errors
    /// When there is no such type or its dictionary is damaged.
    pub fn visit_rows(
        &self,
        entity_type: &str,
        visit: &mut dyn FnMut(u32, u32, &str),
    ) -> Result<(), DatasetError> {
        if self.entity_type(entity_type)?.featurized {
            let mut offsets = 0..;
            let mut next = |name: &str| visit(0, offsets.next().unwrap_or(u32::MAX), name);
            return super::features::visit_names(self, entity_type, &mut next);
        }
        let mut visit = |at: super::EntityId, name: &str| visit(at.partition, at.offset, name);
        self.visit_entities(entity_type, &mut visit)
    }

    /// Computes the checksums of the first `counts[p]` names of each partition `p`.
    fn sums_of_first(&self, entity_type: &str, counts: &[u32]) -> Result<Vec<u32>, DatasetError> {
        let mut sums = vec![NameChecksum::default(); counts.len()];
        self.visit_rows(entity_type, &mut |partition, offset, name| {
            let partition = partition as usize;
            if counts.get(partition).is_some_and(|&count| offset < count) {
                sums[partition].add(name);
            }
        })?;
        Ok(sums.iter().map(NameChecksum::finish).collect())
    }

    /// Computes the checksum of the first `count` relations.
    fn relations_sum(&self, count: u32) -> u32 {
        let mut sum = NameChecksum::default();
        for relation in self.relations().iter().take(count as usize) {
            for name in [&relation.name, &relation.lhs, &relation.rhs] {
                sum.add(name);
            }
        }
        sum.finish()
    }
}

/// Returns the checksums that the import stored, if it did.
fn stored_sums(info: &EntityType) -> Option<Vec<u32>> {
    match &info.features {
        Some(features) => features.names_crc32.map(|sum| vec![sum]),
        None => Some(info.names_crc32.clone()).filter(|s| s.len() == info.counts.len()),
    }
}
