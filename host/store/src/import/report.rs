//! What an import made: edges and entities, kept and left out.

use std::collections::BTreeMap;
use std::path::PathBuf;

use serde_json::json;

use super::ImportError;
use crate::describe::{SharedNames, Unseen};

/// What an import made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// The dataset.
    pub path: PathBuf,
    /// What the files were read as, a line for each way.
    pub read_as: Vec<String>,
    /// Edge sets imported, in order.
    pub sets: Vec<SetReport>,
    /// Edge sets of the dataset before that are still there.
    pub kept_sets: Vec<String>,
    /// Entity types, by name.
    pub types: Vec<TypeReport>,
    /// Relations of the dataset.
    pub relations: u64,
    /// Relations left out for having too few edges.
    pub dropped_relations: u64,
    /// Entities of a features file that are in no edge.
    pub unused_features: u64,
    /// What edge sets that are not trained have that no trained edge has, by name; none where nothing is trained.
    pub unseen: BTreeMap<String, Unseen>,
    /// Names that several entity types have.
    pub shared_names: SharedNames,
    /// What was not counted, and why.
    pub not_counted: Vec<String>,
}

impl ImportReport {
    /// As programs read it.
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

/// What an import made of an edge set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetReport {
    /// Name.
    pub name: String,
    /// Edges written.
    pub edges: u64,
    /// Edges left out with their entities or relation.
    pub dropped: u64,
    /// Lines that are not edges.
    pub skipped: SkippedLines,
}

/// Lines that an import skipped because they are not edges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SkippedLines {
    /// How many.
    pub count: u64,
    /// The first, and what is wrong with it.
    pub first: Option<String>,
}

impl SkippedLines {
    pub(super) fn add(&mut self, count: u64, first: Option<ImportError>) {
        self.count += count;
        if self.first.is_none() {
            self.first = first.map(|error| error.to_string());
        }
    }

    fn as_json(&self) -> serde_json::Value {
        json!({ "lines": self.count, "first": self.first })
    }
}

/// What an import made of an entity type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeReport {
    /// Name.
    pub name: String,
    /// Entities of the dataset.
    pub entities: u64,
    /// Those that were in the dictionary before.
    pub known: u64,
    /// Those known before that are in no imported edge.
    pub absent: u64,
    /// Names left out for being in too few edges.
    pub dropped: u64,
    /// Entities of each partition.
    pub counts: Vec<u32>,
}

/// How much larger than the mean a partition may be. Beyond it the largest decides what memory and
/// time cost, and a fresh import, which cuts anew, is worth the training that it forgets.
pub const MOST_OVER_MEAN: f64 = 1.25;

impl TypeReport {
    /// How many times the mean the largest partition has, if that is more than [`MOST_OVER_MEAN`].
    /// New entities go where there is room, but old ones stay where they are.
    #[must_use]
    pub fn imbalance(&self) -> Option<f64> {
        let largest = self.counts.iter().max()?;
        let smallest = self.counts.iter().min()?;
        let mean = self.entities as f64 / self.counts.len() as f64;
        let ratio = f64::from(*largest) / mean;
        // One more or less is as equal as can be.
        (largest - smallest > 1 && ratio > MOST_OVER_MEAN).then_some(ratio)
    }
}
