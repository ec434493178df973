//! Numbers of edges of the entities of a partition, read from the dataset.

use pbg_core::graph::{Bucket, EdgeColumns, Side};
use pbg_core::strategy::RequiredData;
use pbg_dataset::EdgeSet;
use pbg_model::blueprint::Blueprint;
use pbg_model::error::RunError;

use super::negative_set::NegativeSet;

/// Edges that are read at once: as many as a record batch has, so that each is decoded once.
pub(super) const ROWS: u64 = 1 << 20;
/// Bytes of an edge while it is counted with its relation.
pub(super) const KEY_BYTES: u64 = size_of::<u64>() as u64;

/// Numbers of edges of the entities of a negative set, over all edge sets that the run trains.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct EntityCounts {
    /// Number of entities.
    pub(super) entities: u32,
    /// Edges of each entity; empty unless required.
    pub(super) of_side: Vec<u32>,
    /// First entry of each relation in `seen` and `edges`, and the number of entries; empty unless required.
    pub(super) starts: Vec<usize>,
    /// Entities seen with each relation, in ascending order.
    pub(super) seen: Vec<u32>,
    /// Edges of each of these entities with the relation.
    pub(super) edges: Vec<u32>,
}

impl EntityCounts {
    /// Counts the edges of `set`.
    ///
    /// # Errors
    /// When edges cannot be read.
    pub(super) fn read(
        required: RequiredData,
        set: NegativeSet,
        blueprint: &Blueprint,
        edge_sets: &[EdgeSet],
    ) -> Result<Self, RunError> {
        let entities = blueprint.layout.types[set.entity].rows[set.partition as usize];
        // The rows of a partition are counted in 32 bits in the dataset.
        let entities = u32::try_from(entities).unwrap_or(u32::MAX);
        let mut counter = EdgeCounter::new(required, set, blueprint, entities);
        if required.relation_counts {
            let edges = edge_sets.iter().map(|of| edges_of(of, set, blueprint));
            counter.keys.reserve_exact(edges.sum::<u64>() as usize);
        }
        if required.relation_counts || required.side_counts {
            let mut columns = EdgeColumns::default();
            for edge_set in edge_sets {
                for bucket in buckets_of(edge_set, set, blueprint) {
                    let rows = edge_set.bucket_len(bucket);
                    for start in (0..rows).step_by(ROWS as usize) {
                        let piece = start..rows.min(start + ROWS);
                        edge_set.read_into(bucket, piece, &mut columns)?;
                        counter.count(&columns);
                    }
                }
            }
        }
        Ok(counter.finish())
    }

    /// Returns the number of edges of `relation` and of different entities on them; 0 if they are not counted.
    pub(super) fn of_relation(&self, relation: u32) -> (u64, u32) {
        let (seen, edges) = self.seen_with(relation);
        (edges.iter().map(|&n| u64::from(n)).sum(), seen.len() as u32)
    }

    /// Returns the entities seen with `relation`, and the edges of each.
    pub(super) fn seen_with(&self, relation: u32) -> (&[u32], &[u32]) {
        let relation = relation as usize;
        match self.starts.get(relation..relation + 2) {
            Some(&[start, end]) => (&self.seen[start..end], &self.edges[start..end]),
            _ => (&[], &[]),
        }
    }
}

/// Returns the buckets with edges whose `set.side` may be in the partition.
fn buckets_of(edge_set: &EdgeSet, set: NegativeSet, blueprint: &Blueprint) -> Vec<Bucket> {
    let mut buckets = edge_set.filled_buckets();
    buckets.retain(|&bucket| {
        blueprint.layout.partition(set.entity, set.side, bucket) == set.partition
    });
    buckets
}

/// Returns the number of edges in these buckets.
fn edges_of(edge_set: &EdgeSet, set: NegativeSet, blueprint: &Blueprint) -> u64 {
    let buckets = buckets_of(edge_set, set, blueprint).into_iter();
    buckets.map(|bucket| edge_set.bucket_len(bucket)).sum()
}

/// Counts under way.
struct EdgeCounter {
    side: Side,
    entities: u32,
    /// Whether a relation has the entity type on the side, by relation.
    relations: Vec<bool>,
    of_side: Vec<u32>,
    by_relation: bool,
    /// Relation and entity of each edge, the relation in the upper half.
    keys: Vec<u64>,
}

impl EdgeCounter {
    fn new(required: RequiredData, set: NegativeSet, blueprint: &Blueprint, entities: u32) -> Self {
        let relations = 0..blueprint.relation_names.len() as u32;
        let has = relations.map(|relation| blueprint.type_of(relation, set.side) == set.entity);
        let counted = if required.side_counts { entities } else { 0 };
        Self {
            side: set.side,
            entities,
            relations: has.collect(),
            of_side: vec![0; counted as usize],
            by_relation: required.relation_counts,
            keys: Vec::new(),
        }
    }

    fn count(&mut self, columns: &EdgeColumns) {
        let side = match self.side {
            Side::Lhs => &columns.lhs,
            Side::Rhs => &columns.rhs,
        };
        for (&entity, &relation) in side.iter().zip(&columns.rel) {
            if !self.relations[relation as usize] {
                continue;
            }
            if let Some(edges) = self.of_side.get_mut(entity as usize) {
                *edges = edges.saturating_add(1);
            }
            if self.by_relation {
                self.keys
                    .push(u64::from(relation) << 32 | u64::from(entity));
            }
        }
    }

    fn finish(mut self) -> EntityCounts {
        let mut counts = EntityCounts {
            entities: self.entities,
            of_side: self.of_side,
            ..EntityCounts::default()
        };
        if !self.by_relation {
            return counts;
        }
        self.keys.sort_unstable();
        let runs = || self.keys.chunk_by(|a, b| a == b);
        let entries = runs().count();
        counts.seen.reserve_exact(entries);
        counts.edges.reserve_exact(entries);
        counts.starts.reserve_exact(self.relations.len() + 1);
        for run in runs() {
            let [key, ..] = run else { continue };
            let relation = (key >> 32) as usize;
            while counts.starts.len() <= relation {
                counts.starts.push(counts.seen.len());
            }
            counts.seen.push(*key as u32);
            counts.edges.push(run.len().min(u32::MAX as usize) as u32);
        }
        while counts.starts.len() <= self.relations.len() {
            counts.starts.push(counts.seen.len());
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_counted_by_entity_and_relation() {
        let mut counter = EdgeCounter {
            side: Side::Rhs,
            entities: 4,
            relations: vec![true, false, true, true],
            of_side: vec![0; 4],
            by_relation: true,
            keys: Vec::new(),
        };
        counter.count(&EdgeColumns {
            lhs: vec![9, 9, 9, 9, 9, 9],
            rhs: vec![3, 0, 3, 1, 3, 2],
            rel: vec![2, 0, 2, 1, 0, 2],
            weight: None,
        });
        let counts = counter.finish();
        assert_eq!(counts.of_side, [1, 0, 1, 3]);
        assert_eq!(counts.seen_with(0), (&[0, 3][..], &[1, 1][..]));
        assert_eq!(counts.seen_with(1), (&[][..], &[][..]));
        assert_eq!(counts.seen_with(2), (&[2, 3][..], &[1, 2][..]));
        assert_eq!(counts.seen_with(3), (&[][..], &[][..]));
        assert_eq!(counts.of_relation(2), (3, 2));
        assert_eq!(counts.of_relation(4), (0, 0));
    }
}
