//! PBG's ranking loss, computed in the sandbox, as the baseline for measuring traced losses.

use pbg_plugin_sdk::loss::{RowResult, ScoreRow};
use pbg_plugin_sdk::{
    ComputedLoss, Metadata, Parameter, Parameters, Result, export_computed_loss, simd,
};

/// The loss with its margin.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize)]
pub struct RankingComputed {
    margin: f32,
}

impl ComputedLoss for RankingComputed {
    fn metadata() -> Metadata {
        Metadata::new(
            "ranking_computed",
            env!("CARGO_PKG_VERSION"),
            "The ranking loss, computed in the sandbox, for comparison with the traced one.",
        )
        .fallback("ranking")
        .parameter(Parameter::number(
            "margin",
            0.1,
            ..,
            "Distance that negatives should stay below their positive.",
        ))
    }

    fn configure(&mut self, parameters: &Parameters) -> Result<()> {
        *self = parameters.parse()?;
        Ok(())
    }

    fn row(&self, row: ScoreRow<'_>) -> Result<RowResult> {
        let offset = self.margin - row.positive;
        for score in row.negatives.iter_mut() {
            let excess = *score + offset;
            *score = if excess < 0.0 { 0.0 } else { excess };
        }
        let loss = simd::sum(row.negatives);
        for excess in row.negatives.iter_mut() {
            *excess = if *excess > 0.0 { 1.0 } else { 0.0 };
        }
        Ok(RowResult {
            loss,
            positive_gradient: -simd::sum(row.negatives),
        })
    }
}

export_computed_loss!(RankingComputed);

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
        testing::assert_computed_loss::<RankingComputed>();
    }

    #[test]
    fn value_of_pbgs_unit_test() {
        let loss = RankingComputed { margin: 1.0 };
        let found = evaluate(&loss, &POSITIVES, NEGATIVES.to_vec(), 5).unwrap();
        assert!((found.loss.iter().sum::<f32>() - 13.4475).abs() < 6e-5);
    }
}
