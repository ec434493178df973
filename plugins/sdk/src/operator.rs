//! Operators: how a relation transforms an embedding before it is compared with another one.
//!
//! An operator is written as a [formula] on the components of an embedding and the relation's
//! parameters. The host receives the formula as data, derives its gradients and computes all of them
//! at native speed, as it does for [losses](crate::loss).

pub mod formula;
mod graph;
mod interpret;
mod traced;

pub use graph::{Formula, Initial, Node, Unary, VectorParameter};
pub use traced::{TracedOperator, trace};
