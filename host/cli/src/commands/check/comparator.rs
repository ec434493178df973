//! The price of a comparator that is a formula.

use std::io::{self, Write};

use pbg_formula::comparator::PairCost;
use pbg_model::ResolvedConfig;
use serde::Serialize;

use crate::format;

/// Operations for one pair of embeddings, next to those of an inner product.
#[derive(Serialize)]
pub(super) struct ComparatorPrice {
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
    /// Returns the price for the largest embeddings of a model; `None` if scores follow from inner products.
    pub(super) fn of(resolved: &ResolvedConfig) -> Option<Self> {
        let spec = &resolved.blueprint().spec;
        let dimension = spec.entities.iter().map(|entity| entity.dimension).max()?;
        let PairCost { score, gradients } = spec.comparator.formula()?.cost(dimension);
        let product = PairCost::of_product(dimension);
        Some(Self {
            name: spec.comparator.name().to_owned(),
            dimension,
            score,
            gradients,
            product: [product.score, product.gradients],
        })
    }

    /// Prints the price.
    pub(super) fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let [score, gradients] = self.product.map(|count| format::count(count as f64));
        writeln!(
            out,
            "comparator {}: no matrix product; for a pair of {} numbers, {} operations for the score and {} for its \
             gradients, where dot has {score} and {gradients}",
            self.name,
            self.dimension,
            format::count(self.score as f64),
            format::count(self.gradients as f64),
        )
    }
}
