//! Losses as data: expression graphs over the scores of one row.
//!
//! A graph is a flat list of nodes in which operands come before the node that uses them. Every node has a
//! [`ValueShape`](crate::node::ValueShape): a scalar, one value per positive `[B]`, or one per negative `[B, N]`. No
//! node mixes rows, and no value decides what is computed next, so a batch can be sliced anywhere. In reading order:
//! the nodes ([`node`](crate::node)); the definition that a plugin returns, and its checks ([`definition`]); the
//! gradient, derived once ([`derive`](mod@derive)); and losses and gradients by the interpreter ([`interpret`]).
//!
//! Masked negatives (the positive itself, padding) are excluded from reductions, and their gradient is 0.

pub mod definition;
pub mod derive;
pub mod interpret;

pub use definition::{LossDefinition, LossGraph, LossParameter};
pub use derive::DerivedLoss;
pub use interpret::{Evaluation, RowLoss};

/// Score of a negative that does not count: the positive itself, or padding.
pub const MASKED: f32 = -1e9;
