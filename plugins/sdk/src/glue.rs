//! Between the generated bindings and the traits: only in the wasm build.
//!
//! Every kind of plugin is two worlds here: [`metadata`], which all have, and that of its own
//! interface. The encoder of components joins them.

pub mod bindings;
pub mod computed;
pub mod metadata;
pub mod operator;
pub mod order;
pub mod sampler;
pub mod traced;

use std::cell::RefCell;
use std::sync::Once;

pub use bindings::metadata::pbg::plugin::{files, log, run};
pub use bindings::order::pbg::plugin::types;

/// Hands one line to the host.
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

/// A panic is an `unreachable` to the host; the hook sends its message and place ahead.
pub fn report_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        std::panic::set_hook(Box::new(|panic| {
            log::write(log::Level::Error, &panic.to_string())
        }));
    });
}

/// The instance of a component: made on first use.
pub type Slot<T> = RefCell<Option<T>>;

/// What `configure` gets, as authors read it.
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

/// Calls `f` with the instance in `slot`.
pub fn with<T: Default, R>(
    slot: &'static std::thread::LocalKey<Slot<T>>,
    f: impl FnOnce(&mut T) -> R,
) -> R {
    report_panics();
    slot.with_borrow_mut(|instance| f(instance.get_or_insert_default()))
}
