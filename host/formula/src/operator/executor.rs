//! The trait of executors of an operator's formula, with which callers can run a formula without knowing the executor.

/// Executor of a formula on rows of embeddings that share the parameters of one relation.
pub trait FormulaExecutor {
    /// Computes `y = f(x)`, row by row. The parameters are packed one after the other.
    fn forward(&mut self, parameters: &[f32], x: &[f32], y: &mut [f32]);

    /// Replaces the gradients of `y` with those of `x`, row by row, and adds those of the parameters to `sums`.
    fn backward(&mut self, parameters: &[f32], x: &[f32], gradients: &mut [f32], sums: &mut [f32]);
}
