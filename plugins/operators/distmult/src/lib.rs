//! DistMult: every number of an embedding is multiplied by a factor of the relation.
//!
//! Source: Yang et al., "Embedding Entities and Relations for Learning and Inference in Knowledge Bases" (2015),
//! section 3. It is the built-in operator `diagonal`, as a formula.

use pbg_plugin_sdk::operator::Initial;
use pbg_plugin_sdk::operator::formula::{Embedding, Vector};
use pbg_plugin_sdk::{Metadata, Result, TracedOperator, export_traced_operator};

/// The operator; it has no configurable parameters.
#[derive(Clone, Copy, Debug, Default)]
pub struct DistMult;

impl TracedOperator for DistMult {
    fn metadata() -> Metadata {
        Metadata::new(
            "distmult",
            env!("CARGO_PKG_VERSION"),
            "A factor per number (DistMult).",
        )
    }

    fn build<'t>(&self, x: Embedding<'t>) -> Result<Vec<Vector<'t>>> {
        Ok(vec![x.component(0) * x.parameter("diagonal", Initial::One)])
    }
}

export_traced_operator!(DistMult);

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_plugin_sdk::testing;

    #[test]
    fn keeps_the_contract() {
        testing::assert_traced_operator::<DistMult>();
    }

    #[test]
    fn multiplies_number_by_number() {
        let formula = testing::operator_with_defaults::<DistMult>();
        assert_eq!(formula.apply(&[1.0, 2.0], &[&[3.0, -1.0]]), [3.0, -2.0]);
    }
}
