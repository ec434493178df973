//! Expressions on scores: ordinary operators and functions, which write down what they are told.
//!
//! A value is a [`Scalar`], a [`Row`] (one number per positive) or a [`Matrix`] (one per negative);
//! an operation on different ones has the shape of the largest. What a loss returns is a [`Row`]:
//! the compiler refuses one that was not reduced over the negatives.
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
//! There is no operation that mixes rows, and no way to look at a value and decide what to compute
//! next: [`Expr::select`] computes both sides and takes one.

use std::cell::RefCell;
use std::marker::PhantomData;
use std::ops::{Add, Div, Mul, Neg, Sub};

use super::graph::{Binary, Graph, NamedParameter, Node, Reduction, Unary};
use super::interpret::RowLoss;

/// What a value has one number per.
///
/// ```
/// use pbg_plugin_sdk::loss::formula::shape::{PerNegative, PerPositive};
/// assert_eq!(std::mem::size_of::<(PerPositive, PerNegative)>(), 0);
/// ```
pub mod shape {
    /// One number for all rows.
    ///
    /// ```
    /// let all = pbg_plugin_sdk::loss::formula::shape::ForAll;
    /// assert_eq!(format!("{all:?}"), "ForAll");
    /// ```
    #[derive(Clone, Copy, Debug)]
    pub struct ForAll;
    /// One number per positive.
    ///
    /// ```
    /// let row = pbg_plugin_sdk::loss::formula::shape::PerPositive;
    /// assert_eq!(format!("{row:?}"), "PerPositive");
    /// ```
    #[derive(Clone, Copy, Debug)]
    pub struct PerPositive;
    /// One number per negative.
    ///
    /// ```
    /// let matrix = pbg_plugin_sdk::loss::formula::shape::PerNegative;
    /// assert_eq!(format!("{matrix:?}"), "PerNegative");
    /// ```
    #[derive(Clone, Copy, Debug)]
    pub struct PerNegative;

    /// Shapes that go together, and the shape of the result.
    ///
    /// ```
    /// use pbg_plugin_sdk::loss::formula::shape::{ForAll, PerPositive, With};
    /// fn joined<A: With<B>, B>(_: A, _: B) -> &'static str {
    ///     std::any::type_name::<A::Joint>()
    /// }
    /// assert!(joined(ForAll, PerPositive).ends_with("PerPositive"));
    /// ```
    pub trait With<Other> {
        /// The larger one.
        type Joint;
    }

    macro_rules! with {
        ($($a:ty, $b:ty => $joint:ty;)*) => {
            $(impl With<$b> for $a { type Joint = $joint; })*
        };
    }
    with! {
        ForAll, ForAll => ForAll;
        ForAll, PerPositive => PerPositive;
        ForAll, PerNegative => PerNegative;
        PerPositive, ForAll => PerPositive;
        PerPositive, PerPositive => PerPositive;
        PerPositive, PerNegative => PerNegative;
        PerNegative, ForAll => PerNegative;
        PerNegative, PerPositive => PerNegative;
        PerNegative, PerNegative => PerNegative;
    }
}

use shape::{ForAll, PerNegative, PerPositive, With};

/// Where a formula is written down.
#[derive(Debug, Default)]
pub struct Trace(RefCell<Graph>);

impl Trace {
    fn push<S>(&self, node: Node) -> Expr<'_, S> {
        let mut graph = self.0.borrow_mut();
        graph.nodes.push(node);
        Expr {
            trace: self,
            id: graph.nodes.len() as u32 - 1,
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

    pub(super) fn finish(self, output: u32) -> Graph {
        Graph {
            output,
            ..self.0.into_inner()
        }
    }
}

/// What a formula starts from.
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
    /// Scores of the positives.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| -s.positive(), 3.0, &[]);
    /// assert_eq!((found.loss, found.positive), (-3.0, -1.0));
    /// ```
    #[must_use]
    pub fn positive(self) -> Row<'t> {
        self.positive
    }

    /// Scores of the negatives.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.negatives().sum(), 0.0, &[1.0, 2.0]);
    /// assert_eq!(found.loss, 3.0);
    /// ```
    #[must_use]
    pub fn negatives(self) -> Matrix<'t> {
        self.negatives
    }

    /// Number of negatives per positive, masked ones included, as PBG counts them.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.positive() * s.columns(), 1.0, &[0.0, -1e9]);
    /// assert_eq!(found.loss, 2.0);
    /// ```
    #[must_use]
    pub fn columns(self) -> Scalar<'t> {
        self.trace.push(Node::Columns)
    }

    /// A number.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.positive() + s.constant(1.0), 1.0, &[]);
    /// assert_eq!(found.loss, 2.0);
    /// ```
    #[must_use]
    pub fn constant(self, value: f32) -> Scalar<'t> {
        self.trace.push(Node::Constant(value))
    }

    /// A number that [`TracedLoss::update`](super::TracedLoss::update) may change later; the same
    /// one for the same name.
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

