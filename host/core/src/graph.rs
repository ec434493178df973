//! Graph vocabulary: entities belong to partitions, edges to buckets.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The edges whose left entity is in partition `lhs` and whose right entity is in partition `rhs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Bucket {
    /// Partition of the left-hand side.
    pub lhs: u32,
    /// Partition of the right-hand side.
    pub rhs: u32,
}

impl Bucket {
    /// Creates the bucket of partitions `lhs` and `rhs`.
    #[must_use]
    pub const fn new(lhs: u32, rhs: u32) -> Self {
        Self { lhs, rhs }
    }
}

/// Side and partition of the entities that are held, loaded and written together. If both sides have the same
/// partitions, the side is the left one.
pub type SidePartition = (Side, u32);

impl std::fmt::Display for Bucket {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "({}, {})", self.lhs, self.rhs)
    }
}

/// One side of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// Left-hand side: the head of a triple.
    Lhs,
    /// Right-hand side: the tail of a triple.
    Rhs,
}

impl Side {
    /// Both sides, left first.
    pub const BOTH: [Self; 2] = [Self::Lhs, Self::Rhs];

    /// Returns the opposite side.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Lhs => Self::Rhs,
            Self::Rhs => Self::Lhs,
        }
    }
}

/// Edges in columns, as they are passed from the file to the kernels.
///
/// `lhs` and `rhs` are offsets within the partitions of the bucket, `rel` is an index into the relations of the
/// dataset. All columns have the same length.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EdgeColumns {
    /// Offset of the left entity within its partition.
    pub lhs: Vec<u32>,
    /// Offset of the right entity within its partition.
    pub rhs: Vec<u32>,
    /// Index of each edge's relation.
    pub rel: Vec<u32>,
    /// Weight of each edge; `None` if all are 1.
    pub weight: Option<Vec<f32>>,
}

impl EdgeColumns {
    /// Returns the number of edges.
    #[must_use]
    pub fn len(&self) -> usize {
        self.lhs.len()
    }

    /// Whether there are no edges.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.lhs.is_empty()
    }

    /// Returns the edges at `indices`, in that order.
    #[must_use]
    pub fn select(&self, indices: &[u32]) -> Self {
        let pick = |column: &[u32]| indices.iter().map(|&i| column[i as usize]).collect();
        Self {
            lhs: pick(&self.lhs),
            rhs: pick(&self.rhs),
            rel: pick(&self.rel),
            weight: self
                .weight
                .as_ref()
                .map(|w| indices.iter().map(|&i| w[i as usize]).collect()),
        }
    }
}

/// Entity types and relations of a dataset.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schema {
    /// Entity types by name.
    pub entities: BTreeMap<String, EntityDecl>,
    /// Relations; `*` represents all relations that are not named.
    pub relations: Vec<RelationDecl>,
    /// Whether one entry of `relations` is the template of all relations.
    pub dynamic_relations: bool,
}

/// Entity type of a [`Schema`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntityDecl {
    /// Number of partitions.
    pub num_partitions: u32,
    /// Whether its entities are bags of features.
    pub featurized: bool,
}

/// Relation of a [`Schema`]: its name and the entity types of its sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelationDecl {
    /// Name.
    pub name: String,
    /// Entity type of the left side.
    pub lhs: String,
    /// Entity type of the right side.
    pub rhs: String,
}
