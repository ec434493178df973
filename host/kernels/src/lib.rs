//! The arithmetic of training: from offsets in a batch to updated rows.
//!
//! The only crate that names libtorch. In reading order: what is computed ([`spec`]), on what
//! ([`table`], [`params`], [`rows`]), the training step and its evaluation ([`step`]), its negatives
//! ([`negatives`]) and losses ([`losses`]), and ranking against all entities ([`rank`]).
//!
//! Every Hogwild worker is one thread with one torch thread: making a [`Trainer`](step::Trainer) calls
//! [`use_one_torch_thread`], or libtorch's own threads would fight the workers for the cores.

mod accumulate;
mod batch;
mod comparators;
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
pub mod throughput;
mod vector;

/// Makes libtorch compute every operation on the thread that asks for it.
///
/// The setting holds for the whole process.
pub fn use_one_torch_thread() {
    tch::set_num_threads(1);
}
