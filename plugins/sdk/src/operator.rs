//! Operators: how a relation transforms the embeddings of an edge before they are compared.
//!
//! An operator is written as a [formula] on the components of an embedding and the relation's
//! parameters. The host receives the formula as data, derives its gradients and computes all of them
//! at native speed, as it does for [losses](crate::loss).

pub mod formula;
mod traced;

#[doc(inline)]
pub use pbg_formula::node::{FormulaNode as Node, Unary};
#[doc(inline)]
pub use pbg_formula::operator::{
    InitialValue as Initial, OperatorDefinition as Formula, ParameterVector as VectorParameter,
};
pub use traced::{TracedOperator, trace};
