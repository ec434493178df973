//! Comparators: the score of two embeddings, after the operator.
//!
//! A comparator is written as a [formula] on the components of both embeddings. The host receives the formula as data,
//! derives its gradients and computes all of them at native speed, as it does for [operators](crate::operator).

pub mod formula;
mod traced;

#[doc(inline)]
pub use pbg_formula::comparator::ComparatorDefinition as Formula;
pub use traced::{TracedComparator, trace};
