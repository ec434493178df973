//! Maps of entities, in the JSON form of the package.

use pbg_model::ResolvedConfig;
use pbg_query::{NamedEntity, QueryModel};
use pbg_report::map::{MOST, MapEntities, MapError, MapPoint};
use pbg_session::{Failure, FailureKind, Result};
use serde::Deserialize;

use crate::errors::usage;

/// Entities of a map.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct MapRequest {
    /// Names; `None` for the entities with the most edges.
    names: Option<Vec<String>>,
    /// A group of each name.
    groups: Option<Vec<String>>,
    count: usize,
    entity_type: Option<String>,
}

impl MapRequest {
    /// Computes the places of the entities.
    pub(crate) fn points(
        self,
        resolved: &ResolvedConfig,
        model: &mut QueryModel<'_>,
    ) -> Result<Vec<MapPoint>> {
        let entity_type = self.entity_type.as_deref();
        let wanted = self.names.as_ref().map_or(self.count, Vec::len);
        if wanted > MOST {
            return Err(usage(MapError::TooMany(wanted)));
        }
        let entities: Vec<NamedEntity> = match &self.names {
            Some(names) => {
                let named = names.iter().map(|name| model.named(name, entity_type));
                named.collect::<std::result::Result<_, _>>()?
            }
            None => {
                let sets = &resolved.config().edge_sets;
                model.most_connected(self.count, sets, entity_type)?
            }
        };
        let placed = MapEntities::new(entities, self.groups)
            .place(resolved.blueprint().spec.comparator, model);
        placed.map_err(|error| match error {
            MapError::Model(error) => error.into(),
            MapError::Thread(_) => Failure::new(FailureKind::Internal, error),
            MapError::TooFew(_) | MapError::TooMany(_) => usage(error),
        })
    }
}
