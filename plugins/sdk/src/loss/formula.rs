//! Expressions on scores: operators and functions that record a formula instead of computing it.
//!
//! A value is a [`Scalar`], a [`Row`] (one number per positive) or a [`Matrix`] (one per negative);
//! an operation on different shapes has the largest of them. A loss returns a [`Row`], so a loss
//! that is not reduced over the negatives does not compile.
//!
//! ```
//! use pbg_plugin_sdk::loss::formula::{row, softplus};
//!
//! // The hardest negative should stay a margin below the positive.
//! let found = row(
//!     |s| {
//!         let hardest = s.negatives().max();
//!         softplus(0.5 - s.positive() + hardest)
//!     },
//!     2.0,
//!     &[1.0, 1.5, -3.0],
//! );
//! assert!((found.loss - f64::ln(2.0)).abs() < 1e-6);
//! assert_eq!(found.negative, [0.0, 0.5, 0.0]);
//! ```
//!
//! There is no operation that mixes rows, and no control flow that depends on values:
//! [`Expr::select`] computes both sides and selects one.

mod notation;
mod over_negatives;
mod pointwise;
pub mod shape;

use std::cell::RefCell;
use std::marker::PhantomData;

use super::{Binary, Graph, NamedParameter, Node, RowLoss, Unary};

pub use notation::{exp, log, relu, sigmoid, softplus};

use shape::{ForAll, PerNegative, PerPositive, With};

/// Recorder of a formula.
#[derive(Debug, Default)]
pub struct Trace(RefCell<Graph>);

impl Trace {
    pub(crate) fn push<S>(&self, node: Node) -> Expr<'_, S> {
        let mut graph = self.0.borrow_mut();
        graph.nodes.push(node);
        self.expression(graph.nodes.len() - 1)
    }

    /// Records a node, unless it is known already.
    pub(crate) fn push_once<S>(&self, node: Node) -> Expr<'_, S> {
        let known = self.0.borrow().nodes.iter().position(|n| *n == node);
        known.map_or_else(|| self.push(node), |id| self.expression(id))
    }

    fn expression<S>(&self, id: usize) -> Expr<'_, S> {
        Expr {
            trace: self,
            id: id as u32,
            shape: PhantomData,
        }
    }

    pub(super) fn scores(&self) -> Scores<'_> {
        Scores {
            trace: self,
            positive: self.push(Node::Positive),
            negatives: self.push(Node::Negative),
        }
    }

    pub(crate) fn finish(self, output: u32) -> Graph {
        Graph {
            output,
            ..self.0.into_inner()
        }
    }
}

/// Scores of a row, from which a formula starts.
///
/// ```
/// use pbg_plugin_sdk::loss::formula::row;
/// let found = row(|s| s.negatives().sum() / s.columns() - s.positive(), 1.0, &[2.0, 4.0]);
/// assert_eq!(found.loss, 2.0);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Scores<'t> {
    trace: &'t Trace,
    positive: Row<'t>,
    negatives: Matrix<'t>,
}

impl<'t> Scores<'t> {
    /// Returns the scores of the positives.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| -s.positive(), 3.0, &[]);
    /// assert_eq!((found.loss, found.positive), (-3.0, -1.0));
    /// ```
    #[must_use]
    pub fn positive(self) -> Row<'t> {
        self.positive
    }

    /// Returns the scores of the negatives.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.negatives().sum(), 0.0, &[1.0, 2.0]);
    /// assert_eq!(found.loss, 3.0);
    /// ```
    #[must_use]
    pub fn negatives(self) -> Matrix<'t> {
        self.negatives
    }

    /// Returns the number of negatives per positive, including masked ones, as PBG counts them.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.positive() * s.columns(), 1.0, &[0.0, -1e9]);
    /// assert_eq!(found.loss, 2.0);
    /// ```
    #[must_use]
    pub fn columns(self) -> Scalar<'t> {
        self.trace.push(Node::Columns)
    }

    /// Returns a constant.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.positive() + s.constant(1.0), 1.0, &[]);
    /// assert_eq!(found.loss, 2.0);
    /// ```
    #[must_use]
    pub fn constant(self, value: f32) -> Scalar<'t> {
        self.trace.push(Node::Constant(value))
    }

    /// Returns a number that [`TracedLoss::update`](super::TracedLoss::update) may change later, with
    /// its initial value. The same name returns the same parameter.
    ///
    /// ```
    /// let graph = pbg_plugin_sdk::loss::formula::graph(|s| s.positive() * s.parameter("scale", 2.0));
    /// assert_eq!(graph.parameters.len(), 1);
    /// ```
    #[must_use]
    pub fn parameter(self, name: &str, value: f32) -> Scalar<'t> {
        let index = {
            let mut graph = self.trace.0.borrow_mut();
            let known = graph.parameters.iter().position(|p| p.name == name);
            known.unwrap_or_else(|| {
                graph.parameters.push(NamedParameter {
                    name: name.to_owned(),
                    value,
                });
                graph.parameters.len() - 1
            })
        };
        self.trace.push(Node::Parameter(index as u32))
    }
}

