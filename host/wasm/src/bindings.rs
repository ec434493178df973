//! The host's side of the interfaces, generated from the WIT files.

mod generated {
    wasmtime::component::bindgen!({
        path: "../../wit",
        world: "order",
        ownership: Borrowing { duplicate_if_necessary: true },
    });
}

pub(crate) use generated::exports::pbg::plugin::{bucket_order, metadata};
pub(crate) use generated::pbg::plugin::{log, types};

/// The package that this host speaks.
pub(crate) const PACKAGE: &str = "pbg:plugin";
/// Its version.
pub(crate) const VERSION: &str = "0.1.0";
