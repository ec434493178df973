//! `manifest.json` of a dataset.

use std::collections::BTreeMap;

use pbg_core::graph::Bucket;
use serde::{Deserialize, Serialize};

use pbg_files::FileSummary;
use pbg_files::owner::OwnerKind;
use pbg_files::sealed_json::ManifestFormat;

/// Minimum size of an entity in its dictionary, in bytes: partition, offset, and end of its name.
const ENTITY_BYTES: u64 = 12;
/// Minimum size of a relation in its file, in bytes: the ends of its three names.
const RELATION_BYTES: u64 = 12;
/// Minimum size of a feature in its file, in bytes: the end of its name.
const FEATURE_BYTES: u64 = 4;

/// Name and version of the manifest's format.
pub const FORMAT: ManifestFormat = ManifestFormat {
    name: OwnerKind::Dataset.format_name(),
    version: 1,
    oldest: 1,
};

/// Manifest of a dataset.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DatasetManifest {
    /// Whether one relation of the configuration was the template of all relations.
    pub dynamic_relations: bool,
    /// Entity types by name.
    pub entities: BTreeMap<String, EntityType>,
    /// Summary of the relations.
    pub relations: RelationsInfo,
    /// Edge sets by name.
    pub edge_sets: BTreeMap<String, EdgeSetInfo>,
    /// Size and checksum of every file except the manifest.
    pub files: BTreeMap<String, FileSummary>,
}

/// Entity type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EntityType {
    /// Name of the dictionary file.
    pub file: String,
    /// Number of partitions.
    pub num_partitions: u32,
    /// Number of entities in each partition.
    pub counts: Vec<u32>,
    /// CRC-32 of the names of each partition, each name preceded by its length; empty if an earlier version imported
    /// the dataset.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub names_crc32: Vec<u32>,
    /// Whether the entities are bags of features.
    pub featurized: bool,
    /// Features of a featurized type.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub features: Option<FeatureInfo>,
}

impl EntityType {
    /// Returns the number of entities in all partitions.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().map(|&n| u64::from(n)).sum()
    }

    /// Returns the number of rows of a partition's embedding table: its entities or, for a featurized type, all
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
    /// Name of the file with the lists of feature ids, one per entity.
    pub file: String,
    /// Name of the file with the names of the features.
    pub names_file: String,
    /// Number of features.
    pub count: u32,
    /// CRC-32 of their names, computed as for entities.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub names_crc32: Option<u32>,
}

/// Relations of a dataset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelationsInfo {
    /// Name of the file with their names and entity types.
    pub file: String,
    /// Number of relations.
    pub count: u32,
}

/// Edge set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EdgeSetInfo {
    /// Name of the edge file.
    pub file: String,
    /// Number of edges.
    pub edges: u64,
    /// Whether the file has a column of weights.
    pub has_weight: bool,
    /// Number of partitions of left sides.
    pub lhs_partitions: u32,
    /// Number of partitions of right sides.
    pub rhs_partitions: u32,
    /// Size of the file's header in bytes: everything before the first record batch.
    pub header_size: u64,
    /// CRC-32 of the parts of the file before and after its record batches.
    pub frame_crc32: u32,
    /// Record batches in the order of the file, sorted by bucket (`lhs`, then `rhs`).
    pub batches: Vec<EdgeBatch>,
}

/// Identity of the edges of a set, computed from counts and checksums without reading the edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeSetId {
    /// Number of edges.
    pub edges: u64,
    /// CRC-32 of the buckets, counts and checksums of the record batches.
    pub crc32: u32,
}

/// Record batch of edges: a whole bucket, or a part of a large one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct EdgeBatch {
    /// Bucket of the edges.
    #[serde(flatten)]
    pub bucket: Bucket,
    /// Offset in the file, in bytes.
    pub offset: u64,
    /// Length in bytes.
    pub length: u64,
    /// Number of edges.
    pub rows: u64,
    /// CRC-32 of the bytes.
    pub crc32: u32,
}

