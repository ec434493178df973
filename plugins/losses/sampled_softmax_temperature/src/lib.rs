//! Sampled softmax with a temperature, also known as InfoNCE: cross-entropy of the positive among
//! itself and its negatives, on scores divided by the temperature.
//!
//! With a low temperature only the hardest negatives count, with a high one all of them count alike. The sum over the
//! negatives may be scaled up to an estimate of the sum over all entities from which they are drawn. Without this
//! correction, the loss of a positive is too small, the more so the fewer negatives there are. Source: van den
//! Oord et al., "Representation Learning with Contrastive Predictive Coding" (2018), equation 4; the
//! temperature as in Wu et al., "Unsupervised Feature Learning via Non-Parametric Instance
//! Discrimination" (2018), equation 2; the correction as in Jean et al., "On Using Very Large Target Vocabulary for
//! Neural Machine Translation" (2015), section 3.1, for negatives that are drawn uniformly.

use pbg_plugin_sdk::loss::formula::{Row, Scores, softplus};
use pbg_plugin_sdk::{Metadata, Parameter, Parameters, Result, TracedLoss, export_traced_loss};

/// The loss with its parameters.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize)]
pub struct SampledSoftmax {
    temperature: f32,
    entities: i64,
}

impl TracedLoss for SampledSoftmax {
    fn metadata() -> Metadata {
        Metadata::new(
            "sampled_softmax_temperature",
            env!("CARGO_PKG_VERSION"),
            "Cross-entropy of the positive among its negatives, on scores divided by a temperature.",
        )
        .parameter(Parameter::number(
            "temperature",
            1.0,
            1e-3..=1e3,
            "Divisor of the scores; a lower one gives more weight to hard negatives.",
        ))
        .parameter(Parameter::integer(
            "entities",
            0,
            0..=1 << 40,
            "Number of entities from which negatives are drawn, to which their sum is scaled; 0: no scaling.",
        ))
    }

    fn configure(&mut self, parameters: &Parameters) -> Result<()> {
        *self = parameters.parse()?;
        Ok(())
    }

    fn build<'t>(&self, scores: Scores<'t>) -> Result<Row<'t>> {
        let sharpness = 1.0 / self.temperature;
        let mut negatives = (sharpness * scores.negatives()).logsumexp();
        if self.entities > 0 {
            let entities = self.entities as f32;
            negatives = negatives - (scores.columns().maximum(1.0) * (1.0 / entities)).log();
        }
        Ok(softplus(negatives - sharpness * scores.positive()))
    }
}

export_traced_loss!(SampledSoftmax);

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_plugin_sdk::loss::trace;
    use pbg_plugin_sdk::testing;

    #[test]
    fn keeps_the_contract() {
        testing::assert_traced_loss::<SampledSoftmax>();
    }

    #[test]
    fn is_cross_entropy_on_scores_over_the_temperature() {
        let loss = SampledSoftmax {
            temperature: 0.25,
            entities: 0,
        };
        let found = trace(&loss).unwrap().row(&[], 0.3, &[-0.2, 0.6]);
        let scaled = [0.3_f64, -0.2, 0.6].map(|x| (x / 0.25).exp());
        let total: f64 = scaled.iter().sum();
        assert!((found.loss + (scaled[0] / total).ln()).abs() < 1e-6);
        assert!((found.negative[1] - 4.0 * scaled[2] / total).abs() < 1e-6);
        assert!((found.positive - 4.0 * (scaled[0] / total - 1.0)).abs() < 1e-6);
    }

    #[test]
    fn negatives_stand_for_all_entities() {
        let loss = |entities| SampledSoftmax {
            temperature: 1.0,
            entities,
        };
        let found = trace(&loss(10)).unwrap().row(&[], 0.3, &[-0.2, 0.6]);
        let each_five_times = [[-0.2; 5], [0.6; 5]].concat();
        let all = trace(&loss(0)).unwrap().row(&[], 0.3, &each_five_times);
        assert!((found.loss - all.loss).abs() < 1e-6);
        assert!((found.positive - all.positive).abs() < 1e-6);
        assert!((found.negative[1] - 5.0 * all.negative[9]).abs() < 1e-6);
        let none = trace(&loss(10)).unwrap().row(&[], 0.3, &[]);
        assert_eq!((none.loss, none.positive), (0.0, 0.0));
    }
}
