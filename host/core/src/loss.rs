//! Losses as data: expression graphs over the scores of one row.
//!
//! A graph is a flat list of nodes in which operands come before the node that uses them. Every node has a
//! [`ValueShape`](crate::formula::node::ValueShape): a scalar, one value per positive `[B]`, or one per negative `[B,
//! N]`. No node mixes rows, and no value decides what is computed next, so a batch can be sliced anywhere. In reading
//! order: the nodes ([`node`](crate::formula::node)); the definition that a plugin returns, and its checks
//! ([`definition`]); the gradient, derived once ([`derive`](mod@derive)); and a slow, simple reference interpreter for
//! tests ([`interpret`]).
//!
//! Masked negatives (the positive itself, padding) are excluded from reductions, and their gradient is 0.

pub mod definition;
pub mod derive;
pub mod interpret;
pub mod strategy;

pub use crate::formula::error::FormulaError;
pub use crate::formula::node::{Binary, FormulaNode, NodeId, Reduction, Unary, ValueShape};
pub use crate::formula::{error, node};
pub use definition::{LossDefinition, LossGraph, LossParameter};
pub use derive::DerivedLoss;
pub use strategy::{
    FailedRows, LossState, ObservedBatches, ParameterSchedule, SaveFailedRows, ScheduleProgress,
    TracedLoss, check_values, named_values,
};
