//! Component of negative selectors.

use super::{Instance, with};
use crate::{CandidateScores, NegativeChunk, NegativeSelection, NegativeSelector, Result, Side};

pub use super::bindings::selection::exports::pbg::plugin::negative_selection;

configure! { NegativeSelector }

/// Implements `negative-selection.require`.
pub fn require<S: NegativeSelector>(slot: Instance<S>) -> Result<negative_selection::Requirements> {
    let required = with(slot, |selector| selector.required());
    Ok(negative_selection::Requirements {
        candidates_per_negative: required.candidates_per_negative,
        scores: required.scores,
    })
}

/// Implements `negative-selection.select`.
pub fn select<S: NegativeSelector>(
    slot: Instance<S>,
    chunk: negative_selection::Chunk,
) -> Result<negative_selection::Selection> {
    use negative_selection::Selection as Lowered;
    let selection = with(slot, |selector| selector.select(&lift(chunk)))?;
    Ok(match selection {
        NegativeSelection::Entities(entities) => Lowered::Entities(entities),
        NegativeSelection::Weights(weights) => Lowered::Weights(weights),
    })
}

fn lift(chunk: negative_selection::Chunk) -> NegativeChunk {
    NegativeChunk {
        side: match chunk.side {
            negative_selection::Side::Lhs => Side::Lhs,
            negative_selection::Side::Rhs => Side::Rhs,
        },
        entity_type: chunk.entity_type,
        partition: chunk.partition,
        entities: chunk.entities,
        kept_partition: chunk.kept_partition,
        relations: chunk.relations,
        kept: chunk.kept,
        replaced: chunk.replaced,
        candidates: chunk.candidates,
        scores: chunk.scores.map(|scores| CandidateScores {
            positives: scores.positives,
            means: scores.means,
            highest: scores.highest,
        }),
        negatives: chunk.negatives,
        epoch: chunk.position.epoch,
        edge_set: chunk.position.edge_set,
        edge_chunk: chunk.position.edge_chunk,
        seed: chunk.seed,
    }
}

/// Defines the component of a negative selector; `export_negative_selector!` expands to it in the wasm build.
#[doc(hidden)]
#[macro_export]
macro_rules! __negative_selector_component {
    ($selector:ty) => {
        $crate::__component!($selector, NegativeSelector);

        impl $crate::glue::selection::negative_selection::Guest for Component {
            fn configure(
                parameters: ::std::vec::Vec<$crate::glue::types::ParameterValue>,
            ) -> $crate::Result<()> {
                $crate::glue::selection::configure(&INSTANCE, parameters)
            }

            fn require() -> $crate::Result<$crate::glue::selection::negative_selection::Requirements> {
                $crate::glue::selection::require(&INSTANCE)
            }

            fn select(
                chunk: $crate::glue::selection::negative_selection::Chunk,
            ) -> $crate::Result<$crate::glue::selection::negative_selection::Selection> {
                $crate::glue::selection::select(&INSTANCE, chunk)
            }
        }

        $crate::glue::bindings::selection::export!(Component with_types_in $crate::glue::bindings::selection);
    };
}
