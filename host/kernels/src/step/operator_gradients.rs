//! Gradients of an operator's parameters, summed over a batch.

use pbg_gemm::buffer::FloatBuffer;

use pbg_rows::gradient_rows::GradientRows;

/// Sums of the gradients of an operator's parameters.
#[derive(Debug, Default)]
pub(crate) struct OperatorGradients {
    /// Static relations: packed gradient of the batch's relation.
    pub(crate) shared: FloatBuffer,
    /// Dynamic relations: packed gradient of each relation type.
    pub(crate) per_edge: GradientRows,
    /// Gradients of the rows of a run with respect to the input of a matrix operator.
    pub(super) block: FloatBuffer,
    pub(super) packed: Vec<f32>,
}

impl OperatorGradients {
    /// Sets the sums to zero for `edges` edges and an operator with `width` packed parameters; `relations` is the
    /// number of relation types if they are dynamic.
    pub(crate) fn reset(&mut self, width: usize, relations: Option<usize>, edges: usize) {
        match relations {
            Some(relations) => self.per_edge.reset(relations, width, edges),
            None => {
                self.shared.reserve(width);
                self.shared.as_mut_slice()[..width].fill(0.0);
            }
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        4 * (self.shared.floats() + self.block.floats()) + self.per_edge.bytes()
    }
}
