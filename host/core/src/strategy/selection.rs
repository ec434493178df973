//! Negative selectors: negatives chosen chunk by chunk, by code.

use serde::{Deserialize, Serialize};

use super::{RunLength, StrategyError, StrategyId};
use crate::graph::Side;
use crate::schedule::PassId;

/// Strategy that chooses the negatives of each chunk. Each worker calls it through its own [`SelectionWorker`].
pub trait NegativeSelector: Send + Sync {
    /// Returns the identity of the strategy.
    fn id(&self) -> &StrategyId;

    /// Called when a run of this length begins or continues.
    fn begin_run(&self, length: RunLength) {
        let _ = length;
    }

    /// Returns what a selection needs, which [`SelectionRequirements::check`] accepts.
    fn required(&self) -> SelectionRequirements;

    /// Creates a selector for one thread. It may create its instance at its first call.
    fn worker(&self) -> Box<dyn SelectionWorker>;
}

/// [`NegativeSelector`] of one thread.
pub trait SelectionWorker: Send {
    /// Returns the negatives of a chunk, which [`check_selection`] accepts.
    ///
    /// # Errors
    /// Fails if the strategy refuses, traps, exceeds its limits or returns an invalid selection.
    fn select(&mut self, chunk: &NegativeChunk) -> Result<NegativeSelection, StrategyError>;
}

/// Largest number of candidates for each negative.
pub const MAX_CANDIDATES: u32 = 64;

/// What a strategy needs to select negatives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SelectionRequirements {
    /// Candidates in a pool for each negative, from 1 to [`MAX_CANDIDATES`].
    pub candidates_per_negative: u32,
    /// Whether the current model scores the candidates.
    pub scores: bool,
}

impl SelectionRequirements {
    /// Checks the number of candidates.
    ///
    /// # Errors
    /// When it is out of range.
    pub fn check(self) -> Result<Self, SelectionError> {
        match self.candidates_per_negative {
            1..=MAX_CANDIDATES => Ok(self),
            other => Err(SelectionError::Candidates(other)),
        }
    }

    /// Returns the number of candidates for `negatives` negatives.
    #[must_use]
    pub fn pool(self, negatives: usize) -> usize {
        negatives.saturating_mul(self.candidates_per_negative as usize)
    }
}

/// Edges that share negatives, and the entities that may replace one of their sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NegativeChunk {
    /// Side of the edges that is replaced.
    pub side: Side,
    /// Entity type of this side.
    pub entity_type: String,
    /// Number of the partition of this side.
    pub partition: u32,
    /// Number of entities in this partition.
    pub entities: u32,
    /// Number of the partition of the other side.
    pub kept_partition: u32,
    /// Relation of each edge.
    pub relations: Vec<u32>,
    /// Entity of each edge on the other side.
    pub kept: Vec<u32>,
    /// Entity of each edge on the side that is replaced.
    pub replaced: Vec<u32>,
    /// Pool of uniformly drawn entities.
    pub candidates: Vec<u32>,
    /// Scores, if they are required.
    pub scores: Option<CandidateScores>,
    /// Number of negatives to select.
    pub negatives: u32,
    /// Position of the pass in the run.
    pub pass: PassId,
    /// Seed for everything random in this selection.
    pub seed: u64,
}

/// Scores of a chunk's edges and of its candidates.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CandidateScores {
    /// Score of each edge.
    pub positives: Vec<f32>,
    /// Mean score of each candidate over the edges that do not have it; [`MASKED`](super::MASKED) if all have it.
    pub means: Vec<f32>,
    /// Highest of these scores.
    pub highest: Vec<f32>,
}

/// The negatives of a chunk.
#[derive(Clone, Debug, PartialEq)]
pub enum NegativeSelection {
    /// Entities within the partition.
    Entities(Vec<u32>),
    /// Weight of each candidate, by which the host draws.
    Weights(Vec<f32>),
}