/// A value of a formula. The methods below and the operators `+ - * /` make new values, also from
/// numbers.
///
/// ```
/// use pbg_plugin_sdk::loss::formula::row;
/// let found = row(|s| (2.0 * s.positive() - 1.0) / 4.0, 3.0, &[]);
/// assert_eq!((found.loss, found.positive), (1.25, 0.5));
/// ```
///
/// It has no number while the formula is built, so it cannot be compared, and `if` on it does not compile:
///
/// ```compile_fail,E0369
/// use pbg_plugin_sdk::loss::formula::row;
/// row(|s| if s.positive() > 0.0 { s.negatives().mean() } else { s.positive() }, 3.0, &[]);
/// ```
///
/// ```compile_fail,E0369
/// use pbg_plugin_sdk::loss::formula::row;
/// row(|s| if s.positive() == s.positive() { s.negatives().mean() } else { s.positive() }, 3.0, &[]);
/// ```
#[derive(Debug)]
pub struct Expr<'t, S> {
    trace: &'t Trace,
    id: u32,
    shape: PhantomData<S>,
}

/// One number for all rows.
///
/// ```
/// use pbg_plugin_sdk::loss::formula::{Scalar, Scores};
/// fn half<'t>(s: Scores<'t>) -> Scalar<'t> { s.columns() / 2.0 }
/// # let _ = pbg_plugin_sdk::loss::formula::graph(|s| s.positive() * half(s));
/// ```
pub type Scalar<'t> = Expr<'t, ForAll>;
/// One number per positive.
///
/// ```
/// use pbg_plugin_sdk::loss::formula::{Row, Scores};
/// fn loss<'t>(s: Scores<'t>) -> Row<'t> { s.negatives().mean() - s.positive() }
/// # let _ = pbg_plugin_sdk::loss::formula::graph(loss);
/// ```
pub type Row<'t> = Expr<'t, PerPositive>;
/// One number per negative.
///
/// ```
/// use pbg_plugin_sdk::loss::formula::{Matrix, Scores};
/// fn differences<'t>(s: Scores<'t>) -> Matrix<'t> { s.negatives() - s.positive() }
/// # let _ = pbg_plugin_sdk::loss::formula::graph(|s| differences(s).sum());
/// ```
pub type Matrix<'t> = Expr<'t, PerNegative>;

impl<S> Clone for Expr<'_, S> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<S> Copy for Expr<'_, S> {}

/// A number or an expression, as the second operand of a function.
///
/// ```
/// use pbg_plugin_sdk::loss::formula::row;
/// // A number and an expression alike.
/// assert_eq!(row(|s| s.positive().maximum(2.0), 1.0, &[]).loss, 2.0);
/// assert_eq!(row(|s| s.positive().maximum(s.negatives().max()), 1.0, &[4.0]).loss, 4.0);
/// ```
pub trait Operand<'t, S> {
    /// The shape of the result.
    type Joint;
    /// The expression.
    #[doc(hidden)]
    fn id(self, trace: &'t Trace) -> u32;
}

impl<'t, S> Operand<'t, S> for f32 {
    type Joint = S;
    fn id(self, trace: &'t Trace) -> u32 {
        trace.push::<ForAll>(Node::Constant(self)).id
    }
}

impl<'t, S: With<B>, B> Operand<'t, S> for Expr<'t, B> {
    type Joint = S::Joint;
    fn id(self, _: &'t Trace) -> u32 {
        self.id
    }
}

impl<'t, S> Expr<'t, S> {
    pub(crate) fn id(self) -> u32 {
        self.id
    }

    /// Returns the sum over the elements of an operator's vector.
    pub(crate) fn summed(self) -> Self {
        self.trace.push(Node::Sum(self.id))
    }

    pub(crate) fn unary(self, op: Unary) -> Self {
        self.trace.push(Node::Unary(op, self.id))
    }

    fn binary<R: Operand<'t, S>>(self, op: Binary, right: R) -> Expr<'t, R::Joint> {
        let right = right.id(self.trace);
        self.trace.push(Node::Binary(op, self.id, right))
    }
}

/// Returns the graph of a formula.
///
/// ```
/// let graph = pbg_plugin_sdk::loss::formula::graph(|s| s.positive() + 1.0);
/// assert_eq!(graph.nodes.len(), 4);
/// ```
pub fn graph(formula: impl for<'t> FnOnce(Scores<'t>) -> Row<'t>) -> Graph {
    let trace = Trace::default();
    let output = formula(trace.scores()).id;
    trace.finish(output)
}

/// Computes loss and gradient of a formula for one row, to test it.
///
/// ```
/// let found = pbg_plugin_sdk::loss::formula::row(|s| s.negatives().sum() - s.positive(), 1.0, &[3.0]);
/// assert_eq!((found.loss, found.positive, found.negative), (2.0, -1.0, vec![1.0]));
/// ```
pub fn row(
    formula: impl for<'t> FnOnce(Scores<'t>) -> Row<'t>,
    positive: f32,
    negatives: &[f32],
) -> RowLoss {
    let graph = graph(formula);
    let values: Vec<f32> = graph.parameters.iter().map(|p| p.value).collect();
    let negatives: Vec<f64> = negatives.iter().map(|&t| t.into()).collect();
    graph.row(&values, positive.into(), &negatives)
}
