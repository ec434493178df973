//! Entities of a partition that replace one side, and the relations that draw them.

use pbg_core::graph::{Bucket, Side};
use pbg_model::blueprint::Blueprint;

/// The entities of one partition that replace one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct NegativeSet {
    /// Entity type, an index into the layout's types.
    pub(super) entity: usize,
    /// Side that they replace.
    pub(super) side: Side,
    /// Partition of the entity type.
    pub(super) partition: u32,
}

/// Returns the candidate sets from which the batches of a bucket draw.
pub(super) fn negative_sets(blueprint: &Blueprint, bucket: Bucket) -> Vec<NegativeSet> {
    let mut sets = Vec::new();
    for (entity, side) in drawn_types(blueprint) {
        sets.push(NegativeSet {
            entity,
            side,
            partition: blueprint.layout.partition(entity, side, bucket),
        });
    }
    sets
}

/// Returns the entity types from which some relation draws negatives, with the side that they replace.
pub(super) fn drawn_types(blueprint: &Blueprint) -> Vec<(usize, Side)> {
    let types = 0..blueprint.layout.types.len();
    let both = types.flat_map(|entity| Side::BOTH.map(|side| (entity, side)));
    both.filter(|&(entity, side)| {
        let mut relations = blueprint.spec.relations.iter();
        relations.any(|relation| {
            relation.entity(side) == entity && blueprint.spec.uniform_negatives(relation, side) > 0
        })
    })
    .collect()
}

/// Returns the relations that draw negatives of entity type `entity` for `side`.
pub(super) fn relations_of(blueprint: &Blueprint, entity: usize, side: Side) -> Vec<u32> {
    let spec = &blueprint.spec;
    let relations = 0..blueprint.relation_names.len() as u32;
    relations
        .filter(|&relation| {
            let relation = spec.relation(relation);
            relation.entity(side) == entity && spec.uniform_negatives(relation, side) > 0
        })
        .collect()
}
