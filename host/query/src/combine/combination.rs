//! Methods of combining models.

/// Method of combining several models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combination {
    /// Embeddings and parameters are means. For versions of one run: Izmailov et al., "Averaging Weights Leads to Wider
    /// Optima and Better Generalization", 2018.
    Average,
    /// Embeddings are concatenated, so that scores are sums. For runs with different seeds: Xu et al., "Multiple Run
    /// Ensemble Learning with Low-Dimensional Knowledge Graph Embeddings", 2021.
    Concatenate,
}
