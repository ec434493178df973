//! TransE: a vector of the relation is added to an embedding.
//!
//! Source: Bordes et al., "Translating Embeddings for Modeling Multi-relational Data" (2013), section 2. It is the
//! built-in operator `translation`, as a formula; the paper compares with a distance (`comparator = "l2"`).

use pbg_plugin_sdk::operator::Initial;
use pbg_plugin_sdk::operator::formula::{Embedding, Vector};
use pbg_plugin_sdk::{Metadata, Result, TracedOperator, export_traced_operator};

/// The operator; it has no configurable parameters.
#[derive(Clone, Copy, Debug, Default)]
pub struct TransE;

impl TracedOperator for TransE {
    fn metadata() -> Metadata {
        Metadata::new(
            "transe",
            env!("CARGO_PKG_VERSION"),
            "A summand per number (TransE).",
        )
    }

    fn build<'t>(&self, x: Embedding<'t>) -> Result<Vec<Vector<'t>>> {
        Ok(vec![
            x.component(0) + x.parameter("translation", Initial::Zero),
        ])
    }
}

export_traced_operator!(TransE);

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_plugin_sdk::testing;

    #[test]
    fn keeps_the_contract() {
        testing::assert_traced_operator::<TransE>();
    }

    #[test]
    fn adds_number_by_number() {
        let formula = testing::operator_with_defaults::<TransE>();
        assert_eq!(formula.apply(&[1.0, 2.0], &[&[3.0, -1.0]]), [4.0, 1.0]);
    }
}
