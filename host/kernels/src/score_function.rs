//! Preparation of embeddings for comparison, and conversion of inner products into scores.
//!
//! Comparators that are no formulas are computed from inner products of prepared rows, so that scores are a matrix
//! product. `cos` prepares by normalising; distances follow from `|q|^2 - 2 q k + |k|^2`. A formula is evaluated for
//! each pair of rows. A bias is taken out of the row, which has a zero in
//! its place, and added to the scores.

use pbg_core::model::Comparator;
use pbg_formula::comparator::ComparatorHandle;

use pbg_rows::spec::ModelSpec;
use pbg_rows::vector;

/// Smallest squared distance, which keeps the derivative of the square root finite.
pub const SMALLEST_SQUARE: f32 = 1e-30;

/// Definition of the scores: a comparator, with or without a bias.
#[derive(Clone, Copy, Debug)]
pub struct ScoreFunction {
    /// Function that compares two rows.
    pub comparator: Comparator,
    /// Whether the first number of a row is a bias, which is added to its scores and not compared.
    pub bias: bool,
}

/// Numbers that preparation takes out of a row.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RowExtras {
    /// For `cos`: the reciprocal of the row's length.
    pub(crate) inverse_norm: f32,
    /// For distances: the squared length of the prepared row.
    pub(crate) square: f32,
    /// The bias.
    pub(crate) bias: f32,
}

impl ScoreFunction {
    /// Returns the comparison of the model `spec`.
    #[must_use]
    pub fn of(spec: &ModelSpec) -> Self {
        Self {
            comparator: spec.comparator,
            bias: spec.bias,
        }
    }

    /// Returns whether scores are negated distances that follow from inner products.
    #[must_use]
    pub fn is_distance(self) -> bool {
        matches!(self.comparator, Comparator::L2 | Comparator::SquaredL2)
    }

    /// Returns the comparator's formula; `None` if scores follow from inner products.
    pub(crate) fn formula(self) -> Option<ComparatorHandle> {
        self.comparator.formula()
    }

    /// Returns whether rows need no preparation.
    pub(crate) fn is_plain(self) -> bool {
        let prepares = matches!(
            self.comparator,
            Comparator::Cos | Comparator::L2 | Comparator::SquaredL2
        );
        !prepares && !self.bias
    }

    /// Returns whether inner products must still be converted into scores.
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
            Comparator::Dot | Comparator::L1 | Comparator::ComplexL1 | Comparator::Traced(_) => {}
            Comparator::Cos => {
                let norm = vector::dot(row, row).sqrt();
                // A zero vector has no direction: it scores 0 with every row and gets no gradient.
                extras.inverse_norm = if norm == 0.0 { 0.0 } else { 1.0 / norm };
                vector::scale(row, extras.inverse_norm);
            }
            Comparator::L2 | Comparator::SquaredL2 => extras.square = vector::dot(row, row),
        }
        extras
    }

    /// Replaces the gradient of a prepared row by that of the row before preparation.
    #[inline]
    pub(crate) fn prepare_backward(
        self,
        prepared: &[f32],
        extras: RowExtras,
        gradient: &mut [f32],
        bias_gradient: f32,
    ) {
        // The bias takes no part in the comparison; a gradient in its place comes from the regularizer.
        let regularizer = if self.bias {
            std::mem::take(&mut gradient[0])
        } else {
            0.0
        };
        if self.comparator == Comparator::Cos {
            let along = vector::dot(gradient, prepared);
            vector::axpy_scaled(gradient, -along, prepared, extras.inverse_norm);
        }
        if self.bias {
            gradient[0] = bias_gradient + regularizer;
        }
    }

    /// Converts the inner products of one query with candidates into scores; to the scores of a formula, adds only
    /// biases. For `l2`, stores the distances in
    /// `distances`.
    pub(crate) fn finish_scores(
        self,
        scores: &mut [f32],
        query: RowExtras,
        candidates: &[RowExtras],
        distances: &mut [f32],
    ) {
        match self.comparator {
            Comparator::Dot
            | Comparator::Cos
            | Comparator::L1
            | Comparator::ComplexL1
            | Comparator::Traced(_) => {}
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

    /// Returns the score of a prepared query and a prepared candidate, without the cancellation of
    /// [`Self::finish_scores`]; for `l2`, the second result is the distance.
    pub(crate) fn score(
        self,
        query: &[f32],
        q: RowExtras,
        candidate: &[f32],
        k: RowExtras,
    ) -> (f32, f32) {
        let (score, distance) = match self.comparator {
            // Formulas are evaluated elsewhere.
            Comparator::Dot
            | Comparator::Cos
            | Comparator::L1
            | Comparator::ComplexL1
            | Comparator::Traced(_) => (vector::dot(query, candidate), 0.0),
            Comparator::SquaredL2 => (-vector::squared_distance(query, candidate), 0.0),
            Comparator::L2 => {
                let distance = clamp(vector::squared_distance(query, candidate)).sqrt();
                (-distance, distance)
            }
        };
        (score + q.bias + k.bias, distance)
    }

    /// Returns, for distances, minus twice the derivative of a score with respect to the squared distance: the factor
    /// with which the difference of two rows enters their gradients.
    #[inline]
    pub(crate) fn slope(self, distance: f32) -> f32 {
        match self.comparator {
            Comparator::SquaredL2 => 2.0,
            // At the lower bound the score is constant.
            _ if distance * distance <= SMALLEST_SQUARE => 0.0,
            _ => 1.0 / distance,
        }
    }
}

/// Returns `squares - products`, a squared distance, or [`SMALLEST_SQUARE`] if it is no more than rounding error.
/// Without that, an entity's distance to itself would be a root of rounding error, which is not small, with a steep
/// slope.
fn without_noise(squares: f32, products: f32) -> f32 {
    let square = squares - products;
    if square < 4.0 * f32::EPSILON * squares {
        SMALLEST_SQUARE
    } else {
        clamp(square)
    }
}

/// Bounds a squared distance from below. NaN stays NaN.
fn clamp(square: f32) -> f32 {
    if square < SMALLEST_SQUARE {
        SMALLEST_SQUARE
    } else {
        square
    }
}
