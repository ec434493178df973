//! The arithmetic of training: from offsets in a batch to updated rows.
//!
//! The only crate that names libtorch. In reading order: what is computed ([`spec`]), on what
//! ([`table`], [`params`], [`rows`]), the training step and its evaluation ([`step`]), its negatives
//! ([`negatives`]) and losses ([`losses`]), the same step on a GPU ([`device`]), and ranking against all
//! entities ([`rank`]).
//!
//! Every Hogwild worker is one thread with one torch thread: a [`StepWorker`](step::StepWorker) calls
//! [`use_one_torch_thread`], or libtorch's own threads would fight the workers for the cores.

mod accumulate;
mod batch;
pub mod cache;
mod comparators;
pub mod device;
mod error;
mod half;
pub mod losses;
mod matmul;
pub mod negatives;
mod operators;
mod optimizer;
pub mod params;
pub mod product;
pub mod rank;
mod regularizer;
pub mod rows;
pub mod spec;
pub mod step;
pub mod table;
mod vector;

use std::cell::Cell;

/// Makes libtorch compute every operation of this thread on this thread.
///
/// OpenMP keeps the number of threads per thread: a worker that has not said so itself would have a
/// team of its own spinning beside it. [`step::StepWorker`] says so whenever it works on a new thread.
pub fn use_one_torch_thread() {
    thread_local! {
        static DONE: Cell<bool> = const { Cell::new(false) };
    }
    if !DONE.replace(true) {
        tch::set_num_threads(1);
    }
}
