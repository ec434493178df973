//! Gradients of an operator's parameters, summed over a batch.

use pbg_gemm::buffer::FloatBuffer;

use crate::accumulate::GradientRows;

/// Sums for an operator's parameters.
#[derive(Debug)]
pub(crate) struct OperatorGradients {
    /// Static relations: the packed gradient of the batch's relation.
    pub(crate) shared: FloatBuffer,
    /// Dynamic relations: a packed gradient per relation.
    pub(crate) per_edge: GradientRows,
    /// Gradients of a block's rows before a matrix operator.
    pub(super) block: FloatBuffer,
    pub(super) packed: Vec<f32>,
    pub(super) row: Vec<f32>,
}

impl OperatorGradients {
    pub(crate) fn new() -> Self {
        Self {
            shared: FloatBuffer::zeros(0),
            per_edge: GradientRows::default(),
            block: FloatBuffer::zeros(0),
            packed: Vec::new(),
            row: Vec::new(),
        }
    }

    /// Zero for `edges` edges, an operator with `width` packed parameters and, with dynamic relations,
    /// `relations`.
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
