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
//! Compiling a standard component takes some tens of milliseconds, so a [`CodeCache`] keeps the compiled code. Loading that
//! code is `unsafe`, since it would run whatever the file holds: only `native_code.rs` does it, and `cache.rs` explains
//! why the files can be trusted.

mod bindings;
mod cache;
mod comparator;
mod compiled_plugin;
mod compiler;
mod engine;
mod error;
mod fault;
mod function_cache;
mod grants;
mod guest;
mod interface_name;
mod interpreter;
mod limits;
mod limits_table;
mod log;
mod loss;
mod metadata;
mod native_code;
mod negatives;
mod operator;
mod order;
mod parameters;
mod plugin;
mod replay;
mod sampler;
mod schedule;
mod selector;
mod size_limits;
mod slot;
mod source;
mod standard;
mod strategy;

pub use cache::{CacheError, CodeCache};
pub use comparator::LoadedComparator;
pub use compiler::CompilerProcess;
pub use error::LoadError;
pub use grants::FolderGrant;
pub use limits::Limits;
pub use limits_table::limits_markdown;
pub use log::LogSink;
pub use loss::{ComputedLossPlugin, LoadedLoss};
pub use metadata::PluginMetadata;
pub use negatives::LoadedNegatives;
pub use operator::LoadedOperator;
pub use order::LoadedOrder;
pub use parameters::{PluginParameter, PluginParameterKind, resolve_parameters_json};
pub use plugin::{LoadedPlugin, PluginInfo, Sandbox};
pub use replay::{CallReplay, LossExecutor, RecordedCall, RecordedScores, ReplayError};
pub use sampler::LoadedSampler;
pub use schedule::LoadedSchedule;
pub use selector::LoadedSelector;
pub use slot::PluginSlot;
pub use source::{PluginPath, PluginSource};
pub use standard::{StandardPlugin, standard_plugins};
