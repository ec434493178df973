//! Computations with libtorch: products of bfloat16 matrices on the CPU, and the training step on a GPU.
//!
//! This is the only crate that uses libtorch. It is not linked with it: [`load`] finds and loads it ([`LibtorchPlace`])
//! with the [`bridge`] for its version, once something needs it.
//!
//! On a GPU, a batch is trained with the same batch graph and stages as on the CPU, but a slice is as large as fits the
//! device's memory well, and every node is a few operations of libtorch. Tables and parameters are resident on the
//! device ([`tables`], [`parameters`]); tables are copied over a separate stream ([`stream`]). A batch works on a copy
//! of the rows that it touches, each once ([`working_set`]). The offsets into this copy are computed on the host
//! ([`touched`]). At its end the rows are written back to their tables. The GPU itself makes sure that nothing is
//! applied that is not finite. The host waits for the result of a batch, and if batches were planned ahead, only for
//! that of the batch before, while the GPU continues. The host also waits where it copies numbers that were not copied
//! ahead (weights, counts of relations).
//!
//! A traced loss is evaluated on the device ([`formula`]). For a computed loss, scores are copied to the host and
//! gradients back. On a GPU, most operations other than products are kernels of this crate ([`fused`]): the loss, the
//! operators that need no plugin, and the updates.

mod bridge;
mod device;
mod distances;
mod error;
mod formula;
mod fused;
mod half;
mod installation;
mod library;
mod loaded;
mod one_thread;
mod open_device;
mod operator;
mod parameter_rows;
mod parameters;
mod pending_sums;
mod planner;
mod product;
mod rows;
mod score_tensors;
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

pub use device::TorchDevice;
pub use installation::{
    BRIDGES, FOLDER, LibtorchLoadError, LibtorchPlace, available, load, load_found, named,
};
