//! Negatives of the relation's type: entities that some edge of the relation has on the replaced side.
//!
//! They are harder than uniform ones, since most entities cannot be the head or tail of most relations. Source: Krompass,
//! Baier, Tresp, "Type-Constrained Representation Learning in Knowledge Graphs" (2015), local closed-world assumption.

use pbg_plugin_sdk::{
    CandidateWeights, DistributionPart, Metadata, NegativeCandidates, NegativeSampler, Parameter,
    Parameters, RequiredData, Result, export_negatives,
};

/// The sampler with its parameters.
#[derive(Clone, Copy, Debug, Default, serde::Deserialize)]
pub struct TypesSeen {
    fraction: f64,
    power: f64,
}

impl NegativeSampler for TypesSeen {
    fn metadata() -> Metadata {
        Metadata::new(
            "types_seen",
            env!("CARGO_PKG_VERSION"),
            "Entities seen with the relation on the replaced side.",
        )
        .parameter(Parameter::number(
            "fraction",
            0.5,
            0.0..=1.0,
            "Fraction of the negatives that are drawn from the entities seen. The others are drawn uniformly.",
        ))
        .parameter(Parameter::number(
            "power",
            0.0,
            -4.0..=4.0,
            "Exponent of the number of edges of the relation that an entity has. 0: all entities seen equally often.",
        ))
    }

    fn configure(&mut self, parameters: &Parameters) -> Result<()> {
        *self = parameters.parse()?;
        Ok(())
    }

    fn required(&self) -> RequiredData {
        RequiredData {
            relation_counts: self.fraction > 0.0,
            ..RequiredData::default()
        }
    }

    fn distribution(&mut self, _: &NegativeCandidates) -> Result<Vec<DistributionPart>> {
        let seen = CandidateWeights::of_relation(self.power);
        Ok(DistributionPart::mixed(self.fraction, seen))
    }
}

export_negatives!(TypesSeen);

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_plugin_sdk::testing;

    #[test]
    fn keeps_the_contract() {
        testing::assert_negatives::<TypesSeen>();
    }
}
