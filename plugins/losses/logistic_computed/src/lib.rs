//! PBG's logistic loss, computed in the sandbox, as the baseline for measuring traced losses.

use pbg_plugin_sdk::loss::{RowResult, ScoreRow};
use pbg_plugin_sdk::{ComputedLoss, Metadata, Result, export_computed_loss, simd};

/// The loss; it has no parameters.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogisticComputed;

impl ComputedLoss for LogisticComputed {
    fn metadata() -> Metadata {
        Metadata::new(
            "logistic_computed",
            env!("CARGO_PKG_VERSION"),
            "The logistic loss, computed in the sandbox, for comparison with the traced one.",
        )
        .fallback("logistic")
    }

    fn row(&self, row: ScoreRow<'_>) -> Result<RowResult> {
        let share = 1.0 / row.columns.max(1) as f32;
        let of_negatives = simd::softplus_with_slope(row.negatives, share);
        let mut positive = [-row.positive];
        let of_positive = simd::softplus_with_slope(&mut positive, 1.0);
        Ok(RowResult {
            loss: of_positive + share * of_negatives,
            positive_gradient: -positive[0],
        })
    }
}

export_computed_loss!(LogisticComputed);

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
        testing::assert_computed_loss::<LogisticComputed>();
    }

    #[test]
    fn value_of_pbgs_unit_test() {
        let loss = LogisticComputed;
        let found = evaluate(&loss, &POSITIVES, NEGATIVES.to_vec(), 5).unwrap();
        assert!((found.loss.iter().sum::<f32>() - 4.2589).abs() < 6e-5);
    }
}
