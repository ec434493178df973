//! Component of traced comparators.

use super::{Instance, with};
use crate::comparator::{Formula, trace};
use crate::{Result, TracedComparator};

pub use super::bindings::comparator::exports::pbg::plugin::comparator_formula;

configure! { TracedComparator }

/// Implements `comparator-formula.build`.
pub fn build<C: TracedComparator>(slot: Instance<C>) -> Result<comparator_formula::Formula> {
    with(slot, |comparator| trace(comparator)).map(lower)
}

fn lower(formula: Formula) -> comparator_formula::Formula {
    comparator_formula::Formula {
        components: formula.components,
        nodes: formula.nodes.into_iter().map(lower_node).collect(),
        score: formula.score,
    }
}

lower_vectors! { comparator_formula, "comparators have neither scores nor parameters", {} }

/// Defines the component of a traced comparator; `export_traced_comparator!` expands to it in the wasm build.
#[doc(hidden)]
#[macro_export]
macro_rules! __traced_comparator_component {
    ($comparator:ty) => {
        $crate::__component!($comparator, TracedComparator);

        impl $crate::glue::comparator::comparator_formula::Guest for Component {
            fn configure(
                parameters: ::std::vec::Vec<$crate::glue::types::ParameterValue>,
            ) -> $crate::Result<()> {
                $crate::glue::comparator::configure(&INSTANCE, parameters)
            }

            fn build() -> $crate::Result<$crate::glue::comparator::comparator_formula::Formula> {
                $crate::glue::comparator::build(&INSTANCE)
            }
        }

        $crate::glue::bindings::comparator::export!(Component with_types_in $crate::glue::bindings::comparator);
    };
}
