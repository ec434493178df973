//! Parts shared by losses and operators defined as data: the nodes of their formulas, the checks of a list of nodes,
//! and the derivation of its gradient.
//!
//! A formula is a flat list of nodes in which operands come before the node that uses them. In reading order: the nodes
//! ([`node`]), the errors ([`error`]), the checks that every formula must pass (`check`), a builder of nodes without
//! repetitions (`builder`), and gradients, as further nodes (`tape`).

pub(crate) mod builder;
pub(crate) mod check;
pub mod error;
pub mod node;
pub(crate) mod tape;
