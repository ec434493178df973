//! The sandbox of `pbg-host`: loads, limits and calls strategies that are WebAssembly components.
//!
//! A plugin can make training useless, never unsafe. It can import only a log, the run's length and the files that the
//! user granted it. Every call has a deadline and every resource a limit. Every answer is checked against its contract
//! before it is returned. An instance that failed in any way is never used again. Errors are texts that name the
//! plugin, the function, the cause and what the plugin's author can do.
//!
//! The entry points are [`PluginSource::resolve`] and [`Sandbox`]:
//!
//! ```
//! use pbg_wasm::{Limits, PluginSource, Sandbox};
//!
//! let sandbox = Sandbox::new(Limits::default())?;
//! let plugin = sandbox.open(PluginSource::resolve("inside_out")?)?;
//! assert_eq!(plugin.inspection().metadata.name, "inside_out");
//! let order = plugin.into_order(&serde_json::Value::Null)?;
//! # use pbg_core::strategy::BucketOrder;
//! # assert_eq!(order.id().name, "inside_out");
//! # Ok::<(), pbg_wasm::LoadError>(())
//! ```
//!
//! Compiling a standard component takes some tens of milliseconds, so a [`Cache`] keeps the compiled code. Loading that
//! code is `unsafe`, since it would run whatever the file holds: only `compiled.rs` does it, and `cache.rs` explains
//! why the files can be trusted.

mod bindings;
mod bulk;
mod cache;
mod compiled;
mod compiler;
mod documented;
mod engine;
mod error;
mod fault;
mod functions;
mod grants;
mod guest;
mod kind;
mod limits;
mod log;
mod loss;
mod metadata;
mod operator;
mod order;
mod parameters;
mod plugin;
mod program;
mod replay;
mod sampler;
mod source;
mod standard;
mod strategy;

pub use cache::{Cache, CacheError};
pub use compiler::Compiler;
pub use documented::documented_limits;
pub use error::LoadError;
pub use grants::Grant;
pub use kind::Slot;
pub use limits::Limits;
pub use log::LogSink;
pub use loss::{ComputedLoss, LoadedLoss};
pub use metadata::Metadata;
pub use operator::LoadedOperator;
pub use order::LoadedOrder;
pub use parameters::{Parameter, ParameterKind, completed};
pub use plugin::{Inspection, Plugin, Sandbox};
pub use replay::{Call, Executed, KeptScores, Replay, ReplayError};
pub use sampler::LoadedSampler;
pub use source::{PluginPath, PluginSource};
pub use standard::{Standard, standard};
