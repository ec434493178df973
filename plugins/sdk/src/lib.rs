//! SDK for `pbg-host` plugins.
//!
//! A plugin is a sandboxed WebAssembly component: it sees only its arguments, and the host checks
//! everything that it returns. Define a type, implement a trait of this crate for it, and export
//! it with a macro:
//!
//! ```
//! use pbg_plugin_sdk::{Bucket, Metadata, Order, Pass, Result, export_order};
//!
//! /// Trains the largest buckets first.
//! #[derive(Default)]
//! struct LargestFirst;
//!
//! impl Order for LargestFirst {
//!     fn metadata() -> Metadata {
//!         Metadata::new("largest_first", "0.1.0", "Buckets by their number of edges, descending.")
//!     }
//!
//!     fn plan(&mut self, pass: &Pass) -> Result<Vec<Bucket>> {
//!         let mut plan = pass.grid();
//!         plan.sort_by_key(|&bucket| std::cmp::Reverse(pass.edges_of(bucket)));
//!         Ok(plan)
//!     }
//! }
//!
//! export_order!(LargestFirst);
//!
//! // The same type runs natively: test and debug it without a sandbox.
//! let mut pass = Pass::uniform(2, 2, 7);
//! pass.edges = vec![1, 9, 5, 3];
//! let plan = LargestFirst.plan(&pass).unwrap();
//! assert_eq!(plan[0], Bucket::new(0, 1));
//! # pbg_plugin_sdk::testing::assert_order::<LargestFirst>();
//! ```
//!
//! Built with `cargo build --release --target wasm32-unknown-unknown` (crate type `cdylib`) and
//! encoded as a component, the file goes to `pbg-host train --plugin FILE`.
//!
//! Relation samplers are made the same way, with [`Sampler`] and [`export_sampler!`]. So are losses,
//! with [`TracedLoss`] and [`export_traced_loss!`] for a formula, or [`ComputedLoss`] and
//! [`export_computed_loss!`] for code, operators of relations, with [`TracedOperator`] and
//! [`export_traced_operator!`], comparators of embeddings, with [`TracedComparator`] and [`export_traced_comparator!`],
//! distributions of negatives, with [`NegativeSampler`] and [`export_negatives!`], choices of negatives chunk by chunk,
//! with [`NegativeSelector`] and [`export_negative_selector!`], and learning rate schedules, with [`RateSchedule`] and
//! [`export_schedule!`].
//!
//! Three rules for plugins:
//!
//! * Everything random comes from [`Pass::seed`], [`Share::seed`] or [`NegativeChunk::seed`] through [`Rng`]; there is no
//!   other random source and no clock, so a repeated run gives the same numbers.
//! * A request that cannot be fulfilled is an `Err` with a sentence for the user; a bug may panic, and the message and
//!   location of the panic are shown to the user.
//! * [`log`] writes lines to the host, a limited number per call; [`files`] reads granted files; [`run`] returns the
//!   length of the run.

pub mod comparator;
pub mod files;
#[cfg(target_family = "wasm")]
#[doc(hidden)]
pub mod glue;
mod hilbert;
mod left;
pub mod log;
pub mod loss;
mod metadata;
mod negatives;
pub mod operator;
mod order;
mod parameters;
mod partitions;
mod pass;
mod rng;
pub mod run;
mod sampler;
mod schedule;
mod selection;
pub mod simd;
pub mod states;
pub mod testing;
mod traffic;

pub use comparator::TracedComparator;
pub use left::Left;
pub use loss::{ComputedLoss, TracedLoss};
pub use metadata::{Metadata, Parameter, ParameterKind};
pub use negatives::{
    CandidateWeights, CountedEdges, DistributionPart, NegativeCandidates, NegativeSampler,
    RequiredData,
};
pub use operator::TracedOperator;
pub use order::{Order, pick_by_plan};
pub use parameters::{Parameters, Value};
pub use pass::{Bucket, Pass, Side};
pub use rng::Rng;
pub use sampler::{Draw, Draws, Sampler, Share};
pub use schedule::{RateSchedule, SchedulePosition};
pub use selection::{
    CandidateScores, NegativeChunk, NegativeSelection, NegativeSelector, SelectionRequirements,
};
pub use traffic::Traffic;

/// Result of a plugin's functions. An error is a sentence for the user.
///
/// ```
/// fn positive(overlap: i64) -> pbg_plugin_sdk::Result<i64> {
///     if overlap > 0 { Ok(overlap) } else { Err(format!("overlap is {overlap}, must be positive")) }
/// }
/// assert!(positive(0).unwrap_err().contains("must be positive"));
/// ```
pub type Result<T> = std::result::Result<T, String>;
