//! The training step on a device that libtorch computes on: a GPU.
//!
//! The same batch graph as [`step`](crate::step), walked by the same clusters, but a slice is as large as
//! the device's memory likes it, and every node is a handful of libtorch's operations. Tables and
//! parameters are resident there ([`tables`], [`parameters`]); tables come and go over a stream of their
//! own ([`stream`]). A batch works on a copy of the rows that it touches, each once ([`working_set`]),
//! found by offsets that are computed on the host ([`touched`]); at its end they go back to their tables.
//! The host only waits where it wants a number: for the loss, before anything is applied, and for whether
//! gradients were finite.
//!
//! A loss that is a formula is evaluated there too ([`formula`]); scores for a guest that computes come to
//! the host and gradients go back.

mod formula;
mod library;
mod operator;
mod parameters;
mod place;
mod rows;
mod scores;
mod step;
mod stream;
mod sums;
mod tables;
mod touched;
mod transfer;
mod worker;
mod working_set;

pub use library::OpenError;
pub use place::Place;
pub use tables::Resident;
pub use worker::{DEFAULT_SLICE_BYTES, DeviceWorker};
