//! Losses of rows; a row is a positive edge and its negatives.
//!
//! [`TracedLoss`] is the standard way: the loss is written as a formula on [expressions](formula).
//! The host receives the formula as data, derives its gradient and computes both at native speed.
//! [`ComputedLoss`] is for losses that no formula can express: the plugin computes loss and gradient
//! itself, with [SIMD](crate::simd), and every score crosses the sandbox boundary twice.

mod computed;
pub mod formula;
mod traced;

pub use computed::{ComputedLoss, RowResult, ScoreRow, evaluate};
#[doc(inline)]
pub use pbg_formula::loss::{
    Evaluation, LossDefinition as Graph, LossParameter as NamedParameter, RowLoss,
};
#[doc(inline)]
pub use pbg_formula::node::{Binary, FormulaNode as Node, Reduction, Unary};
pub use traced::{Progress, TracedLoss, Values, trace};

/// Formulas leave masked negatives out automatically.
///
/// ```
/// // A masked negative is not part of a sum.
/// let row = pbg_plugin_sdk::loss::formula::row(|s| s.negatives().sum(), 0.0, &[2.0, -1e9, 3.0]);
/// assert_eq!(row.loss, 5.0);
/// assert_eq!(row.negative, [1.0, 0.0, 1.0]);
/// ```
#[doc(inline)]
pub use pbg_formula::loss::MASKED;
