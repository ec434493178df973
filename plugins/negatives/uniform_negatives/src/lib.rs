//! PBG's negative sampler: every entity of the partition is drawn equally often.
//!
//! It requires nothing, so the host never asks it for a distribution.

use pbg_plugin_sdk::{
    CandidateWeights, DistributionPart, Metadata, NegativeCandidates, NegativeSampler,
    RequiredData, Result, export_negatives,
};

/// The sampler; it has no parameters.
#[derive(Clone, Copy, Debug, Default)]
pub struct UniformNegatives;

impl NegativeSampler for UniformNegatives {
    fn metadata() -> Metadata {
        Metadata::new(
            "uniform_negatives",
            env!("CARGO_PKG_VERSION"),
            "All entities of the partition equally often (PBG).",
        )
    }

    fn required(&self) -> RequiredData {
        RequiredData::default()
    }

    fn distribution(&mut self, _: &NegativeCandidates) -> Result<Vec<DistributionPart>> {
        Ok(vec![DistributionPart::new(1.0, CandidateWeights::Uniform)])
    }
}

export_negatives!(UniformNegatives);

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_plugin_sdk::testing;

    #[test]
    fn keeps_the_contract() {
        testing::assert_negatives::<UniformNegatives>();
    }
}
