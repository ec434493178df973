//! The arithmetic of training: from the offsets of a batch's entities to updated rows of the tables.
//!
//! In reading order: the training step and its evaluation ([`step`]), its negatives ([`negatives`]) and losses
//! ([`losses`]), the parts that libtorch computes ([`libtorch`]), GPUs ([`device`]), and ranking against all entities
//! ([`rank`]). What is trained, tables and parameters and the specification of a model, is in `pbg-rows`.

mod batch;
pub mod cache;
pub mod device;
mod error;
mod half;
pub mod libtorch;
pub mod losses;
mod matmul;
pub mod negatives;
mod operators;
pub mod rank;
mod score_function;
pub mod step;
mod subnormal;

pub use operators::formula::{executable, executable_pairs};
