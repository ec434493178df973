//! What libtorch computes: products of bfloat16 matrices on the cores, and the training step on a GPU.
//!
//! The only crate that names libtorch. A program that links it calls [`install`] as it starts.
//!
//! On a GPU it is the same batch graph as on the cores, walked by the same clusters, but a slice is as large
//! as the device's memory likes it, and every node is a handful of libtorch's operations. Tables and
//! parameters are resident there ([`tables`], [`parameters`]); tables come and go over a stream of their
//! own ([`stream`]). A batch works on a copy of the rows that it touches, each once ([`working_set`]),
//! found by offsets that are computed on the host ([`touched`]); at its end they go back to their tables.
//! A GPU itself sees to it that nothing is applied that is not finite. The host waits for what a batch came
//! to, and of batches that were planned ahead for the one before: the GPU goes on meanwhile. It also waits
//! where it carries numbers that nobody carried ahead (weights, counts of relations).
//!
//! A loss that is a formula is evaluated there too ([`formula`]); scores for a guest that computes come to
//! the host and gradients go back. On a GPU most of what is not a product is a kernel of our own ([`fused`]): the loss, the
//! operators that need no plugin, the updates.

mod distances;
mod error;
mod formula;
mod fused;
mod half;
mod library;
mod operator;
mod parameters;
mod place;
mod planner;
mod product;
mod rows;
mod scores;
mod step;
mod stream;
mod sums;
mod tables;
mod touched;
mod traced_operator;
mod transfer;
mod worker;
mod working_set;

use std::cell::Cell;

use pbg_core::model::Precision;
use pbg_kernels::device::{OpenError, Place};
use pbg_kernels::libtorch::{self, HalfLayout, HalfMatrices, Libtorch, Product, ProductShape};
use pbg_kernels::spec::ModelSpec;
use pbg_kernels::step::{StepError, WorkerError};
use tch::TchError;

pub use place::TorchPlace;

/// libtorch, linked.
#[derive(Clone, Copy, Debug)]
struct Linked;

/// Hands libtorch over to the kernels of this process.
pub fn install() {
    libtorch::install(&Linked);
}

impl Libtorch for Linked {
    fn multiply(
        &self,
        out: &mut [u16],
        layout: HalfLayout,
        a: HalfMatrices<'_>,
        b: HalfMatrices<'_>,
        accumulate: bool,
    ) -> Result<(), StepError> {
        on_this_thread();
        half::multiply(out, layout, a, b, accumulate).map_err(failed)
    }

    fn open(&self, index: u32) -> Result<Box<dyn Place>, OpenError> {
        Ok(Box::new(TorchPlace::cuda(index)?))
    }

    fn refusal(&self, spec: &ModelSpec, precision: Precision) -> Option<String> {
        planner::refusal(spec, precision)
    }

    fn product(
        &self,
        shape: ProductShape,
        precision: Precision,
    ) -> Result<Box<dyn Product>, WorkerError> {
        on_this_thread();
        Ok(Box::new(product::TorchProduct::new(shape, precision)?))
    }
}

/// Makes libtorch compute every operation of this thread on this thread.
///
/// OpenMP keeps the number of threads per thread: a worker that has not said so itself would have a
/// team of its own spinning beside it. Everything that is called from outside says so first.
fn on_this_thread() {
    thread_local! {
        static DONE: Cell<bool> = const { Cell::new(false) };
    }
    if !DONE.replace(true) {
        tch::set_num_threads(1);
    }
}

fn failed(error: TchError) -> StepError {
    error::failed(&error)
}
