//! Numbers of entities on each side of each relation's edges, in all partitions.

use pbg_core::graph::Side;
use pbg_core::strategy::RequiredData;
use pbg_dataset::EdgeSet;
use pbg_model::blueprint::Blueprint;
use pbg_model::error::RunError;

use super::counts::EntityCounts;
use super::negative_set::NegativeSet;

/// Number of different entities that the edges of each relation have on each side, over all edge sets that the run trains.
#[derive(Debug, Default)]
pub(super) struct RelationEntities {
    /// By side and relation.
    entities: [Vec<u64>; 2],
}

impl RelationEntities {
    /// Counts the entities, partition by partition.
    ///
    /// # Errors
    /// When edges cannot be read.
    pub(super) fn count(blueprint: &Blueprint, edge_sets: &[EdgeSet]) -> Result<Self, RunError> {
        let required = RequiredData {
            relation_counts: true,
            ..RequiredData::default()
        };
        let relations = blueprint.relation_names.len() as u32;
        let mut entities = [vec![0; relations as usize], vec![0; relations as usize]];
        for set in all_sets(blueprint) {
            let counts = EntityCounts::read(required, set, blueprint, edge_sets)?;
            for relation in 0..relations {
                // An entity is in one partition only.
                let (_, seen) = counts.of_relation(relation);
                entities[set.side as usize][relation as usize] += u64::from(seen);
            }
        }
        Ok(Self { entities })
    }

    /// Returns the number of entities that the edges of `relation` have on `side`.
    pub(super) fn of(&self, relation: u32, side: Side) -> u64 {
        let of_side = &self.entities[side as usize];
        of_side.get(relation as usize).copied().unwrap_or_default()
    }
}

/// Returns all partitions of all entity types that some relation has on a side.
pub(super) fn all_sets(blueprint: &Blueprint) -> Vec<NegativeSet> {
    let mut sets = Vec::new();
    for side in Side::BOTH {
        for (entity, of_type) in blueprint.layout.types.iter().enumerate() {
            let mut relations = blueprint.spec.relations.iter();
            if relations.any(|relation| relation.entity(side) == entity) {
                let partitions = 0..of_type.rows.len() as u32;
                sets.extend(partitions.map(|partition| NegativeSet {
                    entity,
                    side,
                    partition,
                }));
            }
        }
    }
    sets
}
