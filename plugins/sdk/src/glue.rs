//! Between the generated bindings and the traits: only in the wasm build.

use std::cell::RefCell;
use std::sync::Once;

use crate::{Bucket, Metadata, Order, ParameterKind, Parameters, Pass, Result, Side};

#[expect(missing_docs, reason = "generated from the documented WIT files")]
pub mod bindings {
    wit_bindgen::generate!({
        path: "../../wit",
        world: "order",
        pub_export_macro: true,
        default_bindings_module: "pbg_plugin_sdk::glue::bindings",
    });
}

use bindings::exports::pbg::plugin::{bucket_order as wit_order, metadata as wit_metadata};
use bindings::pbg::plugin::log as wit_log;

pub use bindings::exports::pbg::plugin::{bucket_order, metadata};
pub use bindings::pbg::plugin::types;

/// Hands one line to the host.
pub fn write_log(level: crate::log::Level, message: &str) {
    use crate::log::Level;
    let level = match level {
        Level::Debug => wit_log::Level::Debug,
        Level::Info => wit_log::Level::Info,
        Level::Warn => wit_log::Level::Warn,
        Level::Error => wit_log::Level::Error,
    };
    wit_log::write(level, message);
}

/// A panic is an `unreachable` to the host; the hook sends its message and place ahead.
fn report_panics() {
    static HOOK: Once = Once::new();
    HOOK.call_once(|| {
        std::panic::set_hook(Box::new(|panic| {
            wit_log::write(wit_log::Level::Error, &panic.to_string())
        }));
    });
}

/// `metadata.describe`.
pub fn describe(metadata: fn() -> Metadata) -> wit_metadata::Description {
    report_panics();
    let Metadata {
        name,
        version,
        summary,
        parameters,
    } = metadata();
    let parameters = parameters
        .into_iter()
        .map(|p| wit_metadata::Parameter {
            name: p.name,
            doc: p.doc,
            kind: lower_kind(p.kind),
        })
        .collect();
    wit_metadata::Description {
        name,
        version,
        summary,
        parameters,
    }
}

fn lower_kind(kind: ParameterKind) -> wit_metadata::ParameterKind {
    use wit_metadata::{ChoiceParameter, IntegerParameter, NumberParameter};
    match kind {
        ParameterKind::Boolean { default } => wit_metadata::ParameterKind::Boolean(default),
        ParameterKind::Integer {
            default,
            minimum,
            maximum,
        } => wit_metadata::ParameterKind::Integer(IntegerParameter {
            default,
            minimum,
            maximum,
        }),
        ParameterKind::Number {
            default,
            minimum,
            maximum,
        } => wit_metadata::ParameterKind::Number(NumberParameter {
            default,
            minimum,
            maximum,
        }),
        ParameterKind::Text { default } => wit_metadata::ParameterKind::Text(default),
        ParameterKind::Choice { options, default } => {
            wit_metadata::ParameterKind::Choice(ChoiceParameter { options, default })
        }
    }
}

/// The instance of a component: made on first use.
pub type Slot<T> = RefCell<Option<T>>;

fn with<T: Default, R>(
    slot: &'static std::thread::LocalKey<Slot<T>>,
    f: impl FnOnce(&mut T) -> R,
) -> R {
    report_panics();
    slot.with_borrow_mut(|instance| f(instance.get_or_insert_default()))
}

/// `bucket-order.configure`.
pub fn configure<O: Order>(
    slot: &'static std::thread::LocalKey<Slot<O>>,
    json: String,
) -> Result<()> {
    with(slot, |order| order.configure(&Parameters::from_json(json)))
}

/// `bucket-order.plan`.
pub fn plan<O: Order>(
    slot: &'static std::thread::LocalKey<Slot<O>>,
    pass: wit_order::Pass,
) -> Result<Vec<types::Bucket>> {
    let plan = with(slot, |order| order.plan(&lift_pass(pass)))?;
    Ok(plan
        .into_iter()
        .map(|b| types::Bucket {
            lhs: b.lhs,
            rhs: b.rhs,
        })
        .collect())
}

/// `bucket-order.pick`.
pub fn pick<O: Order>(
    slot: &'static std::thread::LocalKey<Slot<O>>,
    pass: wit_order::Pass,
    held: Vec<types::Bucket>,
    free: Vec<types::Bucket>,
) -> Result<u32> {
    let picked = with(slot, |order| {
        order.pick(&lift_pass(pass), &lift(held), &lift(free))
    })?;
    u32::try_from(picked).map_err(|_| format!("picked {picked}, beyond any list"))
}

fn lift(buckets: Vec<types::Bucket>) -> Vec<Bucket> {
    buckets
        .into_iter()
        .map(|b| Bucket::new(b.lhs, b.rhs))
        .collect()
}

fn lift_pass(pass: wit_order::Pass) -> Pass {
    let lhs = pass.resident_lhs.into_iter().map(|p| (Side::Lhs, p));
    let rhs = pass.resident_rhs.into_iter().map(|p| (Side::Rhs, p));
    Pass {
        lhs_partitions: pass.lhs_partitions,
        rhs_partitions: pass.rhs_partitions,
        shared: pass.shared,
        edges: pass.edges,
        lhs_bytes: pass.lhs_bytes,
        rhs_bytes: pass.rhs_bytes,
        buffer_partitions: pass.buffer_partitions,
        resident: lhs.chain(rhs).collect(),
        epoch: pass.position.epoch,
        edge_set: pass.position.edge_set,
        edge_chunk: pass.position.edge_chunk,
        seed: pass.seed,
    }
}

/// The component of an order: what `export_order!` expands to in the wasm build.
#[doc(hidden)]
#[macro_export]
macro_rules! __order_component {
    ($order:ty) => {
        ::std::thread_local! {
            static INSTANCE: $crate::glue::Slot<$order> = const { ::std::cell::RefCell::new(None) };
        }

        struct Component;

        impl $crate::glue::metadata::Guest for Component {
            fn describe() -> $crate::glue::metadata::Description {
                $crate::glue::describe(<$order as $crate::Order>::metadata)
            }
        }

        impl $crate::glue::bucket_order::Guest for Component {
            fn configure(parameters: ::std::string::String) -> $crate::Result<()> {
                $crate::glue::configure(&INSTANCE, parameters)
            }

            fn plan(
                pass: $crate::glue::bucket_order::Pass,
            ) -> $crate::Result<::std::vec::Vec<$crate::glue::types::Bucket>> {
                $crate::glue::plan(&INSTANCE, pass)
            }

            fn pick(
                pass: $crate::glue::bucket_order::Pass,
                held: ::std::vec::Vec<$crate::glue::types::Bucket>,
                free: ::std::vec::Vec<$crate::glue::types::Bucket>,
            ) -> $crate::Result<u32> {
                $crate::glue::pick(&INSTANCE, pass, held, free)
            }
        }

        $crate::glue::bindings::export!(Component with_types_in $crate::glue::bindings);
    };
}
