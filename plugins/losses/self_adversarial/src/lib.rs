//! RotatE's self-adversarial loss: negatives are weighted by the probability that the model assigns to them.
//!
//! The loss is `-ln sigmoid(gamma + s) - sum(p ln sigmoid(-t - gamma))`, with weights `p = softmax(alpha t)`
//! through which no gradient flows. Scores are negated distances. Source: Sun et al., "RotatE: Knowledge Graph
//! Embedding by Relational Rotation in Complex Space" (2019), equations 4 and 5.

use pbg_plugin_sdk::loss::formula::{Row, Scores, softplus};
use pbg_plugin_sdk::{Metadata, Parameter, Parameters, Result, TracedLoss, export_traced_loss};

/// The loss with its parameters.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize)]
pub struct SelfAdversarial {
    margin: f32,
    temperature: f32,
}

impl TracedLoss for SelfAdversarial {
    fn metadata() -> Metadata {
        Metadata::new(
            "self_adversarial",
            env!("CARGO_PKG_VERSION"),
            "Logistic loss with a margin, negatives weighted by their own scores (RotatE).",
        )
        .parameter(Parameter::number(
            "margin",
            6.0,
            0.0..,
            "Distance below which an edge counts as true (gamma).",
        ))
        .parameter(Parameter::number(
            "temperature",
            1.0,
            0.0..,
            "Preference for negatives with high scores (alpha); 0 weights all of them equally.",
        ))
    }

    fn configure(&mut self, parameters: &Parameters) -> Result<()> {
        *self = parameters.parse()?;
        Ok(())
    }

    fn build<'t>(&self, scores: Scores<'t>) -> Result<Row<'t>> {
        let (positive, negatives) = (scores.positive(), scores.negatives());
        let weights = (self.temperature * negatives).softmax().stop_gradient();
        let positive = softplus(-(positive + self.margin));
        let negatives = (weights * softplus(negatives + self.margin)).sum();
        Ok(positive + negatives)
    }
}

export_traced_loss!(SelfAdversarial);

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_plugin_sdk::loss::trace;
    use pbg_plugin_sdk::testing;

    #[test]
    fn keeps_the_contract() {
        testing::assert_traced_loss::<SelfAdversarial>();
    }

    /// The formula of the paper, written out in f64.
    #[test]
    fn is_the_formula_of_the_paper() {
        let (gamma, alpha) = (1.5, 0.7);
        let loss = SelfAdversarial {
            margin: gamma as f32,
            temperature: alpha as f32,
        };
        let found = trace(&loss).unwrap().row(&[], -0.4, &[-1.0, 0.5, -2.5]);
        let negatives = [-1.0_f64, 0.5, -2.5];
        let log_sigmoid = |x: f64| -(-x).exp().ln_1p();
        let total: f64 = negatives.iter().map(|t| (alpha * t).exp()).sum();
        let weights = negatives.map(|t| (alpha * t).exp() / total);
        let of_negatives: f64 = weights
            .iter()
            .zip(negatives)
            .map(|(p, t)| p * log_sigmoid(-t - gamma))
            .sum();
        let expected = -log_sigmoid(gamma - 0.4) - of_negatives;
        assert!((found.loss - expected).abs() < 1e-6);
        // The weights are constants for the gradient.
        for ((found, p), t) in found.negative.iter().zip(weights).zip(negatives) {
            let slope = 1.0 / (1.0 + (-(t + gamma)).exp());
            assert!((found - p * slope).abs() < 1e-6);
        }
    }
}
