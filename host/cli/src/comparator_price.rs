//! The price of a comparator that is a formula.

use std::fmt;

use pbg_formula::comparator::{ComparatorFormula, PairCost};
use pbg_model::ResolvedConfig;
use serde::Serialize;

use crate::format;

/// Operations for one pair of embeddings, next to those of an inner product.
#[derive(Serialize)]
pub(crate) struct ComparatorPrice {
    name: String,
    dimension: usize,
    /// Operations for the score.
    score: usize,
    /// Operations for the gradients of both embeddings.
    gradients: usize,
    /// The same two numbers for an inner product.
    product: [usize; 2],
}

impl ComparatorPrice {
    /// Returns the price for embeddings of `dimension` numbers.
    pub(crate) fn new(formula: &ComparatorFormula, dimension: usize) -> Self {
        let PairCost { score, gradients } = formula.cost(dimension);
        let product = PairCost::of_product(dimension);
        Self {
            name: formula.name().to_owned(),
            dimension,
            score,
            gradients,
            product: [product.score, product.gradients],
        }
    }

    /// Returns the price for the largest embeddings of a model; `None` if scores follow from inner products.
    pub(crate) fn of(resolved: &ResolvedConfig) -> Option<Self> {
        let spec = &resolved.blueprint().spec;
        let dimension = spec.entities.iter().map(|entity| entity.dimension).max()?;
        Some(Self::new(&*spec.comparator.formula()?, dimension))
    }

    /// Returns the name of the comparator.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Display for ComparatorPrice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [score, gradients] = self.product.map(|count| format::count(count as f64));
        write!(
            f,
            "no matrix product; for a pair of {} numbers, {} operations for the score and {} for its gradients, where dot \
             has {score} and {gradients}",
            self.dimension,
            format::count(self.score as f64),
            format::count(self.gradients as f64),
        )
    }
}
