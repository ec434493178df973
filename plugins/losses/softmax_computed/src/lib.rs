//! PBG's softmax loss, computed in the sandbox, as the baseline for measuring traced losses.

use pbg_plugin_sdk::loss::{RowResult, ScoreRow};
use pbg_plugin_sdk::{ComputedLoss, Metadata, Result, export_computed_loss, simd};

/// The loss; it has no parameters.
#[derive(Clone, Copy, Debug, Default)]
pub struct SoftmaxComputed;

impl ComputedLoss for SoftmaxComputed {
    fn metadata() -> Metadata {
        Metadata::new(
            "softmax_computed",
            env!("CARGO_PKG_VERSION"),
            "The softmax loss, computed in the sandbox, for comparison with the traced one.",
        )
        .fallback("softmax")
    }

    fn row(&self, row: ScoreRow<'_>) -> Result<RowResult> {
        let ScoreRow {
            positive,
            negatives,
            ..
        } = row;
        let largest = simd::max(negatives).max(positive);
        let others = simd::exp_shifted(negatives, largest);
        let mut own = [positive - largest];
        simd::exp(&mut own);
        let total = own[0] + others;
        simd::scale(negatives, 1.0 / total);
        let mut log = [total];
        simd::log(&mut log);
        Ok(RowResult {
            loss: largest - positive + log[0],
            positive_gradient: -others / total,
        })
    }
}

export_computed_loss!(SoftmaxComputed);

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_plugin_sdk::loss::evaluate;
    use pbg_plugin_sdk::testing;

    const POSITIVES: [f32; 3] = [0.8181, 0.5700, 0.3506];
    const NEGATIVES: [f32; 15] = [
        0.4437, 0.6573, 0.9986, 0.2548, 0.0998, //
        0.6175, 0.4061, 0.4582, 0.5382, 0.3126, //
        0.9869, 0.2028, 0.1667, 0.0044, 0.9934,
    ];

    #[test]
    fn keeps_the_contract() {
        testing::assert_computed_loss::<SoftmaxComputed>();
    }

    #[test]
    fn value_of_pbgs_unit_test() {
        let loss = SoftmaxComputed;
        let found = evaluate(&loss, &POSITIVES, NEGATIVES.to_vec(), 5).unwrap();
        assert!((found.loss.iter().sum::<f32>() - 5.2513).abs() < 6e-5);
    }
}
