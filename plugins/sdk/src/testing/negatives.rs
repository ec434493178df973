//! Assertion of the contract of negative samplers, for the tests of plugins.

use super::defaults;
use crate::{
    CandidateWeights, CountedEdges, DistributionPart, NegativeCandidates, NegativeSampler,
    RequiredData,
};

/// Asserts the contract of a negative sampler, configured with its defaults: for relations with no, few and many
/// candidates, distributions are valid, use only what the plugin requires, and are the same when asked again.
///
/// # Panics
/// If the contract is violated. The message describes the problem.
///
/// ```
/// # use pbg_plugin_sdk::{
/// #     CandidateWeights, DistributionPart, Metadata, NegativeCandidates, NegativeSampler, RequiredData, Result,
/// # };
/// #[derive(Default)]
/// struct Even;
///
/// impl NegativeSampler for Even {
///     fn metadata() -> Metadata { Metadata::new("even", "0.1.0", "All alike.") }
///     fn required(&self) -> RequiredData { RequiredData::default() }
///     fn distribution(&mut self, _: &NegativeCandidates) -> Result<Vec<DistributionPart>> {
///         Ok(vec![DistributionPart::new(1.0, CandidateWeights::Uniform)])
///     }
/// }
///
/// pbg_plugin_sdk::testing::assert_negatives::<Even>();
/// ```
pub fn assert_negatives<S: NegativeSampler>() {
    for (entities, edges, seen) in [(1, 0, 0), (1, 1, 1), (100, 50, 20), (1_000_000, 9, 9)] {
        for side in [crate::Side::Lhs, crate::Side::Rhs] {
            for epoch in [0, 7] {
                let candidates = NegativeCandidates {
                    side,
                    entities,
                    edges,
                    seen,
                    epoch,
                    ..NegativeCandidates::example()
                };
                assert_distribution::<S>(&candidates);
            }
        }
    }
}

/// Asserts the contract of [`assert_negatives`] for some candidates, and returns the distribution.
///
/// # Panics
/// If the contract is violated. The message has the candidates.
///
/// ```
/// # use pbg_plugin_sdk::{
/// #     CandidateWeights, DistributionPart, Metadata, NegativeCandidates, NegativeSampler, RequiredData, Result, testing,
/// # };
/// # #[derive(Default)]
/// # struct Even;
/// # impl NegativeSampler for Even {
/// #     fn metadata() -> Metadata { Metadata::new("even", "0.1.0", "All alike.") }
/// #     fn required(&self) -> RequiredData { RequiredData::default() }
/// #     fn distribution(&mut self, _: &NegativeCandidates) -> Result<Vec<DistributionPart>> {
/// #         Ok(vec![DistributionPart::new(1.0, CandidateWeights::Uniform)])
/// #     }
/// # }
/// let parts = testing::assert_distribution::<Even>(&NegativeCandidates::example());
/// assert_eq!(parts[0].weights, CandidateWeights::Uniform);
/// ```
pub fn assert_distribution<S: NegativeSampler>(
    candidates: &NegativeCandidates,
) -> Vec<DistributionPart> {
    let ask = || {
        let mut sampler = S::default();
        let configured = sampler.configure(&defaults(&S::metadata()));
        assert_eq!(configured, Ok(()), "the plugin refuses its own defaults");
        let required = sampler.required();
        let parts = sampler.distribution(candidates);
        let parts = parts.unwrap_or_else(|refusal| {
            panic!("the plugin refuses {candidates:?}: {refusal}");
        });
        (required, parts)
    };
    let (required, parts) = ask();
    assert_eq!(
        ask(),
        (required, parts.clone()),
        "the answers of two instances differ for {candidates:?}"
    );
    assert!(!parts.is_empty(), "no part for {candidates:?}");
    for part in &parts {
        assert!(
            part.fraction > 0.0 && part.fraction.is_finite(),
            "a fraction of {} for {candidates:?}",
            part.fraction
        );
        assert_weights(&part.weights, required);
    }
    let draws_some = parts
        .iter()
        .any(|part| part.weights != CandidateWeights::Nothing);
    assert!(draws_some, "all draws are left out for {candidates:?}");
    for (i, part) in parts.iter().enumerate() {
        let same = parts[..i].iter().any(|other| kind(other) == kind(part));
        assert!(!same, "two parts of one kind for {candidates:?}");
    }
    parts
}

/// Returns a number that two parts of a distribution must not share.
fn kind(part: &DistributionPart) -> usize {
    match &part.weights {
        CandidateWeights::Uniform => 0,
        CandidateWeights::Counted { edges, .. } => 1 + *edges as usize,
        CandidateWeights::Listed { .. } => 3,
        CandidateWeights::Nothing => 4,
    }
}

fn assert_weights(weights: &CandidateWeights, required: RequiredData) {
    match weights {
        CandidateWeights::Uniform | CandidateWeights::Nothing => {}
        CandidateWeights::Counted { edges, power } => {
            let of = match edges {
                CountedEdges::OfSide => required.side_counts,
                CountedEdges::OfRelation => required.relation_counts,
            };
            assert!(of, "counts {edges:?} are used, but not required");
            assert!(
                power.is_finite() && power.abs() <= 16.0,
                "a power of {power}"
            );
        }
        CandidateWeights::Listed { names, weights } => {
            assert!(required.names, "names are used, but not required");
            let even = weights.is_empty() || weights.len() == names.len();
            assert!(even, "{} names with {} weights", names.len(), weights.len());
            let valid = |weight: &f32| *weight >= 0.0 && weight.is_finite();
            assert!(weights.iter().all(valid), "a weight is not valid");
            let mut sorted: Vec<&String> = names.iter().collect();
            sorted.sort_unstable();
            assert!(
                sorted.windows(2).all(|pair| pair[0] != pair[1]),
                "a name is listed twice"
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Metadata, Result};

    /// Uses counts that it does not require.
    #[derive(Default)]
    struct Greedy;

    impl NegativeSampler for Greedy {
        fn metadata() -> Metadata {
            Metadata::new("greedy", "0.1.0", "Counts in secret.")
        }

        fn required(&self) -> RequiredData {
            RequiredData::default()
        }

        fn distribution(&mut self, _: &NegativeCandidates) -> Result<Vec<DistributionPart>> {
            Ok(DistributionPart::mixed(0.5, CandidateWeights::of_side(1.0)))
        }
    }

    #[test]
    #[should_panic(expected = "used, but not required")]
    fn counts_that_are_not_required_are_found() {
        assert_negatives::<Greedy>();
    }
}
