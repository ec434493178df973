//! Relation operators: their action on embeddings, forward and backward.
//!
//! The parameters of an operator are passed as one packed row, tensor after tensor in the order of
//! [`Params`](pbg_rows::params::Params): `[diagonal]`, `[translation]`, `[matrix]`,
//! `[matrix, translation]` or `[real, imag]`; those of a formula ([`formula`]) in the order of its declaration.

pub(crate) use pbg_core::batch_graph::parameter_width as packed_width;
use pbg_core::model::Operator;

use pbg_rows::params::ParamTensor;
use pbg_rows::vector;

pub(crate) mod formula;

/// Reads row `row` of all tensors of an operator into `packed`.
pub(crate) fn read_packed(tensors: &[ParamTensor], row: usize, packed: &mut [f32]) {
    let mut first = 0;
    for tensor in tensors {
        let width = tensor.values.width();
        tensor
            .values
            .read_row(row, &mut packed[first..first + width]);
        first += width;
    }
}

/// Computes `y = f(x)` for one row; operators that are formulas are executed by [`formula`] instead.
pub(crate) fn forward(operator: Operator, packed: &[f32], x: &[f32], y: &mut [f32]) {
    let dimension = x.len();
    match operator {
        Operator::None | Operator::Traced(_) => y.copy_from_slice(x),
        Operator::Diagonal => vector::multiply(y, x, packed),
        Operator::Translation => {
            y.copy_from_slice(x);
            vector::add(y, packed);
        }
        Operator::ComplexDiagonal => vector::complex_multiply(y, x, packed),
        Operator::Linear | Operator::Affine => {
            let (matrix, translation) = packed.split_at(dimension * dimension);
            for (y, row) in y.iter_mut().zip(matrix.chunks_exact(dimension)) {
                *y = vector::dot(row, x);
            }
            if operator == Operator::Affine {
                vector::add(y, translation);
            }
        }
    }
}

/// Replaces the gradient of `y` by that of `x`, for one row, and adds the gradient of the parameters to
/// `packed_gradient`. Operators that are formulas are executed by [`formula`] instead, and matrices are multiplied with
/// many rows at once.
pub(crate) fn backward(
    operator: Operator,
    packed: &[f32],
    x: &[f32],
    gradient: &mut [f32],
    packed_gradient: &mut [f32],
) {
    match operator {
        Operator::None | Operator::Traced(_) | Operator::Linear | Operator::Affine => {}
        Operator::Translation => vector::add(packed_gradient, gradient),
        Operator::Diagonal => {
            vector::multiply_back(gradient, x, packed, packed_gradient);
        }
        Operator::ComplexDiagonal => {
            vector::complex_multiply_back(gradient, x, packed, packed_gradient);
        }
    }
}
