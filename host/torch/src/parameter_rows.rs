//! Rows of a parameter tensor that one batch reads.

use tch::Tensor;

/// Rows of a parameter tensor.
pub(super) struct ParameterRows {
    /// Index of the tensor in [`Params::tensors`](pbg_rows::params::Params::tensors).
    pub(super) index: usize,
    /// Values, `[relations, width]`.
    pub(super) values: Tensor,
    /// Sums of gradients, `[relations, width]`.
    pub(super) gradients: Tensor,
}

#[cfg(test)]
impl ParameterRows {
    /// Creates a parameter with zero gradients.
    pub(super) fn of(index: usize, values: Tensor) -> Self {
        Self {
            index,
            gradients: values.zeros_like(),
            values,
        }
    }
}
