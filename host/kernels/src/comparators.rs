//! How embeddings are prepared for comparison, and how a matrix of inner products becomes scores.
//!
//! Everything is an inner product of prepared rows, so that it can be a matrix product. `cos` prepares
//! by normalising; distances follow from `|q|^2 - 2 q k + |k|^2`; a bias is taken out of the row, which
//! keeps a zero in its place, and added to the scores.

use pbg_core::model::Comparator;

use crate::spec::ModelSpec;
use crate::vector;

/// Smallest squared distance: keeps the derivative of the square root finite.
pub const SMALLEST_SQUARE: f32 = 1e-30;

/// What scores are made of.
#[derive(Clone, Copy, Debug)]
pub struct Comparison {
    /// How rows are compared.
    pub comparator: Comparator,
    /// Whether the first number of a row is added to its scores instead.
    pub bias: bool,
}

/// What preparing a row took out of it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RowExtras {
    /// For `cos`: one over the row's length.
    pub(crate) inverse_norm: f32,
    /// For distances: squared length of the prepared row.
    pub(crate) square: f32,
    /// The bias.
    pub(crate) bias: f32,
}

impl Comparison {
    /// What `spec` compares with.
    #[must_use]
    pub fn of(spec: &ModelSpec) -> Self {
        Self {
            comparator: spec.comparator,
            bias: spec.bias,
        }
    }

    /// Whether scores are distances.
    #[must_use]
    pub fn is_distance(self) -> bool {
        matches!(self.comparator, Comparator::L2 | Comparator::SquaredL2)
    }

    /// Whether rows are compared as they are and scores are plain inner products.
    pub(crate) fn is_plain(self) -> bool {
        self.comparator == Comparator::Dot && !self.bias
    }

    /// Whether inner products are not yet scores.
    pub(crate) fn has_epilogue(self) -> bool {
        self.is_distance() || self.bias
    }

    /// Prepares a row in place.
    #[inline]
    pub(crate) fn prepare(self, row: &mut [f32]) -> RowExtras {
        let mut extras = RowExtras::default();
        if self.bias {
            extras.bias = std::mem::take(&mut row[0]);
        }
        match self.comparator {
            Comparator::Dot => {}
            Comparator::Cos => {
                let norm = vector::dot(row, row).sqrt();
                // A zero vector has no direction: it scores 0 with everything and gets no gradient.
                extras.inverse_norm = if norm == 0.0 { 0.0 } else { 1.0 / norm };
                vector::scale(row, extras.inverse_norm);
            }
            Comparator::L2 | Comparator::SquaredL2 => extras.square = vector::dot(row, row),
        }
        extras
    }

    /// Replaces the gradient of a prepared row by that of the row before.
    #[inline]
    pub(crate) fn prepare_backward(
        self,
        prepared: &[f32],
        extras: RowExtras,
        gradient: &mut [f32],
        bias_gradient: f32,
    ) {
        // The bias took no part in the comparison; what is there came from the regulariser.
        let regularizer = if self.bias {
            std::mem::take(&mut gradient[0])
        } else {
            0.0
        };
        if self.comparator == Comparator::Cos {
            let along = vector::dot(gradient, prepared);
            vector::axpy(gradient, -along, prepared);
            vector::scale(gradient, extras.inverse_norm);
        }
        if self.bias {
            gradient[0] = bias_gradient + regularizer;
        }
    }

    /// Turns inner products of one query with candidates into scores. For `l2`, distances are kept.
    pub(crate) fn finish_scores(
        self,
        scores: &mut [f32],
        query: RowExtras,
        candidates: &[RowExtras],
        distances: &mut [f32],
    ) {
        match self.comparator {
            Comparator::Dot | Comparator::Cos => {}
            Comparator::SquaredL2 => {
                for (s, k) in scores.iter_mut().zip(candidates) {
                    *s = -(query.square + k.square - 2.0 * *s);
                }
            }
            Comparator::L2 => {
                for ((s, k), d) in scores.iter_mut().zip(candidates).zip(distances) {
                    *d = without_noise(query.square + k.square, 2.0 * *s).sqrt();
                    *s = -*d;
                }
            }
        }
        if self.bias {
            for (s, k) in scores.iter_mut().zip(candidates) {
                *s += query.bias + k.bias;
            }
        }
    }

    /// Score of a prepared query and a prepared candidate, without the cancellation of
    /// [`Self::finish_scores`]; for `l2` the second result is the distance.
    pub(crate) fn score(
        self,
        query: &[f32],
        q: RowExtras,
        candidate: &[f32],
        k: RowExtras,
    ) -> (f32, f32) {
        let (score, distance) = match self.comparator {
            Comparator::Dot | Comparator::Cos => (vector::dot(query, candidate), 0.0),
            Comparator::SquaredL2 => (-vector::squared_distance(query, candidate), 0.0),
            Comparator::L2 => {
                let distance = clamp(vector::squared_distance(query, candidate)).sqrt();
                (-distance, distance)
            }
        };
        (score + q.bias + k.bias, distance)
    }

    /// For distances: minus twice the derivative of a score by the squared distance, the factor with which
    /// differences of rows enter their gradients.
    #[inline]
    pub(crate) fn slope(self, distance: f32) -> f32 {
        match self.comparator {
            Comparator::SquaredL2 => 2.0,
            // At the clamp the score is constant.
            _ if distance * distance <= SMALLEST_SQUARE => 0.0,
            _ => 1.0 / distance,
        }
    }
}

/// `squares - products`, the square of a distance, where it is more than rounding: what an entity's distance to
/// itself leaves of the two has a square root that is not small, and a slope that is large.
fn without_noise(squares: f32, products: f32) -> f32 {
    let square = squares - products;
    if square < 4.0 * f32::EPSILON * squares {
        SMALLEST_SQUARE
    } else {
        clamp(square)
    }
}

/// NaN stays NaN.
fn clamp(square: f32) -> f32 {
    if square < SMALLEST_SQUARE {
        SMALLEST_SQUARE
    } else {
        square
    }
}
