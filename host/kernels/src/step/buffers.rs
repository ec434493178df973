//! Buffers of a slice and of all entities, which a worker reuses from slice to slice.

use crate::step::prepared_rows::{PreparedRows, RowGradients};
use crate::step::score_buffers::ScoreBuffers;

/// Buffers of one side of a slice.
#[derive(Debug, Default)]
pub(crate) struct SliceSide {
    /// Positives and uniform negatives, chunk by chunk.
    pub(crate) rows: PreparedRows,
    /// Gradients of the positives.
    pub(crate) positives: RowGradients,
    /// Gradients of sampled candidates.
    pub(crate) candidates: RowGradients,
}

impl SliceSide {
    pub(crate) fn bytes(&self) -> usize {
        self.rows.bytes() + self.positives.bytes() + self.candidates.bytes()
    }
}

/// With all negatives: every entity that replaces a side, and its gradients, summed over the whole batch.
#[derive(Debug, Default)]
pub(crate) struct EntityBuffers {
    pub(crate) rows: PreparedRows,
    pub(crate) gradients: RowGradients,
}

impl EntityBuffers {
    pub(crate) fn bytes(&self) -> usize {
        self.rows.bytes() + self.gradients.bytes()
    }
}

/// Buffers of a slice.
#[derive(Debug, Default)]
pub(crate) struct SliceBuffers {
    pub(super) sides: [SliceSide; 2],
    pub(super) scores: ScoreBuffers,
}

impl SliceBuffers {
    pub(crate) fn bytes(&self) -> usize {
        self.scores.bytes() + self.sides.iter().map(SliceSide::bytes).sum::<usize>()
    }
}
