//! Losses as data: expression graphs over the scores of one row.
//!
//! A graph is a flat list of nodes in which operands come before the node that uses them. Every
//! node has a [`Shape`]: a scalar, one value per positive `[B]`, or one per negative `[B, N]`.
//! Nothing mixes rows and no value decides what is computed next, so a batch can be sliced
//! anywhere. In reading order: the words ([`node`]), what a plugin hands over and how it is
//! checked ([`definition`], [`error`]), the gradient, derived once ([`derive`](mod@derive)), and
//! a slow, plain interpreter that tests trust ([`interpret`]).
//!
//! Masked negatives (the positive itself, padding) take no part in reductions, and their gradient
//! is 0.

mod builder;
pub mod definition;
pub mod derive;
pub mod error;
pub mod interpret;
pub mod node;
pub mod strategy;

pub use definition::{Definition, Graph, Parameter};
pub use derive::Derived;
pub use error::GraphError;
pub use node::{Binary, Node, NodeId, Reduction, Shape, Unary};
pub use strategy::{
    FailedRows, KeepRows, LossState, Observed, ParameterSchedule, Progress, TracedLoss,
    check_values, named_values,
};
