//! PBG's softmax loss: cross-entropy of the positive among itself and its negatives.
//!
//! The loss is `-s + ln(e^s + sum(e^t))`, computed as `softplus(logsumexp(t) - s)`, which does not
//! overflow and loses no precision if the positive has by far the highest score. Source: Lerer et al., "PyTorch-BigGraph: A
//! Large-scale Graph Embedding System" (2019), section 3.

use pbg_plugin_sdk::loss::formula::{Row, Scores, softplus};
use pbg_plugin_sdk::{Metadata, Result, TracedLoss, export_traced_loss};

/// The loss; it has no parameters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Softmax;

impl TracedLoss for Softmax {
    fn metadata() -> Metadata {
        Metadata::new(
            "softmax",
            env!("CARGO_PKG_VERSION"),
            "Cross-entropy of the positive among itself and its negatives (PBG).",
        )
    }

    fn build<'t>(&self, scores: Scores<'t>) -> Result<Row<'t>> {
        Ok(softplus(scores.negatives().logsumexp() - scores.positive()))
    }
}

export_traced_loss!(Softmax);

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
        testing::assert_traced_loss::<Softmax>();
    }

    #[test]
    fn value_of_pbgs_unit_test() {
        let graph = testing::traced_with_defaults::<Softmax>();
        let found = graph.evaluate(&POSITIVES, &NEGATIVES, 5);
        assert!((found.loss.iter().sum::<f32>() - 5.2513).abs() < 6e-5);
    }

    #[test]
    fn nothing_to_lose_without_negatives() {
        let graph = testing::traced_with_defaults::<Softmax>();
        let found = graph.evaluate(&POSITIVES, &[], 0);
        assert_eq!(
            (found.loss, found.positive_gradient),
            (vec![0.0; 3], vec![0.0; 3])
        );
    }
}
