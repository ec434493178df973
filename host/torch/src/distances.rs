//! Distances on a device, and their derivatives.

use pbg_kernels::device::SMALLEST_SQUARE;
use tch::{TchError, Tensor};

/// Returns the squares of distances, with those replaced that are within the rounding error of the `sums` whose
/// differences they are, as the kernels for the CPU do.
pub(super) fn without_noise(squares: &Tensor, sums: &Tensor) -> Result<Tensor, TchError> {
    let noise = squares.f_lt_tensor(&sums.f_mul_scalar(4.0 * f64::from(f32::EPSILON))?)?;
    squares.f_masked_fill(&noise, f64::from(SMALLEST_SQUARE))
}

/// Returns lengths from their squares; NaN stays NaN.
pub(super) fn length(squares: &Tensor) -> Result<Tensor, TchError> {
    squares.f_clamp_min(f64::from(SMALLEST_SQUARE))?.f_sqrt()
}

/// Returns `factors` times minus twice the derivatives of scores by squared distances; see `slope` in
/// `host/kernels/src/score_function.rs`.
pub(super) fn slope(factors: &Tensor, distances: Option<&Tensor>) -> Result<Tensor, TchError> {
    let Some(distances) = distances else {
        return factors.f_mul_scalar(2.0);
    };
    // The score is constant where the distance is clamped.
    let constant = distances.f_square()?.f_le(f64::from(SMALLEST_SQUARE))?;
    factors.f_div(distances)?.f_masked_fill(&constant, 0.0)
}
