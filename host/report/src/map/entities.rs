//! Entities of a map, and their places.

use std::collections::HashSet;

use pbg_core::model::Comparator;
use pbg_query::{EntityEmbeddings, NamedEntity, QueryModel};

use super::{MapError, MapPoint, groups, project};

/// Entities of a map, with their groups if given.
pub struct MapEntities {
    entities: Vec<NamedEntity>,
    groups: Option<Vec<String>>,
}

impl MapEntities {
    /// Creates a value from entities and, if there are any, their groups, of which each has one.
    #[must_use]
    pub const fn new(entities: Vec<NamedEntity>, groups: Option<Vec<String>>) -> Self {
        Self { entities, groups }
    }

    /// Computes the places of the entities in a model that is trained with `comparator`.
    ///
    /// # Errors
    /// When there are too few entities, or the model cannot be read.
    pub fn place(
        self,
        comparator: Comparator,
        model: &mut QueryModel<'_>,
    ) -> Result<Vec<MapPoint>, MapError> {
        // Long embeddings have large inner products with all others, so directions measure similarity.
        let comparator = match comparator {
            Comparator::Dot | Comparator::Cos => Comparator::Cos,
            Comparator::L2
            | Comparator::SquaredL2
            | Comparator::L1
            | Comparator::ComplexL1
            | Comparator::Traced(_) => Comparator::L2,
        };
        let chosen = model.embeddings(self.entities, Some(comparator))?;
        let places = project(&chosen.rows, chosen.dimension)?;
        let named = self.groups.unwrap_or_else(|| groups_of(&chosen));
        let spots = chosen.entities.into_iter().zip(named).zip(places);
        let spot = |((entity, group), [x, y]): ((NamedEntity, String), [f64; 2])| MapPoint {
            name: entity.name,
            group,
            x,
            y,
        };
        Ok(spots.map(spot).collect())
    }
}

/// Returns the groups of entities if none are given: their types, or groups of similar embeddings.
fn groups_of(chosen: &EntityEmbeddings) -> Vec<String> {
    let entities = &chosen.entities;
    let types: HashSet<&str> = entities.iter().map(|e| e.entity_type.as_str()).collect();
    if types.len() > 1 {
        return entities.iter().map(|e| e.entity_type.clone()).collect();
    }
    let (found, middles) = groups(&chosen.rows, chosen.dimension);
    let name = |group: usize| format!("around {}", entities[middles[group]].name);
    found.into_iter().map(name).collect()
}
