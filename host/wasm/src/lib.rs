//! The sandbox of `pbg-host`: loads, limits and calls strategies that are WebAssembly components.
//!
//! A plugin can make training useless, never unsafe. It gets no import but a log and the
//! files that the user granted it, every call has
//! a deadline and every resource a limit, every answer is checked against its contract before it
//! is returned, and an instance that failed in any way is never used again. What went wrong comes
//! as a text that names the plugin, the function, the cause and what its author can do.
//!
//! The way in is [`PluginSource::resolve`] and [`Sandbox`]:
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
//! Compiling a standard component takes some tens of milliseconds, so a [`Cache`] keeps the code.
//! Reading it back is `unsafe`, since it would run whatever the file holds: `compiled.rs` is the
//! one place that does, and `cache.rs` says why it may.

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
