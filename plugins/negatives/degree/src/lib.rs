//! Negatives by degree: an entity is drawn with a probability proportional to a power of its number of edges.
//!
//! Only edges that have the entity on the replaced side count. Sources: Mikolov et al., "Distributed Representations of
//! Words and Phrases and their Compositionality" (2013), for the power 0.75; Mohoney et al., "Marius: Learning Massive Graph
//! Embeddings on a Single Machine" (2021), for `fraction` (its `degree_fraction`).

use pbg_plugin_sdk::{
    CandidateWeights, DistributionPart, Metadata, NegativeCandidates, NegativeSampler, Parameter,
    Parameters, RequiredData, Result, export_negatives,
};

/// The sampler with its parameters.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize)]
pub struct Degree {
    power: f64,
    fraction: f64,
}

impl NegativeSampler for Degree {
    fn metadata() -> Metadata {
        Metadata::new(
            "degree",
            env!("CARGO_PKG_VERSION"),
            "Entities in proportion to a power of their edges on the replaced side.",
        )
        .parameter(Parameter::number(
            "power",
            0.75,
            -4.0..=4.0,
            "Exponent of the number of edges. 1: proportional to the edges; 0: all that have an edge equally often.",
        ))
        .parameter(Parameter::number(
            "fraction",
            1.0,
            0.0..=1.0,
            "Fraction of the negatives that are drawn by degree. The others are drawn uniformly.",
        ))
    }

    fn configure(&mut self, parameters: &Parameters) -> Result<()> {
        *self = parameters.parse()?;
        Ok(())
    }

    fn required(&self) -> RequiredData {
        RequiredData {
            side_counts: self.fraction > 0.0,
            ..RequiredData::default()
        }
    }

    fn distribution(&mut self, _: &NegativeCandidates) -> Result<Vec<DistributionPart>> {
        let by_degree = CandidateWeights::of_side(self.power);
        Ok(DistributionPart::mixed(self.fraction, by_degree))
    }
}

export_negatives!(Degree);

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_plugin_sdk::testing;

    #[test]
    fn keeps_the_contract() {
        testing::assert_negatives::<Degree>();
    }

    #[test]
    fn the_fraction_is_drawn_by_degree() {
        let mut sampler = Degree {
            power: 1.0,
            fraction: 0.25,
        };
        let parts = sampler.distribution(&NegativeCandidates::example());
        let expected = [
            DistributionPart::new(0.25, CandidateWeights::of_side(1.0)),
            DistributionPart::new(0.75, CandidateWeights::Uniform),
        ];
        assert_eq!(parts.unwrap(), expected);
        assert!(sampler.required().side_counts);
        let uniform = Degree {
            power: 1.0,
            fraction: 0.0,
        };
        assert_eq!(uniform.required(), RequiredData::default());
    }
}
