//! Scores of a slice in one direction on a device.

use tch::Tensor;

/// Scores, with the data for the backward pass. After the loss they hold gradients, with all weights.
pub(super) struct ScoreTensors {
    /// Scores of the negatives, `[edges, columns]`.
    pub(super) negative: Tensor,
    /// Scores of the positives, `[edges]`.
    pub(super) positive: Tensor,
    /// For `l2`: distances of the negatives, `[chunks, positives, columns]`.
    pub(super) distances: Option<Tensor>,
    /// For `l2`: distances of the positives, `[edges]`.
    pub(super) positive_distances: Option<Tensor>,
}
