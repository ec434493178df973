//! Which answers are known to be right: the filter of filtered ranks.

use std::collections::HashMap;

use pbg_core::graph::Side;

use super::{Edge, read_edges};
use crate::error::RunError;
use crate::trained::Trained;

/// An entity of a known type: partition and offset.
pub(crate) type Entity = (u32, u32);

/// A question: the side that is asked for, the relation, and the entity on the other side.
type Question = (Side, u32, Entity);

/// The known answers to the questions that a set of edges asks.
#[derive(Debug, Default)]
pub(crate) struct Known {
    answers: HashMap<Question, Vec<Entity>>,
}

impl Known {
    /// Collects the answers that the edge sets `filter` give to the questions of `edges`.
    pub(crate) fn read(
        model: &Trained<'_>,
        edges: &[Edge],
        filter: &[String],
    ) -> Result<Self, RunError> {
        let mut known = Self::default();
        if filter.is_empty() {
            return Ok(known);
        }
        for edge in edges {
            for side in Side::BOTH {
                known
                    .answers
                    .entry(question(model, edge, side))
                    .or_default();
            }
        }
        for name in filter {
            for edge in read_edges(model, name)?.0 {
                for side in Side::BOTH {
                    if let Some(answers) = known.answers.get_mut(&question(model, &edge, side)) {
                        answers.push(entity(model, &edge, side));
                    }
                }
            }
        }
        for answers in known.answers.values_mut() {
            answers.sort_unstable();
            answers.dedup();
        }
        Ok(known)
    }

    /// Offsets in `partition` of the known answers to what `edge` asks about `side`.
    pub(crate) fn answers<'a>(
        &'a self,
        model: &Trained<'_>,
        edge: &Edge,
        side: Side,
        partition: u32,
    ) -> impl Iterator<Item = u32> + use<'a> {
        let all = self
            .answers
            .get(&question(model, edge, side))
            .map_or(&[][..], Vec::as_slice);
        let start = all.partition_point(|&(p, _)| p < partition);
        all[start..]
            .iter()
            .take_while(move |&&(p, _)| p == partition)
            .map(|&(_, offset)| offset)
    }
}

fn question(model: &Trained<'_>, edge: &Edge, side: Side) -> Question {
    (side, edge.rel, entity(model, edge, side.other()))
}

/// The entity on `side` of `edge`.
pub(crate) fn entity(model: &Trained<'_>, edge: &Edge, side: Side) -> Entity {
    let blueprint = &model.blueprint;
    let entity_type = blueprint.type_of(edge.rel, side);
    (
        blueprint.layout.partition(entity_type, side, edge.bucket),
        edge.offset(side),
    )
}
