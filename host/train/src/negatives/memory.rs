//! Upper bound of the memory of the tables from which negatives are drawn.

use pbg_core::draw_table::{BUILDING_BYTES, WEIGHTED_BYTES};
use pbg_core::graph::{Bucket, Side};
use pbg_core::strategy::RequiredData;
use pbg_dataset::EdgeSet;
use pbg_model::blueprint::Blueprint;

use super::counts::{KEY_BYTES, ROWS};
use super::negative_set::{drawn_types, relations_of};
use super::relation_entities::all_sets;
use super::tables::{LISTED_BYTES, LISTED_NAME, LISTED_NAMES, SIDE_POWERS};

/// Bytes of an edge's columns, decoded and as read.
const READ_EDGE: u64 = 32;
/// Bytes of a count.
const COUNT: u64 = size_of::<u32>() as u64;
/// Bytes of a relation's mixture, with its parts and the heads of its tables.
const MIXTURE: u64 = 512;

/// Returns the largest number of bytes of the tables that samplers with these requirements need at one time, with what
/// building them takes.
pub(crate) fn table_bytes(
    required: RequiredData,
    blueprint: &Blueprint,
    edge_sets: &[EdgeSet],
    buffer_partitions: u32,
) -> u64 {
    if required.is_nothing() {
        return 0;
    }
    let filled: Vec<Vec<Bucket>> = edge_sets.iter().map(EdgeSet::filled_buckets).collect();
    let edges_of = |entity: usize, side: Side| {
        let mut edges = vec![0_u64; blueprint.layout.types[entity].rows.len()];
        for (edge_set, buckets) in edge_sets.iter().zip(&filled) {
            for &bucket in buckets {
                let partition = blueprint.layout.partition(entity, side, bucket);
                edges[partition as usize] += edge_set.bucket_len(bucket);
            }
        }
        edges
    };
    let (mut kept, mut building) = (0_u64, 0_u64);
    if required.relation_entities {
        // The partitions are counted one after another, and only the numbers of relations stay.
        let counted = RequiredData {
            relation_counts: true,
            ..RequiredData::default()
        };
        let relations = blueprint.relation_names.len() as u64;
        for set in all_sets(blueprint) {
            let entities = blueprint.layout.types[set.entity].rows[set.partition as usize];
            let edges = edges_of(set.entity, set.side)[set.partition as usize];
            let (stays, while_built) = set_bytes(counted, entities, edges, relations);
            building = building.max(stays.saturating_add(while_built));
        }
        kept = relations.saturating_mul(2 * size_of::<u64>() as u64);
    }
    for (entity, side) in drawn_types(blueprint) {
        let rows = &blueprint.layout.types[entity].rows;
        let edges = edges_of(entity, side);
        let relations = relations_of(blueprint, entity, side).len() as u64;
        let (mut largest, mut most) = (0, 0);
        for (&entities, &edges) in rows.iter().zip(&edges) {
            let (stays, while_built) = set_bytes(required, entities, edges, relations);
            largest = largest.max(stays);
            most = most.max(while_built);
        }
        let sets = rows.len().min(buffer_partitions as usize) as u64;
        kept = kept.saturating_add(largest.saturating_mul(sets));
        building = building.max(most);
    }
    kept.saturating_add(building)
}

/// Returns the bytes of a negative set's tables, and those that are needed in addition while it is counted and while its
/// tables are built.
fn set_bytes(required: RequiredData, entities: u64, edges: u64, relations: u64) -> (u64, u64) {
    let mut stays = relations.saturating_mul(MIXTURE);
    let mut building = edges.min(ROWS) * READ_EDGE;
    if required.side_counts {
        let tables = SIDE_POWERS as u64 * WEIGHTED_BYTES;
        stays = stays.saturating_add(entities.saturating_mul(COUNT + tables));
        building = building.max(entities.saturating_mul(BUILDING_BYTES));
    }
    if required.relation_counts {
        let seen = edges.min(entities.saturating_mul(relations));
        stays = stays.saturating_add(seen.saturating_mul(2 * COUNT + WEIGHTED_BYTES));
        // The keys of all edges are sorted; the tables are built after they are gone.
        let keys = edges.saturating_mul(KEY_BYTES);
        building = building
            .saturating_add(keys)
            .max(seen.saturating_mul(BUILDING_BYTES));
    }
    if required.names {
        // Answers are held together with the map of their names.
        let names = LISTED_NAMES as u64 * LISTED_NAME + 2 * LISTED_BYTES as u64;
        building = building.saturating_add(names);
        stays = stays.saturating_add(LISTED_NAMES as u64 * WEIGHTED_BYTES);
    }
    (stays, building)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_required_takes_memory() {
        let side = RequiredData {
            side_counts: true,
            ..RequiredData::default()
        };
        let relation = RequiredData {
            relation_counts: true,
            ..RequiredData::default()
        };
        let (by_side, _) = set_bytes(side, 1000, 10, 1);
        assert_eq!(by_side, 512 + 1000 * (4 + 4 * 12));
        // No more entities are seen with a relation than it has edges.
        let (by_relation, _) = set_bytes(relation, 1000, 10, 1);
        assert_eq!(by_relation, 512 + 10 * 20);
        let (bounded, _) = set_bytes(relation, 10, 1000, 3);
        assert_eq!(bounded, 3 * 512 + 30 * 20);
    }
}
