//! N3: cubed absolute values, or moduli of complex numbers (Lacroix, Usunier, Obozinski 2018).

use multiversion::multiversion;

use crate::vector::join_lanes;

/// N3 of one row of numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct N3 {
    /// Strength.
    pub(crate) coefficient: f32,
    /// Rows are a half of real parts and a half of imaginary parts.
    pub(crate) complex: bool,
}

impl N3 {
    /// `coefficient * sum |x|^3`, whose gradient is added to `gradient`.
    pub(crate) fn add(self, row: &[f32], gradient: &mut [f32]) -> f64 {
        let sum = if self.complex {
            let half = row.len() / 2;
            add_complex(
                row.split_at(half),
                gradient.split_at_mut(half),
                3.0 * self.coefficient,
            )
        } else {
            add_real(row, gradient, 3.0 * self.coefficient)
        };
        f64::from(self.coefficient) * f64::from(sum)
    }
}

/// Partial sums, so that the loops vectorise.
const LANES: usize = 16;

#[multiversion(targets("x86_64+avx512f+avx2+fma", "x86_64+avx2+fma"))]
fn add_real(row: &[f32], gradient: &mut [f32], factor: f32) -> f32 {
    let mut sums = [0.0; LANES];
    for (row, gradient) in row.chunks(LANES).zip(gradient.chunks_mut(LANES)) {
        for ((&x, g), sum) in row.iter().zip(gradient).zip(&mut sums) {
            let product = x * x.abs();
            *sum += product.abs() * x.abs();
            *g += factor * product;
        }
    }
    join_lanes(sums, |a, b| a + b)
}

#[multiversion(targets("x86_64+avx512f+avx2+fma", "x86_64+avx2+fma"))]
fn add_complex(
    (re, im): (&[f32], &[f32]),
    (re_gradient, im_gradient): (&mut [f32], &mut [f32]),
    factor: f32,
) -> f32 {
    let mut sums = [0.0; LANES];
    let gradients = re_gradient
        .chunks_mut(LANES)
        .zip(im_gradient.chunks_mut(LANES));
    for ((re, im), (re_gradient, im_gradient)) in
        re.chunks(LANES).zip(im.chunks(LANES)).zip(gradients)
    {
        let numbers = re
            .iter()
            .zip(im)
            .zip(re_gradient.iter_mut().zip(im_gradient));
        for (((&a, &b), (re_gradient, im_gradient)), sum) in numbers.zip(&mut sums) {
            let square = a * a + b * b;
            let modulus = square.sqrt();
            *sum += square * modulus;
            *re_gradient += factor * modulus * a;
            *im_gradient += factor * modulus * b;
        }
    }
    join_lanes(sums, |a, b| a + b)
}
