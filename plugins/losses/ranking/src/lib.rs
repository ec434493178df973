//! PBG's ranking loss: every negative should stay `margin` below its positive.
//!
//! The loss is the sum over the negatives of `max(0, margin - s + t)`. Source: Lerer et al., "PyTorch-BigGraph: A
//! Large-scale Graph Embedding System" (2019), section 3.

use pbg_plugin_sdk::loss::formula::{Row, Scores, relu};
use pbg_plugin_sdk::{Metadata, Parameter, Parameters, Result, TracedLoss, export_traced_loss};

/// The loss with its margin.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize)]
pub struct Ranking {
    margin: f32,
}

impl TracedLoss for Ranking {
    fn metadata() -> Metadata {
        Metadata::new(
            "ranking",
            env!("CARGO_PKG_VERSION"),
            "Sum over the negatives of max(0, margin - positive + negative) (PBG).",
        )
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

    fn build<'t>(&self, scores: Scores<'t>) -> Result<Row<'t>> {
        Ok(relu(self.margin - scores.positive() + scores.negatives()).sum())
    }
}

export_traced_loss!(Ranking);

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_plugin_sdk::loss::trace;
    use pbg_plugin_sdk::testing;

    const POSITIVES: [f32; 3] = [0.8181, 0.5700, 0.3506];
    const NEGATIVES: [f32; 15] = [
        0.4437, 0.6573, 0.9986, 0.2548, 0.0998, //
        0.6175, 0.4061, 0.4582, 0.5382, 0.3126, //
        0.9869, 0.2028, 0.1667, 0.0044, 0.9934,
    ];

    #[test]
    fn keeps_the_contract() {
        testing::assert_traced_loss::<Ranking>();
    }

    #[test]
    fn value_of_pbgs_unit_test() {
        let graph = trace(&Ranking { margin: 1.0 }).unwrap();
        let found = graph.evaluate(&POSITIVES, &NEGATIVES, 5);
        assert!((found.loss.iter().sum::<f32>() - 13.4475).abs() < 6e-5);
    }
}
