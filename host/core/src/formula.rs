//! What losses and operators as data have in common: the words of their formulas, how a list of nodes is
//! checked, and how its gradient is derived.
//!
//! A formula is a flat list of nodes in which operands come before the node that uses them. In reading order:
//! the words ([`node`]), what can be wrong ([`error`]), the checks that every formula passes (`check`), nodes
//! without repetitions (`builder`), and gradients, as more of the same nodes (`tape`).

pub(crate) mod builder;
pub(crate) mod check;
pub mod error;
pub mod node;
pub(crate) mod tape;
