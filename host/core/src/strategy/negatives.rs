//! Negative samplers: distributions of negatives as data.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{RunLength, StrategyError, StrategyId};
use crate::graph::Side;
use crate::schedule::PassId;

/// Strategy that decides from which entities negatives are drawn. It returns distributions; the host draws from them.
pub trait NegativeSampler: Send {
    /// Returns the identity of the strategy.
    fn id(&self) -> &StrategyId;

    /// Called when a run of this length begins or continues.
    fn begin_run(&mut self, length: RunLength) {
        let _ = length;
    }

    /// Returns what the distributions use. If it is nothing, every distribution is uniform.
    fn required(&self) -> RequiredData;

    /// Returns the distribution of the negatives among `candidates`, which [`check_distribution`] accepts.
    ///
    /// # Errors
    /// Fails if the strategy refuses, traps, exceeds its limits or returns an invalid distribution.
    fn distribution(
        &mut self,
        candidates: &NegativeCandidates,
    ) -> Result<Vec<DistributionPart>, StrategyError>;
}

/// What the distributions of a strategy use besides the uniform one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequiredData {
    /// Number of edges of each entity: [`CountedEdges::OfSide`].
    pub side_counts: bool,
    /// Number of edges of each entity with each relation: [`CountedEdges::OfRelation`].
    pub relation_counts: bool,
    /// Entities by name: [`CandidateWeights::Listed`].
    pub names: bool,
    /// Number of entities on each side of all edges of each relation: [`NegativeCandidates::replaced_entities`] and
    /// [`NegativeCandidates::kept_entities`].
    #[serde(default)]
    pub relation_entities: bool,
}

impl RequiredData {
    /// Whether nothing is required, so that draws are uniform.
    #[must_use]
    pub fn is_nothing(self) -> bool {
        self == Self::default()
    }

    /// Returns what either of two strategies requires.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self {
            side_counts: self.side_counts || other.side_counts,
            relation_counts: self.relation_counts || other.relation_counts,
            names: self.names || other.names,
            relation_entities: self.relation_entities || other.relation_entities,
        }
    }
}

/// The entities of a partition that may replace one side of a relation's edges.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NegativeCandidates {
    /// Index of the relation in the dataset.
    pub relation: u32,
    /// Name of the relation.
    pub relation_name: String,
    /// Side of the edges that is replaced.
    pub side: Side,
    /// Entity type of this side.
    pub entity_type: String,
    /// Number of the partition.
    pub partition: u32,
    /// Number of entities in the partition.
    pub entities: u32,
    /// Number of the relation's edges whose replaced side is in the partition; 0 unless relation counts are required.
    pub edges: u64,
    /// Number of different entities on this side of these edges; 0 unless relation counts are required.
    pub seen: u32,
    /// Number of different entities on the replaced side of all edges of the relation, in all partitions; 0 unless
    /// relation entities are required.
    #[serde(default)]
    pub replaced_entities: u64,
    /// Number of different entities on the other side of these edges; 0 unless relation entities are required.
    #[serde(default)]
    pub kept_entities: u64,
    /// Position of the pass in the run.
    pub pass: PassId,
}

/// Edges that are counted for each entity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CountedEdges {
    /// The edges of all relations that have the entity on the replaced side.
    OfSide,
    /// The edges of the relation in question that have the entity on the replaced side.
    OfRelation,
}

/// Relative probabilities of the entities of a partition.
#[derive(Clone, Debug, PartialEq)]
pub enum CandidateWeights {
    /// All entities are equally likely.
    Uniform,
    /// An entity's number of edges to a power; an entity without such edges has weight 0.
    Counted {
        /// Edges that count.
        edges: CountedEdges,
        /// Exponent.
        power: f64,
    },
    /// Entities by name; those in other partitions are left out.
    Listed {
        /// Names, each once.
        names: Vec<String>,
        /// Weight of each name; empty: all are equally likely.
        weights: Vec<f32>,
    },
    /// No entity: these draws are left out, so each edge has so many fewer negatives on this side.
    Nothing,
}

