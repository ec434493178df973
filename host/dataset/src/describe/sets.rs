//! Counts per edge set: entities, edges per relation, and edges from an entity to itself.

use std::sync::atomic::{AtomicU64, Ordering};

use super::bits::AtomicBitSet;
use super::error::DescribeError;
use super::numbering::{EntityNumbering, NumberedEdge};
use super::reading::{self, EdgeProgress, ReadingThreads};
use crate::EdgeSet;

/// Counts of an edge set.
pub(super) struct SetCounts {
    /// Number of entities with an edge.
    pub(super) entities: u64,
    /// Number of edges from an entity to itself.
    pub(super) loops: u64,
    /// Number of edges of each relation.
    pub(super) relations: Vec<u64>,
}

/// Returns the memory in bytes that counting takes, besides the buffers for reading edges.
pub(super) fn bytes(numbering: &EntityNumbering, sets: u64) -> u64 {
    AtomicBitSet::bytes(numbering.total())
        + numbering.relations() * size_of::<u64>() as u64 * (sets + 1)
}

/// Counts the entities, loops and edges per relation of `set`.
pub(super) fn count(
    set: &EdgeSet,
    numbering: &EntityNumbering,
    threads: ReadingThreads,
    step: &mut EdgeProgress<'_>,
) -> Result<SetCounts, DescribeError> {
    let entities = AtomicBitSet::new(numbering.total());
    let loops = AtomicU64::new(0);
    let relations = 0..numbering.relations();
    let relations: Vec<_> = relations.map(|_| AtomicU64::default()).collect();
    reading::for_each_part(set, threads, step, |bucket, edges| {
        let mut own = 0;
        for NumberedEdge { lhs, rel, rhs } in numbering.of_bucket(bucket).all(edges) {
            entities.add(lhs);
            entities.add(rhs);
            relations[rel as usize].fetch_add(1, Ordering::Relaxed);
            own += u64::from(lhs == rhs);
        }
        loops.fetch_add(own, Ordering::Relaxed);
    })?;
    Ok(SetCounts {
        entities: entities.len(),
        loops: loops.into_inner(),
        relations: relations.into_iter().map(AtomicU64::into_inner).collect(),
    })
}
