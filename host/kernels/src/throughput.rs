//! What libtorch's own matrix product reaches, as the ceiling to compare a step with.

use std::time::{Duration, Instant};

use tch::{Device, Kind, TchError, Tensor};

/// Shape of a batched matrix product `[batch, rows, inner] x [batch, inner, columns]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProductShape {
    /// Matrices.
    pub batch: i64,
    /// Rows of the left factor.
    pub rows: i64,
    /// Columns of the left factor, rows of the right one.
    pub inner: i64,
    /// Columns of the right factor.
    pub columns: i64,
}

impl ProductShape {
    /// Floating-point operations of one product.
    #[must_use]
    pub fn operations(&self) -> f64 {
        2.0 * (self.batch * self.rows * self.inner) as f64 * self.columns as f64
    }
}

/// Floating-point operations per second of libtorch's `bmm` on this thread, repeated for at least
/// `duration`, on average. `clock` gives seconds: wall time, or this thread's CPU time
/// on a machine that has other things to do.
///
/// # Errors
/// When libtorch fails.
pub fn bmm_rate(
    shape: ProductShape,
    duration: Duration,
    clock: impl Fn() -> f64,
) -> Result<f64, TchError> {
    let options = (Kind::Float, Device::Cpu);
    let a = Tensor::f_randn([shape.batch, shape.rows, shape.inner], options)?;
    let b = Tensor::f_randn([shape.batch, shape.inner, shape.columns], options)?;
    let out = Tensor::f_zeros([shape.batch, shape.rows, shape.columns], options)?;
    let start = Instant::now();
    let (mut repetitions, mut seconds) = (0, 0.0);
    while start.elapsed() < duration || repetitions < 3 {
        let begin = clock();
        let _same = a.f_bmm_out(&out, &b)?;
        seconds += clock() - begin;
        repetitions += 1;
    }
    Ok(shape.operations() * f64::from(repetitions) / seconds)
}
