//! The arithmetic of training: from offsets in a batch to updated rows.
//!
//! In reading order: what is computed ([`spec`]), on what ([`table`], [`params`], [`rows`]), the training
//! step and its evaluation ([`step`]), its negatives ([`negatives`]) and losses ([`losses`]), what libtorch
//! does of it ([`libtorch`]), GPUs among it ([`device`]), and ranking against all entities ([`rank`]).

mod accumulate;
mod batch;
pub mod cache;
mod comparators;
pub mod device;
mod error;
mod half;
pub mod libtorch;
pub mod losses;
mod matmul;
pub mod negatives;
mod operators;
mod optimizer;
pub mod params;
pub mod rank;
mod regularizer;
pub mod rows;
pub mod spec;
pub mod step;
pub mod table;
mod vector;

pub use operators::traced::executed;
