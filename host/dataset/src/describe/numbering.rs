//! Consecutive numbering of all entities of a dataset, across types and partitions.

use pbg_core::graph::{Bucket, EdgeColumns};

use crate::Dataset;

/// Numbering of all entities: by type in the order of their names, then by partition.
#[derive(Debug)]
pub(super) struct EntityNumbering {
    /// First number of each partition of each type.
    starts: Vec<Vec<u64>>,
    /// Number of entities of all types.
    total: u64,
    /// Indices of the entity types of both sides, by relation.
    sides: Vec<(usize, usize)>,
}

/// Entities and relation of an edge, with numbered entities.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NumberedEdge {
    pub(super) lhs: u64,
    pub(super) rel: u32,
    pub(super) rhs: u64,
}

impl EntityNumbering {
    pub(super) fn new(dataset: &Dataset) -> Self {
        let entities = &dataset.manifest().entities;
        let mut total = 0;
        let mut start = |&count: &u32| {
            let start = total;
            total += u64::from(count);
            start
        };
        let starts = entities
            .values()
            .map(|info| info.counts.iter().map(&mut start).collect());
        let starts = starts.collect();
        // The dataset has verified that the types of its relations exist.
        let index = |name: &String| entities.keys().position(|known| known == name);
        let relations = dataset.relations().iter();
        let sides = relations.map(|r| (index(&r.lhs).unwrap_or(0), index(&r.rhs).unwrap_or(0)));
        Self {
            starts,
            total,
            sides: sides.collect(),
        }
    }

    /// Returns the number of entities of all types.
    pub(super) fn total(&self) -> u64 {
        self.total
    }

    /// Returns the number of relations.
    pub(super) fn relations(&self) -> u64 {
        self.sides.len() as u64
    }

    /// Returns the first number of a type, by its index.
    pub(super) fn first(&self, type_index: usize) -> u64 {
        self.starts[type_index].first().copied().unwrap_or(0)
    }

    /// Returns the ends of one edge that was read from `bucket`.
    pub(super) fn ends(&self, bucket: Bucket, (lhs, rel, rhs): (u32, u32, u32)) -> NumberedEdge {
        let (left, right) = self.sides[rel as usize];
        let start = |of_type: usize, partition: u32| {
            let start = self.starts[of_type].get(partition as usize);
            start.copied().unwrap_or_default()
        };
        NumberedEdge {
            lhs: start(left, bucket.lhs) + u64::from(lhs),
            rel,
            rhs: start(right, bucket.rhs) + u64::from(rhs),
        }
    }

    /// Returns the numbering of edges of `bucket`.
    pub(super) fn of_bucket(&self, bucket: Bucket) -> BucketNumbers<'_> {
        let starts = |partition: u32| {
            let of_type = |starts: &Vec<u64>| starts.get(partition as usize).copied();
            let starts = self.starts.iter().map(of_type);
            starts.map(Option::unwrap_or_default).collect()
        };
        BucketNumbers {
            lhs: starts(bucket.lhs),
            rhs: starts(bucket.rhs),
            sides: &self.sides,
        }
    }
}

/// First numbers of the partitions of a bucket, by entity type.
pub(super) struct BucketNumbers<'n> {
    lhs: Vec<u64>,
    rhs: Vec<u64>,
    sides: &'n [(usize, usize)],
}

impl BucketNumbers<'_> {
    /// Returns the ends of `edges`. They were read from the dataset, so their relations and offsets are valid.
    pub(super) fn all<'e>(
        &'e self,
        edges: &'e EdgeColumns,
    ) -> impl Iterator<Item = NumberedEdge> + 'e {
        let columns = edges.lhs.iter().zip(&edges.rel).zip(&edges.rhs);
        columns.map(|((&lhs, &rel), &rhs)| {
            let (left, right) = self.sides[rel as usize];
            NumberedEdge {
                lhs: self.lhs[left] + u64::from(lhs),
                rel,
                rhs: self.rhs[right] + u64::from(rhs),
            }
        })
    }
}
