//! Losses that are graphs, executed on rows of scores.
//!
//! A graph with its gradient becomes a [`program`] once: steps over tiles of a few rows that stay in
//! the first-level cache, each step a vectorised loop ([`tile`]) on the arithmetic of [`maths`].
//! [`Traced`] runs it. [`direct`] has three losses written by hand, to compare with.

pub mod direct;
pub(crate) mod maths;
mod program;
pub(crate) mod rows;
mod tile;
mod traced;

pub use traced::Traced;
