//! Connects the generated bindings with the traits; only in the wasm build.
//!
//! Every kind of plugin has two worlds here: [`metadata`], which all kinds have, and the world of its own
//! interface. The component encoder joins them.

/// Defines a function that converts an operation to the type of some bindings, variant by variant.
macro_rules! lower_variants {
    ($name:ident: $from:ident => $to:path { $($variant:ident)* } $($absent:pat => $reason:literal)?) => {
        fn $name(op: $from) -> $to {
            use $to as Lowered;
            match op {
                $($from::$variant => Lowered::$variant,)*
                $($absent => unreachable!($reason),)?
            }
        }
    };
}

/// Defines a function that converts a two-operand operation to the type of some bindings.
macro_rules! lower_binary {
    ($to:path) => {
        lower_variants! { binary: Binary => $to {
            Add Sub Mul Div Pow Min Max Less LessEqual Greater GreaterEqual Equal NotEqual
        } }
    };
}

/// Defines the function `lower_node`, which converts a node of a formula on vectors to the type of the bindings in
/// `$interface`; the interface also has the nodes `$node`.
macro_rules! lower_vectors {
    ($interface:ident, $absent:literal, { $($node:pat => $lowered:expr)? }) => {
        fn lower_node(node: crate::operator::Node) -> $interface::Node {
            use crate::loss::Binary;
            use crate::operator::{Node, Unary};
            use $interface::Node as Lowered;
            lower_variants! { unary: Unary => $interface::UnaryOp {
                Neg Abs Exp Log Sqrt Sigmoid Softplus Relu StopGradient Sin Cos
            } }
            lower_binary! { $interface::BinaryOp }
            match node {
                $($node => $lowered,)?
                Node::Component(index) => Lowered::Component(index),
                Node::Constant(value) => Lowered::Constant(value),
                Node::Unary(op, x) => Lowered::Unary($interface::Unary { op: unary(op), x }),
                Node::Binary(op, left, right) => Lowered::Binary($interface::Binary {
                    op: binary(op),
                    left,
                    right,
                }),
                Node::Select(condition, then, otherwise) => Lowered::Select($interface::Select {
                    condition,
                    then,
                    otherwise,
                }),
                Node::Clamp(x, low, high) => Lowered::Clamp($interface::Clamp { x, low, high }),
                Node::Sum(x) => Lowered::Sum(x),
                _ => unreachable!($absent),
            }
        }
    };
}

/// Defines the function `configure` of the interface for plugins of a kind.
macro_rules! configure {
    ($kind:ident) => {
        /// Implements `configure` of the interface.
        pub fn configure<P: crate::$kind>(
            slot: super::Instance<P>,
            parameters: Vec<super::types::ParameterValue>,
        ) -> crate::Result<()> {
            super::with(slot, |plugin| {
                plugin.configure(&super::lift_parameters(parameters))
            })
        }
    };
}

pub mod bindings;
pub mod comparator;
pub mod computed;
pub mod metadata;
pub mod negatives;
pub mod operator;
pub mod order;
pub mod sampler;
pub mod schedule;
pub mod selection;
pub mod traced;

use std::cell::RefCell;
use std::sync::Once;

pub use bindings::metadata::pbg::plugin::{files, log, run};
pub use bindings::order::pbg::plugin::types;

/// Writes one line to the host's log.
pub fn write_log(level: crate::log::Level, message: &str) {
    use crate::log::Level;
    let level = match level {
        Level::Debug => log::Level::Debug,
        Level::Info => log::Level::Info,
        Level::Warn => log::Level::Warn,
        Level::Error => log::Level::Error,
    };
    log::write(level, message);
}

/// Installs a panic hook that logs the message and location of a panic. The host itself sees only an `unreachable` trap.
pub fn report_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        std::panic::set_hook(Box::new(|panic| {
            log::write(log::Level::Error, &panic.to_string())
        }));
    });
}

/// Instance of a plugin's type in a component, created on first use.
pub type Slot<T> = RefCell<Option<T>>;

/// The instance of a component.
pub type Instance<T> = &'static std::thread::LocalKey<Slot<T>>;

/// Converts the parameters of `configure` to the SDK's type.
pub(crate) fn lift_parameters(parameters: Vec<types::ParameterValue>) -> crate::Parameters {
    let value = |value| match value {
        types::Value::Boolean(value) => crate::Value::Boolean(value),
        types::Value::Integer(value) => crate::Value::Integer(value),
        types::Value::Number(value) => crate::Value::Number(value),
        types::Value::Text(value) => crate::Value::Text(value),
    };
    let parameters = parameters.into_iter();
    crate::Parameters::new(parameters.map(|parameter| (parameter.name, value(parameter.value))))
}

/// Calls `f` with the instance in `slot`, creating the instance if necessary.
pub fn with<T: Default, R>(slot: Instance<T>, f: impl FnOnce(&mut T) -> R) -> R {
    report_panics();
    slot.with_borrow_mut(|instance| f(instance.get_or_insert_default()))
}
