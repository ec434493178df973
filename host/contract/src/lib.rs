//! What `pbg-host` asks of each kind of strategy, tried on many inputs.
//!
//! The host checks every answer of a plugin when it comes. This crate asks beforehand, so that an
//! author learns in seconds what a run would find out in hours: each function tries one kind of
//! strategy and returns [`Finding`]s. It knows strategies by the traits of `pbg-core` alone, so
//! it also tries native ones.

mod finding;
mod loss;
mod operator;
mod order;
mod sampler;
mod timing;

pub use finding::{Finding, Outcome, Report};
pub use loss::{Formula, bench_loss, check_loss};
pub use operator::{bench_operator, check_operator, checked_dimension};
pub use order::{Opened, bench_order, check_order};
pub use sampler::{bench_sampler, check_sampler};
pub use timing::{Timing, time};
