//! Report of an import: edges and entities that were imported, kept and dropped.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::json;

use super::ImportError;
use pbg_dataset::describe::{SharedNames, UnseenCounts};

/// Report of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// Folder of the dataset.
    pub path: PathBuf,
    /// Detected formats of the files, one line per format.
    pub read_as: Vec<String>,
    /// Imported edge sets, in order.
    pub sets: Vec<SetReport>,
    /// Edge sets kept from the previous dataset.
    pub kept_sets: Vec<String>,
    /// Entity types, by name.
    pub types: Vec<TypeReport>,
    /// Number of relations of the dataset.
    pub relations: u64,
    /// Number of relations dropped because they have too few edges.
    pub dropped_relations: u64,
    /// Number of entities in features files that have no edge.
    pub unused_features: u64,
    /// Entities and relations of held-out edge sets that no trained edge has, by set; empty if no set is trained.
    pub unseen: BTreeMap<String, UnseenCounts>,
    /// Names that several entity types have in common.
    pub shared_names: SharedNames,
    /// Statistics that were not computed, with the reasons.
    pub not_counted: Vec<String>,
}

impl ImportReport {
    /// Returns the report as JSON.
    #[must_use]
    pub fn as_json(&self) -> serde_json::Value {
        let sets = self
            .sets
            .iter()
            .map(|s| json!({ "name": s.name, "edges": s.edges, "dropped": s.dropped, "skipped": s.skipped.as_json() }));
        let types = self.types.iter().map(|t| {
            json!({
                "name": t.name, "entities": t.entities, "known": t.known, "absent": t.absent, "dropped": t.dropped,
                "partitions": t.counts,
            })
        });
        json!({
            "dataset": self.path,
            "read_as": self.read_as,
            "edge_sets": sets.collect::<Vec<_>>(),
            "kept_edge_sets": self.kept_sets,
            "entity_types": types.collect::<Vec<_>>(),
            "relations": self.relations,
            "dropped_relations": self.dropped_relations,
            "unused_features": self.unused_features,
            "unseen": self.unseen,
            "shared_names": self.shared_names,
            "not_counted": self.not_counted,
        })
    }
}

/// Report on an edge set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetReport {
    /// Name of the set.
    pub name: String,
    /// Number of edges written.
    pub edges: u64,
    /// Number of edges dropped with their entities or relation.
    pub dropped: u64,
    /// Lines that were skipped because they are not edges.
    pub skipped: SkippedLines,
}

/// Lines that an import skipped because they are not edges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkippedLines {
    /// Number of lines.
    pub count: u64,
    /// The first one, with the reason.
    pub first: Option<String>,
    /// Number of triples of RDF files that were skipped because their object is a literal.
    pub literals: u64,
}

impl SkippedLines {
    pub(super) fn add(&mut self, count: u64, first: Option<ImportError>) {
        self.count += count;
        if self.first.is_none() {
            self.first = first.map(|error| error.to_string());
        }
    }

    fn as_json(&self) -> serde_json::Value {
        json!({ "lines": self.count, "first": self.first, "literals": self.literals })
    }
}

/// Report on an entity type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeReport {
    /// Name of the type.
    pub name: String,
    /// Number of entities in the dataset.
    pub entities: u64,
    /// Number of those that the previous dictionary already contained.
    pub known: u64,
    /// Number of previously known entities without an edge in this import.
    pub absent: u64,
    /// Number of names dropped because they have too few edges.
    pub dropped: u64,
    /// Number of entities in each partition.
    pub counts: Vec<u32>,
}

/// Maximum ratio of the largest partition to the mean without a warning. Beyond it, the largest partition dominates
/// memory and time, and a fresh import, which divides entities anew, is worth the lost training.
pub const MOST_OVER_MEAN: f64 = 1.25;

impl TypeReport {
    /// Returns the ratio of the largest partition to the mean, if it exceeds [`MOST_OVER_MEAN`]. New entities are put
    /// into smaller partitions, but known ones keep theirs.
    #[must_use]
    pub fn imbalance(&self) -> Option<f64> {
        let largest = self.counts.iter().max()?;
        let smallest = self.counts.iter().min()?;
        let mean = self.entities as f64 / self.counts.len() as f64;
        let ratio = f64::from(*largest) / mean;
        // A difference of one cannot be avoided.
        (largest - smallest > 1 && ratio > MOST_OVER_MEAN).then_some(ratio)
    }
}