impl DatasetManifest {
    /// Checks that the parts of the manifest agree. Returns a description of the first contradiction.
    pub fn check(&self) -> Result<(), String> {
        let listed = |name: &String| match self.files.contains_key(name) {
            true => Ok(()),
            false => Err(format!("it names the file `{name}` without its checksum")),
        };
        for name in self.files.keys() {
            if name.is_empty() || name.contains('/') || name == ".." || name == "." {
                return Err(format!("`{name}` is not a file name"));
            }
        }
        for (name, entity_type) in &self.entities {
            listed(&entity_type.file)?;
            let wrong = |what: &str| Err(format!("entity type `{name}` {what}"));
            if entity_type.counts.len() != entity_type.num_partitions as usize {
                return wrong("does not have one count per partition");
            }
            if entity_type.featurized != entity_type.features.is_some() {
                return wrong("has contradictory entries about its features");
            }
            if let Some(features) = &entity_type.features {
                listed(&features.file)?;
                listed(&features.names_file)?;
                let bytes = FEATURE_BYTES * u64::from(features.count);
                self.check_capacity(&features.names_file, bytes, "features")?;
            }
            let bytes = ENTITY_BYTES.checked_mul(entity_type.total());
            self.check_capacity(&entity_type.file, bytes.unwrap_or(u64::MAX), "entities")?;
        }
        listed(&self.relations.file)?;
        let bytes = RELATION_BYTES * u64::from(self.relations.count);
        self.check_capacity(&self.relations.file, bytes, "relations")?;
        self.edge_sets.iter().try_for_each(|(name, set)| {
            listed(&set.file)?;
            set.check(self.files[&set.file].size)
                .map_err(|what| format!("edge set `{name}`: {what}"))
        })
    }

    /// Checks that a file is large enough for the `bytes` that the counted `what` take at least, because tables are
    /// allocated according to the manifest.
    fn check_capacity(&self, file: &str, bytes: u64, what: &str) -> Result<(), String> {
        match self.files.get(file) {
            Some(summary) if summary.size >= bytes => Ok(()),
            _ => Err(format!("it counts more {what} than `{file}` can contain")),
        }
    }

    /// Returns the bytes of a type's features in memory: ids and list ends once as they are read and twice as they are
    /// stored, since vectors grow by reallocation, and names.
    #[must_use]
    pub fn feature_bytes(&self, info: &FeatureInfo) -> u64 {
        let size = |file: &String| self.files.get(file).map_or(0, |summary| summary.size);
        5 * size(&info.file) + 2 * size(&info.names_file) + 64 * u64::from(info.count)
    }
}

impl EdgeSetInfo {
    /// Returns the identity of these edges.
    #[must_use]
    pub fn id(&self) -> EdgeSetId {
        let mut sum = crc32fast::Hasher::new();
        sum.update(&[u8::from(self.has_weight)]);
        for batch in &self.batches {
            for number in [batch.bucket.lhs, batch.bucket.rhs, batch.crc32] {
                sum.update(&number.to_le_bytes());
            }
            sum.update(&batch.rows.to_le_bytes());
        }
        EdgeSetId {
            edges: self.edges,
            crc32: sum.finalize(),
        }
    }

    fn check(&self, size: u64) -> Result<(), String> {
        let mut end = self.header_size;
        let mut edges = 0_u64;
        let mut last = None;
        for batch in &self.batches {
            let bucket = batch.bucket;
            let grid = self.lhs_partitions > bucket.lhs && self.rhs_partitions > bucket.rhs;
            if !grid || last > Some(bucket) {
                return Err(format!(
                    "bucket {bucket} is out of order or outside the grid"
                ));
            }
            let row = if self.has_weight { 16 } else { 12 };
            if batch.rows > batch.length / row {
                return Err(format!(
                    "a batch of bucket {bucket} has more edges than bytes"
                ));
            }
            if batch.offset != end || batch.rows == 0 {
                let what = "are empty or not contiguous";
                return Err(format!("the batches of bucket {bucket} {what}"));
            }
            last = Some(bucket);
            let ends = end
                .checked_add(batch.length)
                .zip(edges.checked_add(batch.rows));
            (end, edges) = ends.ok_or("batches are too large")?;
        }
        if end > size || edges != self.edges {
            return Err("the batches do not match the file".to_owned());
        }
        Ok(())
    }
}
