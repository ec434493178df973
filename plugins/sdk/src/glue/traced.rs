//! Component of traced losses.

use super::{Instance, with};
use crate::loss::{self, Binary, Node, Progress, Reduction, Unary, Values, trace};
use crate::{Result, TracedLoss};

pub use super::bindings::traced::exports::pbg::plugin::loss_traced;

configure! { TracedLoss }

/// Implements `loss-traced.build`.
pub fn build<L: TracedLoss>(slot: Instance<L>) -> Result<loss_traced::Graph> {
    with(slot, |loss| trace(loss)).map(lower)
}

/// Implements `loss-traced.update`.
pub fn update<L: TracedLoss>(
    slot: Instance<L>,
    progress: loss_traced::Progress,
    values: Vec<f32>,
) -> Result<Vec<f32>> {
    let progress = Progress {
        step: progress.step,
        edges: progress.edges,
        mean_loss: progress.mean_loss,
    };
    with(slot, |loss| {
        let mut named = Values::of(&trace(loss)?);
        named.set_all(&values);
        loss.update(&progress, &mut named)?;
        Ok(named.as_vec())
    })
}

fn lower(graph: loss::Graph) -> loss_traced::Graph {
    let parameters = graph.parameters.into_iter();
    loss_traced::Graph {
        nodes: graph.nodes.into_iter().map(lower_node).collect(),
        output: graph.output,
        parameters: parameters
            .map(|parameter| loss_traced::NamedParameter {
                name: parameter.name,
                value: parameter.value,
            })
            .collect(),
        update_every: graph.update_every,
    }
}

fn lower_node(node: Node) -> loss_traced::Node {
    use loss_traced::Node as Lowered;
    match node {
        Node::Positive => Lowered::Positive,
        Node::Negative => Lowered::Negative,
        Node::Columns => Lowered::Columns,
        Node::Constant(value) => Lowered::Constant(value),
        Node::Parameter(index) => Lowered::Parameter(index),
        Node::Unary(op, x) => Lowered::Unary(loss_traced::Unary { op: unary(op), x }),
        Node::Binary(op, left, right) => Lowered::Binary(loss_traced::Binary {
            op: binary(op),
            left,
            right,
        }),
        Node::Select(condition, then, otherwise) => Lowered::Select(loss_traced::Select {
            condition,
            then,
            otherwise,
        }),
        Node::Clamp(x, low, high) => Lowered::Clamp(loss_traced::Clamp { x, low, high }),
        Node::Reduce(op, x) => Lowered::Reduce(loss_traced::Reduce {
            op: reduction(op),
            x,
        }),
        Node::Softmax(x) => Lowered::Softmax(x),
        Node::Component(_) | Node::Sum(_) | Node::Gradient(_) => {
            unreachable!("losses have scores alone")
        }
    }
}

lower_variants! { unary: Unary => loss_traced::UnaryOp {
    Neg Abs Exp Log Sqrt Sigmoid Softplus Relu StopGradient
} Unary::Sin | Unary::Cos => "expressions on scores have no angles" }

lower_binary! { loss_traced::BinaryOp }

fn reduction(op: Reduction) -> loss_traced::Reduction {
    use loss_traced::Reduction as Lowered;
    match op {
        Reduction::Sum => Lowered::Sum,
        Reduction::Mean => Lowered::Mean,
        Reduction::Max => Lowered::Max,
        Reduction::LogSumExp => Lowered::Logsumexp,
    }
}

/// Defines the component of a traced loss; `export_traced_loss!` expands to it in the wasm build.
#[doc(hidden)]
#[macro_export]
macro_rules! __traced_loss_component {
    ($loss:ty) => {
        $crate::__component!($loss, TracedLoss);

        impl $crate::glue::traced::loss_traced::Guest for Component {
            fn configure(
                parameters: ::std::vec::Vec<$crate::glue::types::ParameterValue>,
            ) -> $crate::Result<()> {
                $crate::glue::traced::configure(&INSTANCE, parameters)
            }

            fn build() -> $crate::Result<$crate::glue::traced::loss_traced::Graph> {
                $crate::glue::traced::build(&INSTANCE)
            }

            fn update(
                progress: $crate::glue::traced::loss_traced::Progress,
                values: ::std::vec::Vec<f32>,
            ) -> $crate::Result<::std::vec::Vec<f32>> {
                $crate::glue::traced::update(&INSTANCE, progress, values)
            }
        }

        $crate::glue::bindings::traced::export!(Component with_types_in $crate::glue::bindings::traced);
    };
}
