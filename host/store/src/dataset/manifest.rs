//! `manifest.json` of a dataset.

use std::collections::BTreeMap;

use pbg_core::graph::Bucket;
use serde::{Deserialize, Serialize};

use crate::files::Summary;
use crate::sealed::Format;

/// What an entity takes of its dictionary at least: partition, offset, and where its name ends.
const ENTITY_BYTES: u64 = 12;
/// What a relation takes of its file at least: where its three names end.
const RELATION_BYTES: u64 = 12;
/// What a feature takes of its file at least: where its name ends.
const FEATURE_BYTES: u64 = 4;

/// Name and version of the format.
pub const FORMAT: Format = Format {
    name: "pbg-host dataset",
    version: 1,
    oldest: 1,
};

/// What a dataset holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Manifest {
    /// Whether one relation of the configuration was the template of all.
    pub dynamic_relations: bool,
    /// Entity types by name.
    pub entities: BTreeMap<String, EntityType>,
    /// The relations.
    pub relations: Relations,
    /// Edge sets by name.
    pub edge_sets: BTreeMap<String, EdgeSetInfo>,
    /// Size and checksum of every file but this one.
    pub files: BTreeMap<String, Summary>,
}

/// An entity type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntityType {
    /// Its dictionary.
    pub file: String,
    /// Number of partitions.
    pub num_partitions: u32,
    /// Entities in each partition.
    pub counts: Vec<u32>,
    /// CRC-32 of the names of each partition, each name after its length; empty where an earlier
    /// version imported them.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub names_crc32: Vec<u32>,
    /// Whether its entities are bags of features.
    pub featurized: bool,
    /// The features, for a featurized type.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub features: Option<FeatureInfo>,
}

impl EntityType {
    /// Entities in all partitions.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().map(|&n| u64::from(n)).sum()
    }

    /// Rows of the embedding table of a partition: its entities, or for a featurized type all
    /// features. 0 for a partition that does not exist.
    #[must_use]
    pub fn table_rows(&self, partition: u32) -> u32 {
        match &self.features {
            Some(features) => features.count,
            None => self.counts.get(partition as usize).copied().unwrap_or(0),
        }
    }
}

/// Features of a featurized type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeatureInfo {
    /// Lists of feature ids, one per entity.
    pub file: String,
    /// Names of the features.
    pub names_file: String,
    /// Number of features.
    pub count: u32,
    /// CRC-32 of their names, as of those of entities.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub names_crc32: Option<u32>,
}

/// The relations.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relations {
    /// Names and entity types.
    pub file: String,
    /// How many.
    pub count: u32,
}

/// An edge set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EdgeSetInfo {
    /// The edges.
    pub file: String,
    /// How many.
    pub edges: u64,
    /// Whether there is a column of weights.
    pub has_weight: bool,
    /// Partitions of left sides.
    pub lhs_partitions: u32,
    /// Partitions of right sides.
    pub rhs_partitions: u32,
    /// Bytes of the file before the first record batch.
    pub header_size: u64,
    /// CRC-32 of the file without its record batches: of what stands before and behind them.
    pub frame_crc32: u32,
    /// Record batches in the order of the file, which is that of buckets (`lhs`, then `rhs`).
    pub batches: Vec<Batch>,
}

/// What tells the edges of a set from others: computed from counts and checksums, without reading
/// them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgesId {
    /// How many.
    pub edges: u64,
    /// CRC-32 of the buckets, counts and checksums of the record batches.
    pub crc32: u32,
}

/// A record batch of edges: all of a bucket, or a part of a large one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batch {
    /// Bucket of its edges.
    #[serde(flatten)]
    pub bucket: Bucket,
    /// First byte in the file.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
    /// Edges.
    pub rows: u64,
    /// CRC-32 of the bytes.
    pub crc32: u32,
}

impl Manifest {
    /// Whether the parts agree with each other; what does not, otherwise.
    pub(crate) fn check(&self) -> Result<(), String> {
        let listed = |name: &String| {
            if self.files.contains_key(name) {
                Ok(())
            } else {
                Err(format!("it names the file `{name}` without its checksum"))
            }
        };
        for name in self.files.keys() {
            if name.is_empty() || name.contains('/') || name == ".." || name == "." {
                return Err(format!("`{name}` is no file name"));
            }
        }
        for (name, entity_type) in &self.entities {
            listed(&entity_type.file)?;
            if entity_type.counts.len() != entity_type.num_partitions as usize {
                return Err(format!(
                    "entity type `{name}` has not one count per partition"
                ));
            }
            if entity_type.featurized != entity_type.features.is_some() {
                return Err(format!(
                    "entity type `{name}` is featurized in one place only"
                ));
            }
            if let Some(features) = &entity_type.features {
                listed(&features.file)?;
                listed(&features.names_file)?;
                let bytes = FEATURE_BYTES * u64::from(features.count);
                self.holds(&features.names_file, bytes, "features")?;
            }
            let bytes = ENTITY_BYTES.checked_mul(entity_type.total());
            self.holds(&entity_type.file, bytes.unwrap_or(u64::MAX), "entities")?;
        }
        listed(&self.relations.file)?;
        let bytes = RELATION_BYTES * u64::from(self.relations.count);
        self.holds(&self.relations.file, bytes, "relations")?;
        self.edge_sets.iter().try_for_each(|(name, set)| {
            listed(&set.file)?;
            set.check(self.files[&set.file].size)
                .map_err(|what| format!("edge set `{name}`: {what}"))
        })
    }
}

impl Manifest {
    /// Whether a file has room for the `bytes` that so many `what` take at least: tables are made as large
    /// as the manifest says.
    fn holds(&self, file: &str, bytes: u64, what: &str) -> Result<(), String> {
        match self.files.get(file) {
            Some(summary) if summary.size >= bytes => Ok(()),
            _ => Err(format!("it counts more {what} than `{file}` has room for")),
        }
    }
}

impl EdgeSetInfo {
    /// What tells these edges from others.
    #[must_use]
    pub fn id(&self) -> EdgesId {
        let mut sum = crc32fast::Hasher::new();
        sum.update(&[u8::from(self.has_weight)]);
        for batch in &self.batches {
            for number in [batch.bucket.lhs, batch.bucket.rhs, batch.crc32] {
                sum.update(&number.to_le_bytes());
            }
            sum.update(&batch.rows.to_le_bytes());
        }
        EdgesId {
            edges: self.edges,
            crc32: sum.finalize(),
        }
    }

    fn check(&self, size: u64) -> Result<(), String> {
        let mut end = self.header_size;
        let mut edges = 0_u64;
        let mut last = None;
        for batch in &self.batches {
            let grid =
                self.lhs_partitions > batch.bucket.lhs && self.rhs_partitions > batch.bucket.rhs;
            if !grid || last > Some(batch.bucket) {
                return Err(format!("bucket {} is out of place", batch.bucket));
            }
            let row = if self.has_weight { 16 } else { 12 };
            if batch.rows > batch.length / row {
                return Err(format!(
                    "a batch of bucket {} has more edges than bytes",
                    batch.bucket
                ));
            }
            if batch.offset != end || batch.rows == 0 {
                return Err(format!(
                    "the batches of bucket {} do not join",
                    batch.bucket
                ));
            }
            last = Some(batch.bucket);
            end = end
                .checked_add(batch.length)
                .ok_or("batches are too large")?;
            edges = edges
                .checked_add(batch.rows)
                .ok_or("batches are too large")?;
        }
        if end > size || edges != self.edges {
            return Err("the batches do not fit the file".to_owned());
        }
        Ok(())
    }
}
