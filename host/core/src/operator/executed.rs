//! What computes a formula on rows: the seam between a formula and whoever only wants to try it.

/// A formula at work on rows of embeddings that share the parameters of one relation.
pub trait Executed {
    /// `y = f(x)`, row by row; parameters are packed one after the other.
    fn forward(&mut self, parameters: &[f32], x: &[f32], y: &mut [f32]);

    /// Replaces the gradients of `y` by those of `x`, row by row, and adds those of the parameters to `sums`.
    fn backward(&mut self, parameters: &[f32], x: &[f32], gradients: &mut [f32], sums: &mut [f32]);
}
