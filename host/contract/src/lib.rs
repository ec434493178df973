//! Checks of the contract of each kind of strategy, on many inputs.
//!
//! The host checks every answer of a plugin when it is given. This crate checks a plugin in advance, so that its author
//! learns in seconds what a run would reveal after hours. Each function checks one kind of strategy and returns
//! [`ContractFinding`]s. It uses strategies only through the traits of `pbg-core`, so it can check native ones, too.

mod chi_square;
mod comparator;
mod differences;
mod finding;
mod loss;
mod negatives;
mod operator;
mod order;
mod parts;
mod sampler;
mod schedule;
mod selector;
mod timing;

pub use comparator::{bench_comparator, check_comparator};
pub use finding::{ContractFinding, ContractReport, FindingOutcome};
pub use loss::{TracedLossInfo, bench_loss, check_loss};
pub use negatives::{NegativesInstance, bench_negatives, check_negatives};
pub use operator::{OperatorExecutors, bench_operator, check_operator, checked_dimension};
pub use order::{OrderInstance, bench_order, check_order};
pub use sampler::{bench_sampler, check_sampler};
pub use schedule::{ScheduleInstance, bench_schedule, check_schedule, drawn_factors};
pub use selector::{SelectorInstance, bench_selector, check_selector};
pub use timing::{Timing, time};
