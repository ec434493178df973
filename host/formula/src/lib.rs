//! Losses, operators and comparators as data: the formulas that plugins hand over, checked and differentiated once. A formula is a
//! flat list of nodes in which operands come before the node that uses them. The host executes it on tiles of rows, on
//! cores or on a GPU, so that nothing crosses the sandbox while a batch is trained.
//!
//! In reading order: the nodes ([`node`]), the errors ([`error`]), losses over the scores of a row ([`loss`]), operators
//! over the components of an embedding ([`operator`]) and comparators over those of a pair ([`comparator`]), each with
//! its definition and its derivative; handles of the last two ([`kept`]). What they share is private: the checks that
//! every formula must pass (`check`), a builder of nodes without repetitions (`builder`), gradients, as further nodes
//! (`tape`), and a slow, simple reference interpreter (`interpret`). Fast executors compute with the functions of
//! [`maths`].
//!
//! Plugins in Rust record their formulas in the same types, and their tests run the same interpreter: the SDK contains
//! this crate. It therefore depends only on packages that compile for the sandbox.
//!
//! # Invariants
//!
//! A [`LossGraph`](loss::LossGraph), an [`OperatorFormula`](operator::OperatorFormula) and a
//! [`ComparatorFormula`](comparator::ComparatorFormula) are checked: every operand exists, comes earlier and has a
//! suitable shape, and constants are finite. No node mixes rows, and no value decides
//! what is computed next, so rows may be cut anywhere. Equal definitions give equal derivatives.
//!
//! This crate does no I/O, reads no clock and starts no threads. It does not know who executes a formula, or anything
//! about graphs, training and the sandbox.

pub mod breaks;
mod builder;
mod check;
pub mod comparator;
pub mod error;
mod interpret;
pub mod kept;
pub mod loss;
pub mod maths;
pub mod node;
pub mod operator;
mod tape;
