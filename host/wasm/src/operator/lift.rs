//! Conversion of formulas from the bindings' types, which both interfaces of operators define.

use pbg_formula::node::{Binary, FormulaNode, Unary};
use pbg_formula::operator::{InitialValue, OperatorDefinition, ParameterVector};

pub(super) use of_formula::formula;
pub(super) use of_traced::formula as traced;

/// Defines the conversion from the types of an interface; the formula of `$formula` has the outputs `$lhs` of the left
/// side, and its additional node `$node` becomes `$value`.
macro_rules! lift_formulas {
    ($module:ident, $interface:ident, $formula:ident, $lhs:expr, { $($node:ident($x:ident) => $value:expr)? }) => {
        mod $module {
            use super::{Binary, FormulaNode, InitialValue, OperatorDefinition, ParameterVector, Unary};
            use crate::bindings::{lift_vectors, $interface as wit};

            /// Converts a formula into the host's types, without checking it.
            pub(in super::super) fn formula(
                name: &str,
                $formula: wit::Formula,
            ) -> OperatorDefinition {
                let parameters = $formula.parameters.into_iter();
                OperatorDefinition {
                    name: name.to_owned(),
                    components: $formula.components,
                    parameters: parameters
                        .map(|parameter| ParameterVector {
                            name: parameter.name,
                            initial: initial(parameter.initial),
                        })
                        .collect(),
                    nodes: $formula.nodes.into_iter().map(node).collect(),
                    outputs: $formula.outputs,
                    lhs_outputs: $lhs,
                }
            }

            fn initial(initial: wit::Initial) -> InitialValue {
                match initial {
                    wit::Initial::Zero => InitialValue::Zero,
                    wit::Initial::One => InitialValue::One,
                    wit::Initial::Normal(deviation) => InitialValue::Normal(deviation),
                    wit::Initial::Angle => InitialValue::Angle,
                }
            }

            lift_vectors! { wit, {
                Parameter(index) => FormulaNode::Parameter(index) $(, $node($x) => $value)?
            } }
        }
    };
}

lift_formulas! { of_traced, operator_traced, formula, Vec::new(), {} }

lift_formulas! { of_formula, operator_formula, formula, formula.lhs_outputs, {
    Sum(x) => FormulaNode::Sum(x)
} }