/// Part of a distribution, which is a mixture.
#[derive(Clone, Debug, PartialEq)]
pub struct DistributionPart {
    /// Fraction of the draws that come from this part, relative to the other parts.
    pub fraction: f64,
    /// Weights of the entities.
    pub weights: CandidateWeights,
}

/// Largest absolute value of an exponent.
pub const MAX_POWER: f64 = 16.0;

/// Violation of a negative sampler's contract.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum DistributionError {
    /// There are no parts.
    #[error("it has no parts; return at least one, such as a uniform one")]
    Empty,
    /// The only part has no entities.
    #[error("it leaves out all draws; add a part with entities, such as a uniform one")]
    Nothing,
    /// Two parts have the same kind of weights.
    #[error("it has two parts with {kind}; return one of each kind")]
    Twice {
        /// Kind of the weights.
        kind: &'static str,
    },
    /// A fraction is not a positive number.
    #[error("a part has the fraction {0}; it must be greater than 0 and finite")]
    Fraction(f64),
    /// An exponent is out of range.
    #[error("the power {0} is not from -16 to 16")]
    Power(f64),
    /// The weights use data that the strategy does not require.
    #[error("it uses {kind}, which `require` does not ask for")]
    NotRequired {
        /// Kind of the weights.
        kind: &'static str,
    },
    /// Names and weights differ in number.
    #[error("it lists {names} names with {weights} weights; give one weight per name, or none")]
    Uneven {
        /// Number of names.
        names: usize,
        /// Number of weights.
        weights: usize,
    },
    /// A weight is negative or not finite.
    #[error("the weight of {name:?} is {weight}; it must be at least 0 and finite")]
    Weight {
        /// Name of the entity.
        name: String,
        /// Its weight.
        weight: f32,
    },
    /// A name is listed twice.
    #[error("{name:?} is listed twice")]
    Repeated {
        /// Name of the entity.
        name: String,
    },
}

/// Checks a distribution: it has at least one part, at most one of each kind, only valid numbers, and uses only what is
/// required.
///
/// # Errors
/// Returns the first violation.
pub fn check_distribution(
    parts: &[DistributionPart],
    required: RequiredData,
) -> Result<(), DistributionError> {
    if parts.is_empty() {
        return Err(DistributionError::Empty);
    }
    // Each may be finite and their sum not.
    let sum: f64 = parts.iter().map(|part| part.fraction).sum();
    if sum == f64::INFINITY {
        return Err(DistributionError::Fraction(sum));
    }
    let mut kinds = BTreeSet::new();
    for part in parts {
        if !(part.fraction > 0.0 && part.fraction.is_finite()) {
            return Err(DistributionError::Fraction(part.fraction));
        }
        let (kind, allowed) = match &part.weights {
            CandidateWeights::Uniform => ("uniform weights", true),
            CandidateWeights::Counted { edges, power } => {
                if power.is_nan() || power.abs() > MAX_POWER {
                    return Err(DistributionError::Power(*power));
                }
                match edges {
                    CountedEdges::OfSide => ("counts of the side", required.side_counts),
                    CountedEdges::OfRelation => {
                        ("counts of the relation", required.relation_counts)
                    }
                }
            }
            CandidateWeights::Listed { names, weights } => {
                check_list(names, weights)?;
                ("names", required.names)
            }
            CandidateWeights::Nothing => ("nothing", true),
        };
        if !allowed {
            return Err(DistributionError::NotRequired { kind });
        }
        if !kinds.insert(kind) {
            return Err(DistributionError::Twice { kind });
        }
    }
    match parts {
        [only] if only.weights == CandidateWeights::Nothing => Err(DistributionError::Nothing),
        _ => Ok(()),
    }
}

/// Returns the fraction of the draws that a valid distribution does not leave out.
#[must_use]
pub fn drawn_fraction(parts: &[DistributionPart]) -> f64 {
    let all: f64 = parts.iter().map(|part| part.fraction).sum();
    let drawn = parts
        .iter()
        .filter(|part| part.weights != CandidateWeights::Nothing);
    drawn.map(|part| part.fraction).sum::<f64>() / all
}