/// A value of a formula; the functions below and the operators `+ - * /` make new ones, together
/// with numbers where one likes.
///
/// ```
/// use pbg_plugin_sdk::loss::formula::row;
/// let found = row(|s| (2.0 * s.positive() - 1.0) / 4.0, 3.0, &[]);
/// assert_eq!((found.loss, found.positive), (1.25, 0.5));
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
    pub(super) fn id(self) -> u32 {
        self.id
    }

    fn unary(self, op: Unary) -> Self {
        self.trace.push(Node::Unary(op, self.id))
    }

    fn binary<R: Operand<'t, S>>(self, op: Binary, right: R) -> Expr<'t, R::Joint> {
        let right = right.id(self.trace);
        self.trace.push(Node::Binary(op, self.id, right))
    }
}

macro_rules! unary_methods {
    ($($(#[$doc:meta])* $name:ident, $op:ident;)*) => {
        impl<S> Expr<'_, S> {
            $($(#[$doc])* #[must_use] pub fn $name(self) -> Self { self.unary(Unary::$op) })*
        }
    };
}

unary_methods! {
    /// The distance from 0; its derivative at 0 is 0.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.positive().abs(), -2.0, &[]);
    /// assert_eq!((found.loss, found.positive), (2.0, -1.0));
    /// ```
    abs, Abs;
    /// `e^x`
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.positive().exp(), 0.0, &[]);
    /// assert_eq!((found.loss, found.positive), (1.0, 1.0));
    /// ```
    exp, Exp;
    /// Natural logarithm.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.positive().log(), 1.0, &[]);
    /// assert_eq!((found.loss, found.positive), (0.0, 1.0));
    /// ```
    log, Log;
    /// Square root; its derivative at 0 is infinite.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.positive().sqrt(), 4.0, &[]);
    /// assert_eq!((found.loss, found.positive), (2.0, 0.25));
    /// ```
    sqrt, Sqrt;
    /// `1 / (1 + e^-x)`
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.positive().sigmoid(), 0.0, &[]);
    /// assert_eq!((found.loss, found.positive), (0.5, 0.25));
    /// ```
    sigmoid, Sigmoid;
    /// `ln(1 + e^x)`, also where `e^x` overflows.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.positive().softplus(), 1e9, &[]);
    /// assert_eq!((found.loss, found.positive), (1e9, 1.0));
    /// ```
    softplus, Softplus;
    /// `max(x, 0)`; its derivative at 0 is 1, as in PBG.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.positive().relu(), 0.0, &[]);
    /// assert_eq!((found.loss, found.positive), (0.0, 1.0));
    /// ```
    relu, Relu;
    /// The same value, as if it were a number: no gradient flows back through it.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(
    ///     |s| s.positive().stop_gradient() * s.positive(),
    ///     3.0,
    ///     &[],
    /// );
    /// assert_eq!((found.loss, found.positive), (9.0, 3.0));
    /// ```
    stop_gradient, StopGradient;
}

macro_rules! binary_methods {
    ($($(#[$doc:meta])* $name:ident, $op:ident;)*) => {
        impl<'t, S> Expr<'t, S> {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $name<R: Operand<'t, S>>(self, right: R) -> Expr<'t, R::Joint> {
                    self.binary(Binary::$op, right)
                }
            )*
        }
    };
}

binary_methods! {
    /// To the power of `right`.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.positive().pow(3.0), 2.0, &[]);
    /// assert_eq!((found.loss, found.positive), (8.0, 12.0));
    /// ```
    pow, Pow;
    /// The smaller one; on a tie the gradient goes to the left one.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.positive().minimum(1.0), 2.0, &[]);
    /// assert_eq!((found.loss, found.positive), (1.0, 0.0));
    /// ```
    minimum, Min;
    /// The larger one; on a tie the gradient goes to the left one. [`Matrix::max`] is the largest
    /// of a row.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.positive().maximum(1.0), 2.0, &[]);
    /// assert_eq!((found.loss, found.positive), (2.0, 1.0));
    /// ```
    maximum, Max;
    /// 1 where it is less than `right`, 0 elsewhere.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.negatives().less(1.0).sum(), 0.0, &[0.0, 1.0]);
    /// assert_eq!(found.loss, 1.0);
    /// ```
    less, Less;
    /// 1 where it is at most `right`, 0 elsewhere.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.negatives().less_equal(1.0).sum(), 0.0, &[0.0, 1.0]);
    /// assert_eq!(found.loss, 2.0);
    /// ```
    less_equal, LessEqual;
    /// 1 where it is greater than `right`, 0 elsewhere.
    ///
    /// ```
    /// // Negatives that score above their positive.
    /// let found = pbg_plugin_sdk::loss::formula::row(
    ///     |s| s.negatives().greater(s.positive()).sum(),
    ///     0.5,
    ///     &[0.0, 1.0],
    /// );
    /// assert_eq!(found.loss, 1.0);
    /// ```
    greater, Greater;
    /// 1 where it is at least `right`, 0 elsewhere.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.negatives().greater_equal(1.0).sum(), 0.0, &[0.0, 1.0]);
    /// assert_eq!(found.loss, 1.0);
    /// ```
    greater_equal, GreaterEqual;
    /// 1 where it equals `right`, 0 elsewhere.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.negatives().equal(1.0).sum(), 0.0, &[0.0, 1.0]);
    /// assert_eq!(found.loss, 1.0);
    /// ```
    equal, Equal;
    /// 1 where it differs from `right`, 0 elsewhere.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.negatives().not_equal(1.0).sum(), 0.0, &[0.0, 2.0]);
    /// assert_eq!(found.loss, 2.0);
    /// ```
    not_equal, NotEqual;
}

impl<'t, S> Expr<'t, S> {
    /// `then` where this is not 0, `otherwise` elsewhere. Both are computed: a value that is not
    /// finite on the side that is not taken still spoils the gradient.
    ///
    /// ```
    /// // Half the weight for negatives below 0.
    /// let found = pbg_plugin_sdk::loss::formula::row(
    ///     |s| {
    ///         let t = s.negatives();
    ///         t.less(0.0).select(t * 0.5, t).sum()
    ///     },
    ///     0.0,
    ///     &[-2.0, 3.0],
    /// );
    /// assert_eq!((found.loss, found.negative), (2.0, vec![0.5, 1.0]));
    /// ```
    #[must_use]
    pub fn select<A, B>(
        self,
        then: A,
        otherwise: B,
    ) -> Expr<'t, <B as Operand<'t, A::Joint>>::Joint>
    where
        A: Operand<'t, S>,
        B: Operand<'t, A::Joint>,
    {
        let (then, otherwise) = (then.id(self.trace), otherwise.id(self.trace));
        self.trace.push(Node::Select(self.id, then, otherwise))
    }

    /// Not below `low`, not above `high`; the derivative is 1 from one to the other, bounds included.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.positive().clamp(-1.0, 1.0), 3.0, &[]);
    /// assert_eq!((found.loss, found.positive), (1.0, 0.0));
    /// ```
    #[must_use]
    pub fn clamp<A, B>(self, low: A, high: B) -> Expr<'t, <B as Operand<'t, A::Joint>>::Joint>
    where
        A: Operand<'t, S>,
        B: Operand<'t, A::Joint>,
    {
        let (low, high) = (low.id(self.trace), high.id(self.trace));
        self.trace.push(Node::Clamp(self.id, low, high))
    }
}

impl<'t> Matrix<'t> {
    fn reduce(self, op: Reduction) -> Row<'t> {
        self.trace.push(Node::Reduce(op, self.id))
    }

    /// The sum over the negatives.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.negatives().sum(), 0.0, &[1.0, 2.0]);
    /// assert_eq!((found.loss, found.negative), (3.0, vec![1.0, 1.0]));
    /// ```
    #[must_use]
    pub fn sum(self) -> Row<'t> {
        self.reduce(Reduction::Sum)
    }

    /// The sum divided by [`Scores::columns`]; 0 where there are none.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.negatives().mean(), 0.0, &[1.0, 2.0]);
    /// assert_eq!((found.loss, found.negative), (1.5, vec![0.5, 0.5]));
    /// ```
    #[must_use]
    pub fn mean(self) -> Row<'t> {
        self.reduce(Reduction::Mean)
    }

    /// The largest of the negatives; negative infinity where there are none. Those that are largest
    /// share the gradient.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.negatives().max(), 0.0, &[1.0, 2.0]);
    /// assert_eq!((found.loss, found.negative), (2.0, vec![0.0, 1.0]));
    /// ```
    #[must_use]
    pub fn max(self) -> Row<'t> {
        self.reduce(Reduction::Max)
    }

    /// The smallest of the negatives; infinity where there are none.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.negatives().min(), 0.0, &[1.0, 2.0]);
    /// assert_eq!((found.loss, found.negative), (1.0, vec![1.0, 0.0]));
    /// ```
    #[must_use]
    pub fn min(self) -> Row<'t> {
        -(-self).max()
    }

    /// `ln(sum(e^x))`, without overflow; negative infinity where there are none.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.negatives().logsumexp(), 0.0, &[1e6, 1e6]);
    /// assert!((found.loss - 1e6 - f64::ln(2.0)).abs() < 1e-9);
    /// assert!(found.negative.iter().all(|g| (g - 0.5).abs() < 1e-9));
    /// ```
    #[must_use]
    pub fn logsumexp(self) -> Row<'t> {
        self.reduce(Reduction::LogSumExp)
    }

    /// `e^x` divided by the sum over the row: weights that add up to 1.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(
    ///     |s| (s.negatives().softmax().stop_gradient() * s.negatives()).sum(),
    ///     0.0,
    ///     &[1.0, 1.0],
    /// );
    /// assert!((found.loss - 1.0).abs() < 1e-12);
    /// assert!(found.negative.iter().all(|g| (g - 0.5).abs() < 1e-12));
    /// ```
    #[must_use]
    pub fn softmax(self) -> Self {
        self.trace.push(Node::Softmax(self.id))
    }
}

