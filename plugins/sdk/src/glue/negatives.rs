//! Component of negative samplers.

use super::{Instance, with};
use crate::{
    CandidateWeights, CountedEdges, DistributionPart, NegativeCandidates, NegativeSampler, Result,
    Side,
};

pub use super::bindings::negatives::exports::pbg::plugin::negative_distribution;

configure! { NegativeSampler }

/// Implements `negative-distribution.require`.
pub fn require<S: NegativeSampler>(
    slot: Instance<S>,
) -> Result<negative_distribution::RequiredData> {
    let required = with(slot, |sampler| sampler.required());
    Ok(negative_distribution::RequiredData {
        side_counts: required.side_counts,
        relation_counts: required.relation_counts,
        names: required.names,
        relation_entities: required.relation_entities,
    })
}

/// Implements `negative-distribution.distribution`.
pub fn distribution<S: NegativeSampler>(
    slot: Instance<S>,
    candidates: negative_distribution::Candidates,
) -> Result<Vec<negative_distribution::DistributionPart>> {
    let parts = with(slot, |sampler| sampler.distribution(&lift(candidates)))?;
    Ok(parts.into_iter().map(lower).collect())
}

fn lift(candidates: negative_distribution::Candidates) -> NegativeCandidates {
    NegativeCandidates {
        relation: candidates.relation,
        relation_name: candidates.relation_name,
        side: match candidates.side {
            negative_distribution::Side::Lhs => Side::Lhs,
            negative_distribution::Side::Rhs => Side::Rhs,
        },
        entity_type: candidates.entity_type,
        partition: candidates.partition,
        entities: candidates.entities,
        edges: candidates.edges,
        seen: candidates.seen,
        replaced_entities: candidates.replaced_entities,
        kept_entities: candidates.kept_entities,
        epoch: candidates.position.epoch,
        edge_set: candidates.position.edge_set,
        edge_chunk: candidates.position.edge_chunk,
    }
}

fn lower(part: DistributionPart) -> negative_distribution::DistributionPart {
    use negative_distribution::CandidateWeights as Lowered;
    negative_distribution::DistributionPart {
        fraction: part.fraction,
        weights: match part.weights {
            CandidateWeights::Uniform => Lowered::Uniform,
            CandidateWeights::Counted { edges, power } => {
                let edges = counted(edges);
                Lowered::Counted(negative_distribution::Counted { edges, power })
            }
            CandidateWeights::Listed { names, weights } => {
                Lowered::Listed(negative_distribution::Listed { names, weights })
            }
            CandidateWeights::Nothing => Lowered::Nothing,
        },
    }
}

fn counted(edges: CountedEdges) -> negative_distribution::CountedEdges {
    match edges {
        CountedEdges::OfSide => negative_distribution::CountedEdges::OfSide,
        CountedEdges::OfRelation => negative_distribution::CountedEdges::OfRelation,
    }
}

/// Defines the component of a negative sampler; `export_negatives!` expands to it in the wasm build.
#[doc(hidden)]
#[macro_export]
macro_rules! __negatives_component {
    ($sampler:ty) => {
        $crate::__component!($sampler, NegativeSampler);

        impl $crate::glue::negatives::negative_distribution::Guest for Component {
            fn configure(
                parameters: ::std::vec::Vec<$crate::glue::types::ParameterValue>,
            ) -> $crate::Result<()> {
                $crate::glue::negatives::configure(&INSTANCE, parameters)
            }

            fn require() -> $crate::Result<$crate::glue::negatives::negative_distribution::RequiredData> {
                $crate::glue::negatives::require(&INSTANCE)
            }

            fn distribution(
                candidates: $crate::glue::negatives::negative_distribution::Candidates,
            ) -> $crate::Result<
                ::std::vec::Vec<$crate::glue::negatives::negative_distribution::DistributionPart>,
            > {
                $crate::glue::negatives::distribution(&INSTANCE, candidates)
            }
        }

        $crate::glue::bindings::negatives::export!(Component with_types_in $crate::glue::bindings::negatives);
    };
}
