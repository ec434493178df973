//! Binary cross-entropy over the positive, whose label is 1, and its negatives, whose labels are 0.
//!
//! The loss is the mean over all `1 + N` scores of `softplus(x) - y x`. With label smoothing `e` the labels are
//! `1 - e/2` and `e/2` (Szegedy et al., "Rethinking the Inception Architecture" (2016), section 7, for
//! two classes).

use pbg_plugin_sdk::loss::formula::{Row, Scores, softplus};
use pbg_plugin_sdk::{Metadata, Parameter, Parameters, Result, TracedLoss, export_traced_loss};

/// The loss with its parameters.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize)]
pub struct Bce {
    label_smoothing: f32,
}

impl TracedLoss for Bce {
    fn metadata() -> Metadata {
        Metadata::new(
            "bce",
            env!("CARGO_PKG_VERSION"),
            "Mean binary cross-entropy of the positive and its negatives.",
        )
        .parameter(Parameter::number(
            "label_smoothing",
            0.0,
            0.0..=1.0,
            "Share of each label that is distributed over both classes.",
        ))
    }

    fn configure(&mut self, parameters: &Parameters) -> Result<()> {
        *self = parameters.parse()?;
        Ok(())
    }

    fn build<'t>(&self, scores: Scores<'t>) -> Result<Row<'t>> {
        let (positive, negatives) = (scores.positive(), scores.negatives());
        let wrong = self.label_smoothing / 2.0;
        let of_positive = softplus(-positive) + wrong * positive;
        // Without smoothing the linear term is omitted.
        let of_negatives = match wrong {
            0.0 => softplus(negatives),
            wrong => softplus(negatives) - wrong * negatives,
        };
        Ok((of_positive + of_negatives.sum()) / (1.0 + scores.columns()))
    }
}

export_traced_loss!(Bce);

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_plugin_sdk::loss::trace;
    use pbg_plugin_sdk::testing;

    #[test]
    fn keeps_the_contract() {
        testing::assert_traced_loss::<Bce>();
    }

    #[test]
    fn is_the_mean_of_cross_entropies() {
        for smoothing in [0.0_f32, 0.2] {
            let loss = Bce {
                label_smoothing: smoothing,
            };
            let found = trace(&loss).unwrap().row(&[], 0.3, &[-0.2, 1.1]);
            let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
            let entropy =
                |x: f64, y: f64| -y * sigmoid(x).ln() - (1.0 - y) * (1.0 - sigmoid(x)).ln();
            let half = f64::from(smoothing) / 2.0;
            let terms = [(0.3, 1.0 - half), (-0.2, half), (1.1, half)];
            let expected: f64 = terms.iter().map(|&(x, y)| entropy(x, y)).sum::<f64>() / 3.0;
            assert!((found.loss - expected).abs() < 1e-6);
            assert!((found.negative[1] - (sigmoid(1.1) - half) / 3.0).abs() < 1e-6);
        }
    }

    /// With smoothing every negative has a linear term, which would be huge for a masked score.
    #[test]
    fn a_masked_negative_has_no_term() {
        let loss = Bce {
            label_smoothing: 0.2,
        };
        let graph = trace(&loss).unwrap();
        let found = graph.row(&[], 0.3, &[-0.2, -1e9]);
        let alone = graph.row(&[], 0.3, &[-0.2]);
        assert!((found.loss - alone.loss * 2.0 / 3.0).abs() < 1e-6);
        assert_eq!(found.negative[1], 0.0);
    }
}
