//! Component of traced operators.

use super::{Instance, with};
use crate::operator::{self, Initial, trace};
use crate::{Result, TracedOperator};

pub use super::bindings::operator::exports::pbg::plugin::operator_formula;

configure! { TracedOperator }

/// Implements `operator-formula.build`.
pub fn build<O: TracedOperator>(slot: Instance<O>) -> Result<operator_formula::Formula> {
    with(slot, |operator| trace(operator)).map(lower)
}

fn lower(formula: operator::Formula) -> operator_formula::Formula {
    let parameters = formula.parameters.into_iter();
    operator_formula::Formula {
        components: formula.components,
        parameters: parameters
            .map(|parameter| operator_formula::VectorParameter {
                name: parameter.name,
                initial: initial(parameter.initial),
            })
            .collect(),
        nodes: formula.nodes.into_iter().map(lower_node).collect(),
        outputs: formula.outputs,
        lhs_outputs: formula.lhs_outputs,
    }
}

fn initial(initial: Initial) -> operator_formula::Initial {
    use operator_formula::Initial as Lowered;
    match initial {
        Initial::Zero => Lowered::Zero,
        Initial::One => Lowered::One,
        Initial::Normal(deviation) => Lowered::Normal(deviation),
        Initial::Angle => Lowered::Angle,
    }
}

lower_vectors! { operator_formula, "operators have no scores", {
    Node::Parameter(index) => operator_formula::Node::Parameter(index)
} }

/// Defines the component of a traced operator; `export_traced_operator!` expands to it in the wasm build.
#[doc(hidden)]
#[macro_export]
macro_rules! __traced_operator_component {
    ($operator:ty) => {
        $crate::__component!($operator, TracedOperator);

        impl $crate::glue::operator::operator_formula::Guest for Component {
            fn configure(
                parameters: ::std::vec::Vec<$crate::glue::types::ParameterValue>,
            ) -> $crate::Result<()> {
                $crate::glue::operator::configure(&INSTANCE, parameters)
            }

            fn build() -> $crate::Result<$crate::glue::operator::operator_formula::Formula> {
                $crate::glue::operator::build(&INSTANCE)
            }
        }

        $crate::glue::bindings::operator::export!(Component with_types_in $crate::glue::bindings::operator);
    };
}
