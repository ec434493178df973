//! Host side of the plugin interfaces, generated from the WIT files.

mod generated {
    // One world with every interface that some plugin exports, so that all kinds of plugins share their types.
    wasmtime::component::bindgen!({
        inline: "
            package pbg:host;
            world every-kind {
                include pbg:plugin/order@0.1.0;
                include pbg:plugin/sampler@0.1.0;
                include pbg:plugin/traced-loss@0.1.0;
                include pbg:plugin/computed-loss@0.1.0;
                include pbg:plugin/traced-operator@0.1.0;
                include pbg:plugin/negatives@0.1.0;
                include pbg:plugin/operator@0.1.0;
                include pbg:plugin/comparator@0.1.0;
                include pbg:plugin/schedule@0.1.0;
                include pbg:plugin/negative-selector@0.1.0;
            }
        ",
        path: "../../wit",
        world: "pbg:host/every-kind",
        ownership: Borrowing { duplicate_if_necessary: true },
    });
}

pub(crate) use generated::exports::pbg::plugin::{
    bucket_order, comparator_formula, learning_rate_schedule, loss_computed, loss_traced, metadata,
    negative_distribution, negative_selection, operator_formula, operator_traced, relation_sampler,
};
pub(crate) use generated::pbg::plugin::{files, log, run, types};

/// Name of the WIT package that this host supports.
pub(crate) const PACKAGE: &str = "pbg:plugin";
/// Version of the WIT package that this host supports.
pub(crate) const VERSION: &str = "0.1.0";

/// Defines a function that converts an operation of the bindings to the host's type, variant by variant.
macro_rules! lift_variants {
    ($name:ident: $from:path => $to:ident { $($variant:ident)* }) => {
        fn $name(op: $from) -> $to {
            use $from as Given;
            match op {
                $(Given::$variant => $to::$variant,)*
            }
        }
    };
}

/// Defines a function that converts an operation on two values of the bindings to the host's type.
macro_rules! lift_binary {
    ($from:path) => {
        $crate::bindings::lift_variants! { binary: $from => Binary {
            Add Sub Mul Div Pow Min Max Less LessEqual Greater GreaterEqual Equal NotEqual
        } }
    };
}

/// Defines the functions `node`, `unary` and `binary`, which convert nodes of formulas on vectors from the types of the
/// interface `wit`. Its additional nodes `$node` become `$value`.
macro_rules! lift_vectors {
    ($wit:ident, { $($node:ident($x:ident) => $value:expr),* }) => {
        fn node(node: $wit::Node) -> FormulaNode {
            match node {
                $wit::Node::Component(index) => FormulaNode::Component(index),
                $wit::Node::Constant(value) => FormulaNode::Constant(value),
                $wit::Node::Unary($wit::Unary { op, x }) => FormulaNode::Unary(unary(op), x),
                $wit::Node::Binary($wit::Binary { op, left, right }) => {
                    FormulaNode::Binary(binary(op), left, right)
                }
                $wit::Node::Select($wit::Select {
                    condition,
                    then,
                    otherwise,
                }) => FormulaNode::Select(condition, then, otherwise),
                $wit::Node::Clamp($wit::Clamp { x, low, high }) => FormulaNode::Clamp(x, low, high),
                $($wit::Node::$node($x) => $value,)*
            }
        }

        $crate::bindings::lift_variants! { unary: $wit::UnaryOp => Unary {
            Neg Abs Exp Log Sqrt Sigmoid Softplus Relu StopGradient Sin Cos
        } }

        $crate::bindings::lift_binary! { $wit::BinaryOp }
    };
}

pub(crate) use {lift_binary, lift_variants, lift_vectors};
