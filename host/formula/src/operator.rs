//! Operators as data: formulas over the components of an embedding and the parameters of a relation.
//!
//! An embedding is used as a whole or cut into 2, 4 or 8 components of equal length, such as real and imaginary parts.
//! Parameters are vectors of that length. A formula computes one element of each output component from the same element
//! of the input components and of the parameters; only a sum depends on all elements of a vector. No value depends on
//! another embedding, so the host may cut a batch anywhere. A formula may also have outputs for the left entity of an
//! edge, with the same parameters. In reading order: the definition that a plugin returns, and the checked [`OperatorFormula`] made from it
//! ([`definition`]); its gradients ([`derive`](mod@derive)); the handle with which a model refers to it ([`traced`]); a
//! formula by the interpreter ([`interpret`]); and the trait of fast executors ([`FormulaExecutor`]).

pub mod definition;
pub mod derive;
mod executor;
pub mod interpret;
pub mod traced;

pub use definition::{InitialValue, OperatorDefinition, OperatorFormula, ParameterVector};
pub use derive::Expression;
pub use executor::FormulaExecutor;
pub use traced::FormulaHandle;
