//! Penalties on rows: cubed absolute values of real numbers or cubed moduli of complex ones (N3; Lacroix, Usunier,
//! Obozinski 2018), and squares (DURA; Zhang, Cai, Wang 2020).

use multiversion::multiversion;
use pbg_core::model::Regularizer;

use crate::vector::{self, join_lanes};

/// Penalty on a row of numbers.
#[derive(Clone, Copy, Debug)]
pub struct RowPenalty {
    /// Coefficient of the sum.
    pub coefficient: f32,
    /// What is summed.
    pub terms: PenaltyTerms,
}

/// Terms of a penalty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PenaltyTerms {
    /// Squares of the numbers.
    Squares,
    /// Cubes of the numbers' absolute values.
    Cubes,
    /// Cubed moduli of complex numbers: rows are a half of real parts, then a half of imaginary parts.
    CubedModuli,
}

impl RowPenalty {
    /// Returns the penalty of a regularizer on embeddings, which are `complex` or not.
    #[must_use]
    pub fn on_embeddings(regularizer: Regularizer, coefficient: f32, complex: bool) -> Self {
        let terms = match regularizer {
            Regularizer::Dura => PenaltyTerms::Squares,
            Regularizer::N3 | Regularizer::N3Embeddings if complex => PenaltyTerms::CubedModuli,
            Regularizer::N3 | Regularizer::N3Embeddings => PenaltyTerms::Cubes,
        };
        Self { coefficient, terms }
    }

    /// Returns the same penalty on an operator's parameters, which are complex only if they have `halves` too.
    #[must_use]
    pub fn on_parameters(self, halves: bool) -> Self {
        let terms = match self.terms {
            PenaltyTerms::CubedModuli if !halves => PenaltyTerms::Cubes,
            terms => terms,
        };
        Self { terms, ..self }
    }

    /// Returns the coefficient times the sum of the terms, and adds its gradient to `gradient`.
    #[inline]
    pub fn add(self, row: &[f32], gradient: &mut [f32]) -> f64 {
        let sum = match self.terms {
            PenaltyTerms::Squares => {
                vector::axpy(gradient, 2.0 * self.coefficient, row);
                vector::dot(row, row)
            }
            PenaltyTerms::Cubes => add_real(row, gradient, 3.0 * self.coefficient),
            PenaltyTerms::CubedModuli => {
                let half = row.len() / 2;
                let (re, im) = row.split_at(half);
                let (re_gradient, im_gradient) = gradient.split_at_mut(half);
                add_complex(re, im, re_gradient, im_gradient, 3.0 * self.coefficient)
            }
        };
        f64::from(self.coefficient) * f64::from(sum)
    }
}

/// Number of partial sums, with which the loops vectorise.
const LANES: usize = 16;

#[multiversion(targets("x86_64+avx512f+avx2+fma", "x86_64+avx2+fma"))]
fn add_real(row: &[f32], gradient: &mut [f32], factor: f32) -> f32 {
    let mut sums = [0.0; LANES];
    let add = |&x: &f32, g: &mut f32, sum: &mut f32| {
        let product = x * x.abs();
        *sum += product.abs() * x.abs();
        *g += factor * product;
    };
    let ((rows, rest), (gradients, rest_gradient)) =
        (row.as_chunks::<LANES>(), gradient.as_chunks_mut::<LANES>());
    for (row, gradient) in rows.iter().zip(gradients) {
        for i in 0..LANES {
            add(&row[i], &mut gradient[i], &mut sums[i]);
        }
    }
    for ((x, g), sum) in rest.iter().zip(rest_gradient).zip(&mut sums) {
        add(x, g, sum);
    }
    join_lanes(sums, |a, b| a + b)
}

#[multiversion(targets("x86_64+avx512f+avx2+fma", "x86_64+avx2+fma"))]
fn add_complex(
    re: &[f32],
    im: &[f32],
    re_gradient: &mut [f32],
    im_gradient: &mut [f32],
    factor: f32,
) -> f32 {
    let mut sums = [0.0; LANES];
    let add = |a: f32, b: f32, gradients: [&mut f32; 2], sum: &mut f32| {
        let square = a * a + b * b;
        let modulus = square.sqrt();
        *sum += square * modulus;
        *gradients[0] += factor * modulus * a;
        *gradients[1] += factor * modulus * b;
    };
    let ((re, re_rest), (im, im_rest)) = (re.as_chunks::<LANES>(), im.as_chunks::<LANES>());
    let (re_gradients, re_rest_gradient) = re_gradient.as_chunks_mut::<LANES>();
    let (im_gradients, im_rest_gradient) = im_gradient.as_chunks_mut::<LANES>();
    for ((re, im), (re_gradient, im_gradient)) in re
        .iter()
        .zip(im)
        .zip(re_gradients.iter_mut().zip(im_gradients))
    {
        for i in 0..LANES {
            let gradients = [&mut re_gradient[i], &mut im_gradient[i]];
            add(re[i], im[i], gradients, &mut sums[i]);
        }
    }
    let rest = re_rest.iter().zip(im_rest);
    let gradients = re_rest_gradient.iter_mut().zip(im_rest_gradient);
    for (((&a, &b), (re_gradient, im_gradient)), sum) in rest.zip(gradients).zip(&mut sums) {
        add(a, b, [re_gradient, im_gradient], sum);
    }
    join_lanes(sums, |a, b| a + b)
}
