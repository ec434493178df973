//! Component of traced operators.

use super::{Instance, with};
use crate::loss::Binary;
use crate::operator::{self, Initial, Node, Unary, trace};
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

fn lower_node(node: Node) -> operator_formula::Node {
    use operator_formula::Node as Lowered;
    match node {
        Node::Component(index) => Lowered::Component(index),
        Node::Parameter(index) => Lowered::Parameter(index),
        Node::Constant(value) => Lowered::Constant(value),
        Node::Unary(op, x) => Lowered::Unary(operator_formula::Unary { op: unary(op), x }),
        Node::Binary(op, left, right) => Lowered::Binary(operator_formula::Binary {
            op: binary(op),
            left,
            right,
        }),
        Node::Select(condition, then, otherwise) => Lowered::Select(operator_formula::Select {
            condition,
            then,
            otherwise,
        }),
        Node::Clamp(x, low, high) => Lowered::Clamp(operator_formula::Clamp { x, low, high }),
        Node::Sum(x) => Lowered::Sum(x),
        Node::Positive
        | Node::Negative
        | Node::Columns
        | Node::Reduce(..)
        | Node::Softmax(_)
        | Node::Gradient(_) => unreachable!("operators have no scores"),
    }
}

lower_variants! { unary: Unary => operator_formula::UnaryOp {
    Neg Abs Exp Log Sqrt Sigmoid Softplus Relu StopGradient Sin Cos
} }

lower_binary! { operator_formula::BinaryOp }

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