impl<S> Neg for Expr<'_, S> {
    type Output = Self;
    fn neg(self) -> Self {
        self.unary(Unary::Neg)
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident $op:ident;)*) => {
        $(
            impl<'t, S, R: Operand<'t, S>> $trait<R> for Expr<'t, S> {
                type Output = Expr<'t, R::Joint>;
                fn $method(self, right: R) -> Self::Output {
                    self.binary(Binary::$op, right)
                }
            }

            impl<'t, S> $trait<Expr<'t, S>> for f32 {
                type Output = Expr<'t, S>;
                fn $method(self, right: Expr<'t, S>) -> Expr<'t, S> {
                    let left = right.trace.push::<ForAll>(Node::Constant(self)).id;
                    right.trace.push(Node::Binary(Binary::$op, left, right.id))
                }
            }
        )*
    };
}

operators! {
    Add add Add;
    Sub sub Sub;
    Mul mul Mul;
    Div div Div;
}

macro_rules! functions {
    ($($(#[$doc:meta])* $name:ident;)*) => {
        $($(#[$doc])* #[must_use] pub fn $name<S>(x: Expr<'_, S>) -> Expr<'_, S> { x.$name() })*
    };
}

functions! {
    /// [`Expr::softplus`], as in a formula.
    ///
    /// ```
    /// use pbg_plugin_sdk::loss::formula::{row, softplus};
    /// assert_eq!(row(|s| softplus(s.positive()), 0.0, &[]).positive, 0.5);
    /// ```
    softplus;
    /// [`Expr::sigmoid`], as in a formula.
    ///
    /// ```
    /// use pbg_plugin_sdk::loss::formula::{row, sigmoid};
    /// assert_eq!(row(|s| sigmoid(s.positive()), 0.0, &[]).loss, 0.5);
    /// ```
    sigmoid;
    /// [`Expr::relu`], as in a formula.
    ///
    /// ```
    /// use pbg_plugin_sdk::loss::formula::{relu, row};
    /// assert_eq!(row(|s| relu(s.positive()), -1.0, &[]).loss, 0.0);
    /// ```
    relu;
    /// [`Expr::exp`], as in a formula.
    ///
    /// ```
    /// use pbg_plugin_sdk::loss::formula::{exp, row};
    /// assert_eq!(row(|s| exp(s.positive()), 0.0, &[]).loss, 1.0);
    /// ```
    exp;
    /// [`Expr::log`], as in a formula.
    ///
    /// ```
    /// use pbg_plugin_sdk::loss::formula::{log, row};
    /// assert_eq!(row(|s| log(s.positive()), 1.0, &[]).loss, 0.0);
    /// ```
    log;
}

/// The graph of a formula.
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

/// Loss and gradient that a formula gives one row: to try one out.
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
