//! Bernoulli sides: of a relation with many heads for each tail, the tail is replaced more often than the head.
//!
//! Whether a negative replaces the head or the tail is a Bernoulli draw with the odds of TransH, tails per head to heads per
//! tail: a wrong answer that happens to be right is less likely on the side with few right answers. Source: Wang, Zhang,
//! Feng, Chen, "Knowledge Graph Embedding by Translating on Hyperplanes" (2014), section 3.3.
//!
//! The host draws the negatives of both sides for chunks of edges, so the draws of the side with lower odds are left out
//! until the numbers have these odds.

use pbg_plugin_sdk::{
    CandidateWeights, DistributionPart, Metadata, NegativeCandidates, NegativeSampler,
    RequiredData, Result, export_negatives,
};

/// The sampler; it has no parameters.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bernoulli;

impl NegativeSampler for Bernoulli {
    fn metadata() -> Metadata {
        Metadata::new(
            "bernoulli",
            env!("CARGO_PKG_VERSION"),
            "Uniform, with fewer on the side that has more entities of the relation.",
        )
    }

    fn required(&self) -> RequiredData {
        RequiredData {
            relation_entities: true,
            ..RequiredData::default()
        }
    }

    fn distribution(&mut self, candidates: &NegativeCandidates) -> Result<Vec<DistributionPart>> {
        // With E edges, H heads and T tails, the head is replaced with the odds E/H : E/T, which are T : H.
        let odds = candidates.kept_entities as f64 / candidates.replaced_entities.max(1) as f64;
        let drawn = if odds > 0.0 { odds.min(1.0) } else { 1.0 };
        let parts = [
            DistributionPart::new(drawn, CandidateWeights::Uniform),
            DistributionPart::new(1.0 - drawn, CandidateWeights::Nothing),
        ];
        let parts = parts.into_iter();
        Ok(parts.filter(|part| part.fraction > 0.0).collect())
    }
}

export_negatives!(Bernoulli);

#[cfg(test)]
mod tests {
    use super::*;
    use pbg_plugin_sdk::testing;

    #[test]
    fn keeps_the_contract() {
        testing::assert_negatives::<Bernoulli>();
    }

    /// Returns the fraction of the draws that are made for the side with `replaced` entities.
    fn drawn(replaced: u64, kept: u64) -> f64 {
        let candidates = NegativeCandidates {
            replaced_entities: replaced,
            kept_entities: kept,
            ..NegativeCandidates::example()
        };
        Bernoulli.distribution(&candidates).unwrap()[0].fraction
    }

    #[test]
    fn sides_are_replaced_with_the_odds_of_transh() {
        // 12 people like 3 things, with 24 edges: 2 tails per head, 8 heads per tail.
        let (heads, tails) = (drawn(12, 3), drawn(3, 12));
        assert_eq!(heads / (heads + tails), 2.0 / (2.0 + 8.0));
        assert_eq!((drawn(7, 7), drawn(1, 1_000_000)), (1.0, 1.0));
        // A relation without edges.
        assert_eq!(drawn(0, 0), 1.0);
    }
}
