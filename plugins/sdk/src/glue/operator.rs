//! Component of traced operators.

use super::{Instance, with};
use crate::loss::Binary;
use crate::operator::{self, Initial, Node, Unary, trace};
use crate::{Result, TracedOperator};

pub use super::bindings::operator::exports::pbg::plugin::operator_traced;

configure! { TracedOperator }

/// Implements `operator-traced.build`.
pub fn build<O: TracedOperator>(slot: Instance<O>) -> Result<operator_traced::Formula> {
    with(slot, |operator| trace(operator)).map(lower)
}

fn lower(formula: operator::Formula) -> operator_traced::Formula {
    let parameters = formula.parameters.into_iter();
    operator_traced::Formula {
        components: formula.components,
        parameters: parameters
            .map(|parameter| operator_traced::VectorParameter {
                name: parameter.name,
                initial: initial(parameter.initial),
            })
            .collect(),
        nodes: formula.nodes.into_iter().map(lower_node).collect(),
        outputs: formula.outputs,
    }
}

fn initial(initial: Initial) -> operator_traced::Initial {
    use operator_traced::Initial as Lowered;
    match initial {
        Initial::Zero => Lowered::Zero,
        Initial::One => Lowered::One,
        Initial::Normal(deviation) => Lowered::Normal(deviation),
        Initial::Angle => Lowered::Angle,
    }
}

fn lower_node(node: Node) -> operator_traced::Node {
    use operator_traced::Node as Lowered;
    match node {
        Node::Component(index) => Lowered::Component(index),
        Node::Parameter(index) => Lowered::Parameter(index),
        Node::Constant(value) => Lowered::Constant(value),
        Node::Unary(op, x) => Lowered::Unary(operator_traced::Unary { op: unary(op), x }),
        Node::Binary(op, left, right) => Lowered::Binary(operator_traced::Binary {
            op: binary(op),
            left,
            right,
        }),
        Node::Select(condition, then, otherwise) => Lowered::Select(operator_traced::Select {
            condition,
            then,
            otherwise,
        }),
        Node::Clamp(x, low, high) => Lowered::Clamp(operator_traced::Clamp { x, low, high }),
        Node::Positive
        | Node::Negative
        | Node::Columns
        | Node::Reduce(..)
        | Node::Softmax(_)
        | Node::Gradient(_) => unreachable!("operators have no scores"),
    }
}

lower_variants! { unary: Unary => operator_traced::UnaryOp {
    Neg Abs Exp Log Sqrt Sigmoid Softplus Relu StopGradient Sin Cos
} }

lower_binary! { operator_traced::BinaryOp }

/// Defines the component of a traced operator; `export_traced_operator!` expands to it in the wasm build.
#[doc(hidden)]
#[macro_export]
macro_rules! __traced_operator_component {
    ($operator:ty) => {
        $crate::__component!($operator, TracedOperator);

        impl $crate::glue::operator::operator_traced::Guest for Component {
            fn configure(
                parameters: ::std::vec::Vec<$crate::glue::types::ParameterValue>,
            ) -> $crate::Result<()> {
                $crate::glue::operator::configure(&INSTANCE, parameters)
            }

            fn build() -> $crate::Result<$crate::glue::operator::operator_traced::Formula> {
                $crate::glue::operator::build(&INSTANCE)
            }
        }

        $crate::glue::bindings::operator::export!(Component with_types_in $crate::glue::bindings::operator);
    };
}
