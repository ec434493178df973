//! Execution of losses that are graphs, on rows of scores.
//!
//! A graph and its gradient are lowered once to a [`program`]: steps over tiles of a few rows that stay in the
//! first-level cache. Each step is a vectorised loop ([`tile`]) over the functions of [`maths`]. [`Traced`] executes
//! the program. [`direct`] contains three handwritten losses for comparison.

mod graph_loss;
pub mod handwritten;
pub(crate) mod maths;
mod program;
mod tile;
pub(crate) mod vectors;

pub use graph_loss::GraphLoss;
