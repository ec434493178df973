//! Distances on a device, and derivatives through them.

use pbg_kernels::device::SMALLEST_SQUARE;
use tch::{TchError, Tensor};

/// Squares of distances where they are more than the rounding of the `sums` that they are the differences of, as
/// the kernels of the cores have it.
pub(super) fn without_noise(squares: &Tensor, sums: &Tensor) -> Result<Tensor, TchError> {
    let noise = squares.f_lt_tensor(&sums.f_mul_scalar(4.0 * f64::from(f32::EPSILON))?)?;
    squares.f_masked_fill(&noise, f64::from(SMALLEST_SQUARE))
}

/// Lengths from their squares; NaN stays NaN.
pub(super) fn length(squares: &Tensor) -> Result<Tensor, TchError> {
    squares.f_clamp_min(f64::from(SMALLEST_SQUARE))?.f_sqrt()
}

/// Derivatives of scores times minus twice those of scores by squared distances, as
/// [`Comparison::slope`].
pub(super) fn slope(factors: &Tensor, distances: Option<&Tensor>) -> Result<Tensor, TchError> {
    let Some(distances) = distances else {
        return factors.f_mul_scalar(2.0);
    };
    // At the clamp the score is constant.
    let constant = distances.f_square()?.f_le(f64::from(SMALLEST_SQUARE))?;
    factors.f_div(distances)?.f_masked_fill(&constant, 0.0)
}