/// Violation of a negative selector's contract.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum SelectionError {
    /// The number of candidates is out of range.
    #[error(
        "it requires {0} candidates per negative; the number must be from 1 to {MAX_CANDIDATES}"
    )]
    Candidates(u32),
    /// The number of entities is wrong.
    #[error("it selected {found} entities, but the chunk has {wanted} negatives")]
    Length {
        /// Entities selected.
        found: usize,
        /// Negatives of the chunk.
        wanted: u32,
    },
    /// An entity does not exist.
    #[error(
        "it selected entity {entity}, but the partition has {entities} entities, numbered from 0"
    )]
    Entity {
        /// Entity selected.
        entity: u32,
        /// Entities of the partition.
        entities: u32,
    },
    /// The number of weights is wrong.
    #[error("it returned {found} weights for {wanted} candidates; give one weight per candidate")]
    Uneven {
        /// Weights returned.
        found: usize,
        /// Candidates of the chunk.
        wanted: usize,
    },
    /// A weight is negative or not finite.
    #[error("the weight of candidate {index} is {weight}; it must be at least 0 and finite")]
    Weight {
        /// Index of the candidate.
        index: usize,
        /// Its weight.
        weight: f32,
    },
    /// No candidate has a weight.
    #[error("all weights are 0; give at least one candidate a weight above 0")]
    NoWeight,
}

/// Checks a selection: it has the right length, and only entities that exist or valid weights.
///
/// # Errors
/// Returns the first violation.
pub fn check_selection(
    selection: &NegativeSelection,
    chunk: &NegativeChunk,
) -> Result<(), SelectionError> {
    match selection {
        NegativeSelection::Entities(entities) => {
            let (found, wanted) = (entities.len(), chunk.negatives);
            if found != wanted as usize {
                return Err(SelectionError::Length { found, wanted });
            }
            let limit = chunk.entities;
            match entities.iter().find(|&&entity| entity >= limit) {
                Some(&entity) => Err(SelectionError::Entity {
                    entity,
                    entities: limit,
                }),
                None => Ok(()),
            }
        }
        NegativeSelection::Weights(weights) => {
            let (found, wanted) = (weights.len(), chunk.candidates.len());
            if found != wanted {
                return Err(SelectionError::Uneven { found, wanted });
            }
            let valid = |weight: &f32| (0.0..=f32::MAX).contains(weight);
            if let Some(index) = weights.iter().position(|weight| !valid(weight)) {
                let weight = weights[index];
                return Err(SelectionError::Weight { index, weight });
            }
            match weights.iter().any(|&weight| weight > 0.0) {
                true => Ok(()),
                false => Err(SelectionError::NoWeight),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chunk() -> NegativeChunk {
        NegativeChunk {
            side: Side::Rhs,
            entity_type: "entity".to_owned(),
            partition: 0,
            entities: 9,
            kept_partition: 0,
            relations: vec![0],
            kept: vec![1],
            replaced: vec![2],
            candidates: vec![4, 5, 6, 4],
            scores: None,
            negatives: 2,
            pass: PassId::default(),
            seed: 7,
        }
    }

    #[test]
    fn answers_that_cannot_be_trained_are_refused() {
        use NegativeSelection::{Entities, Weights};
        let check = |selection: NegativeSelection| check_selection(&selection, &chunk());
        for valid in [
            Entities(vec![8, 8]),
            Weights(vec![0.0, 0.0, 1.0, 0.0]),
            Weights(vec![f32::MAX; 4]),
        ] {
            assert_eq!(check(valid), Ok(()));
        }
        for (broken, reason) in [
            (Entities(vec![1]), "1 entities, but the chunk has 2"),
            (Entities(vec![1, 9]), "entity 9, but the partition has 9"),
            (Weights(vec![1.0]), "1 weights for 4 candidates"),
            (Weights(vec![1.0, f32::NAN, 1.0, 1.0]), "candidate 1 is NaN"),
            (Weights(vec![1.0, 1.0, 1.0, -1.0]), "candidate 3 is -1"),
            (Weights(vec![f32::INFINITY; 4]), "candidate 0 is inf"),
            (Weights(vec![0.0; 4]), "all weights are 0"),
        ] {
            let text = check(broken).unwrap_err().to_string();
            assert!(text.contains(reason), "{text}");
        }
        for (wanted, fits) in [(0, false), (1, true), (64, true), (65, false)] {
            let required = SelectionRequirements {
                candidates_per_negative: wanted,
                scores: false,
            };
            assert_eq!(required.check().is_ok(), fits, "{wanted}");
        }
    }
}
