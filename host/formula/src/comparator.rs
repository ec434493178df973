//! Comparators as data: formulas over the components of two embeddings, whose value is their score.
//!
//! Embeddings are used as a whole or cut into 2, 4 or 8 components of equal length. Components of the left embedding are
//! counted first, then those of the right one. A formula computes elementwise values from the same element of all
//! components, and its score from sums over the vector. In reading order: the definition, and the checked
//! [`ComparatorFormula`] made from it ([`definition`]); its gradients ([`derive`](mod@derive)); the price of a pair
//! ([`cost`]); the handle with which a model refers to it ([`traced`]); the built-in distances ([`distances`]); scores and
//! gradients by the interpreter ([`interpret`]); and the trait of fast executors ([`PairExecutor`]).

pub mod cost;
pub mod definition;
pub mod derive;
pub mod distances;
mod executor;
pub mod interpret;
pub mod traced;

pub use cost::PairCost;
pub use definition::{ComparatorDefinition, ComparatorFormula};
pub use executor::{PairExecutor, PairRows};
pub use traced::ComparatorHandle;
