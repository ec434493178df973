//! Answers to questions.

use std::collections::HashMap;

use pbg_dataset::EntityId;

use super::top_k::ScoredAnswer;

/// Answers to a block of questions, in their order.
pub struct Predictions {
    pub(super) found: Vec<ScoredAnswer>,
    /// Names of the answers, by entity type.
    pub(super) names: Vec<HashMap<EntityId, String>>,
}

/// Answer to a question.
#[derive(Clone, Debug, PartialEq)]
pub struct Prediction<'p> {
    /// Number of entities, or of relations, that were left out because they make a known edge.
    pub left_out: u64,
    /// Best of the others with their scores, best first; equal scores are in the order of the
    /// dictionary.
    pub best: Vec<(&'p str, f32)>,
}

impl Predictions {
    /// Returns the answers one by one.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Prediction<'_>> {
        self.found.iter().map(|found| {
            let names = &self.names[found.entity_type];
            let name = |id| names.get(id).map_or("", String::as_str);
            let best = found.best.iter();
            Prediction {
                left_out: found.left_out,
                best: best.map(|(id, score)| (name(id), *score)).collect(),
            }
        })
    }
}
