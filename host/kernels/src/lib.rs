//! The arithmetic of training: from the offsets of a batch's entities to updated rows of the tables.
//!
//! In reading order: the specification of a model ([`spec`]), the data it is trained on ([`table`], [`params`],
//! [`rows`]), the training step and its evaluation ([`step`]), its negatives ([`negatives`]) and losses ([`losses`]),
//! the parts that libtorch computes ([`libtorch`]), GPUs ([`device`]), and ranking against all entities ([`rank`]).

mod batch;
pub mod cache;
pub mod device;
mod error;
mod gradient_rows;
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
mod score_function;
pub mod spec;
pub mod step;
pub mod table;
mod vector;

pub use operators::formula::executable;