fn check_list(names: &[String], weights: &[f32]) -> Result<(), DistributionError> {
    if !weights.is_empty() && weights.len() != names.len() {
        return Err(DistributionError::Uneven {
            names: names.len(),
            weights: weights.len(),
        });
    }
    let mut pairs = names.iter().zip(weights);
    if let Some((name, &weight)) = pairs.find(|(_, weight)| !(0.0..=f32::MAX).contains(*weight)) {
        let name = name.clone();
        return Err(DistributionError::Weight { name, weight });
    }
    let mut known = BTreeSet::new();
    match names.iter().find(|name| !known.insert(name.as_str())) {
        Some(name) => Err(DistributionError::Repeated { name: name.clone() }),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(fraction: f64, weights: CandidateWeights) -> DistributionPart {
        DistributionPart { fraction, weights }
    }

    fn counted(edges: CountedEdges, power: f64) -> CandidateWeights {
        CandidateWeights::Counted { edges, power }
    }

    fn listed(names: &[&str], weights: &[f32]) -> CandidateWeights {
        CandidateWeights::Listed {
            names: names.iter().map(|name| (*name).to_owned()).collect(),
            weights: weights.to_vec(),
        }
    }

    const ALL: RequiredData = RequiredData {
        side_counts: true,
        relation_counts: true,
        names: true,
        relation_entities: true,
    };

    #[test]
    fn every_kind_may_occur_once() {
        let parts = [
            part(0.1, CandidateWeights::Uniform),
            part(2.0, counted(CountedEdges::OfSide, 0.75)),
            part(1e-9, counted(CountedEdges::OfRelation, -16.0)),
            part(1.0, listed(&["a", "b"], &[])),
        ];
        assert_eq!(check_distribution(&parts, ALL), Ok(()));
        assert_eq!(
            check_distribution(&[parts[0].clone(), parts[0].clone()], ALL),
            Err(DistributionError::Twice {
                kind: "uniform weights"
            })
        );
        assert_eq!(check_distribution(&[], ALL), Err(DistributionError::Empty));
    }

    #[test]
    fn some_draws_may_be_left_out_and_not_all() {
        let nothing = part(3.0, CandidateWeights::Nothing);
        let parts = [part(1.0, CandidateWeights::Uniform), nothing.clone()];
        assert_eq!(check_distribution(&parts, RequiredData::default()), Ok(()));
        assert_eq!(drawn_fraction(&parts), 0.25);
        assert_eq!(drawn_fraction(&parts[..1]), 1.0);
        let alone = check_distribution(&[nothing], ALL);
        assert_eq!(alone, Err(DistributionError::Nothing));
    }

    #[test]
    fn what_is_not_required_is_not_used() {
        for weights in [
            counted(CountedEdges::OfSide, 1.0),
            counted(CountedEdges::OfRelation, 1.0),
            listed(&["a"], &[]),
        ] {
            let found = check_distribution(&[part(1.0, weights)], RequiredData::default());
            assert!(
                matches!(found, Err(DistributionError::NotRequired { .. })),
                "{found:?}"
            );
        }
    }

    #[test]
    fn numbers_that_give_no_probability_are_refused() {
        for fraction in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let found = check_distribution(&[part(fraction, CandidateWeights::Uniform)], ALL);
            assert!(
                matches!(found, Err(DistributionError::Fraction(_))),
                "{found:?}"
            );
        }
        for power in [f64::NAN, 16.1, f64::NEG_INFINITY] {
            let weights = counted(CountedEdges::OfSide, power);
            let found = check_distribution(&[part(1.0, weights)], ALL);
            assert!(
                matches!(found, Err(DistributionError::Power(_))),
                "{found:?}"
            );
        }
        for (names, weights, reason) in [
            (&["a", "b"][..], &[1.0][..], "2 names with 1 weights"),
            (&["a"], &[-1.0], "the weight of \"a\" is -1"),
            (&["a"], &[f32::NAN], "the weight of \"a\" is NaN"),
            (&["a", "b", "a"], &[], "\"a\" is listed twice"),
        ] {
            let found = check_distribution(&[part(1.0, listed(names, weights))], ALL);
            let text = found.unwrap_err().to_string();
            assert!(text.contains(reason), "{text}");
        }
    }
}
