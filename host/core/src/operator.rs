//! Operators as data: formulas over the components of an embedding and the parameters of a relation.
//!
//! An embedding is taken as a whole or cut into 2 or 4 components of equal length, such as real and imaginary
//! parts; parameters are vectors of that length. A formula is about one element of each of them: it says what the
//! same element of each component becomes. Nothing mixes elements, so the host may cut rows and vectors anywhere.
//! In reading order: what a plugin hands over, and the checked [`Formula`] that it becomes ([`definition`]); its
//! gradients ([`derive`](mod@derive)); the handle by which a model knows it ([`traced`]); a slow, plain
//! interpreter that tests trust ([`interpret`]); and what executes a formula at speed ([`Executed`]).

pub mod definition;
pub mod derive;
mod executed;
pub mod interpret;
pub mod traced;

pub use definition::{Definition, Formula, Initial, ParameterVector};
pub use derive::Expression;
pub use executed::Executed;
pub use traced::Traced;
