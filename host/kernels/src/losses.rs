//! Execution of losses that are expression graphs, on rows of scores.
//!
//! A graph and its gradient are lowered once to a [`program`]: a list of steps over tiles of a few rows, which stay in
//! the first-level cache. Each step is a vectorised loop ([`tile`], [`vectors`]) over the functions of [`maths`].
//! [`GraphLoss`] executes the program. [`handwritten`] contains three losses without graphs, with which tests and
//! benchmarks compare it.

mod graph_loss;
pub mod handwritten;
pub(crate) mod maths;
mod program;
mod tile;
pub(crate) mod vectors;

pub use graph_loss::GraphLoss;
