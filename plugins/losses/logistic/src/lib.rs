//! PBG's logistic loss: `softplus(-s)` plus the mean over the negatives of `softplus(t)`.
//!
//! Every score is a separate binary decision whether the edge exists. The negatives together have the
//! same weight as the positive. Source: Lerer et al., "PyTorch-BigGraph: A Large-scale Graph Embedding System" (2019),
//! section 3.

use pbg_plugin_sdk::loss::formula::{Row, Scores, softplus};
use pbg_plugin_sdk::{Metadata, Result, TracedLoss, export_traced_loss};

/// The loss; it has no parameters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Logistic;

impl TracedLoss for Logistic {
    fn metadata() -> Metadata {
        Metadata::new(
            "logistic",
            env!("CARGO_PKG_VERSION"),
            "Logistic loss of the positive, plus the mean logistic loss of its negatives (PBG).",
        )
    }

    fn build<'t>(&self, scores: Scores<'t>) -> Result<Row<'t>> {
        Ok(softplus(-scores.positive()) + softplus(scores.negatives()).mean())
    }
}

export_traced_loss!(Logistic);

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_plugin_sdk::testing;

    const POSITIVES: [f32; 3] = [0.8181, 0.5700, 0.3506];
    const NEGATIVES: [f32; 15] = [
        0.4437, 0.6573, 0.9986, 0.2548, 0.0998, //
        0.6175, 0.4061, 0.4582, 0.5382, 0.3126, //
        0.9869, 0.2028, 0.1667, 0.0044, 0.9934,
    ];

    #[test]
    fn keeps_the_contract() {
        testing::assert_traced_loss::<Logistic>();
    }

    #[test]
    fn value_of_pbgs_unit_test() {
        let graph = testing::traced_with_defaults::<Logistic>();
        let found = graph.evaluate(&POSITIVES, &NEGATIVES, 5);
        assert!((found.loss.iter().sum::<f32>() - 4.2589).abs() < 6e-5);
    }

    #[test]
    fn the_positive_counts_without_negatives() {
        let graph = testing::traced_with_defaults::<Logistic>();
        let found = graph.evaluate(&[0.0], &[], 0);
        assert_eq!(found.loss, [std::f32::consts::LN_2]);
        assert_eq!(found.positive_gradient, [-0.5]);
    }
}
