//! Elementwise methods of expressions.

use super::{Expr, Operand};
use crate::loss::{Binary, Node, Unary};

macro_rules! unary_methods {
    ($($(#[$doc:meta])* $name:ident, $op:ident;)*) => {
        impl<S> Expr<'_, S> {
            $($(#[$doc])* #[must_use] pub fn $name(self) -> Self { self.unary(Unary::$op) })*
        }
    };
}

unary_methods! {
    /// Returns the absolute value; its derivative at 0 is 0.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.positive().abs(), -2.0, &[]);
    /// assert_eq!((found.loss, found.positive), (2.0, -1.0));
    /// ```
    abs, Abs;
    /// Returns `e^x`.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.positive().exp(), 0.0, &[]);
    /// assert_eq!((found.loss, found.positive), (1.0, 1.0));
    /// ```
    exp, Exp;
    /// Returns the natural logarithm.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.positive().log(), 1.0, &[]);
    /// assert_eq!((found.loss, found.positive), (0.0, 1.0));
    /// ```
    log, Log;
    /// Returns the square root; its derivative at 0 is infinite.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.positive().sqrt(), 4.0, &[]);
    /// assert_eq!((found.loss, found.positive), (2.0, 0.25));
    /// ```
    sqrt, Sqrt;
    /// Returns `1 / (1 + e^-x)`.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.positive().sigmoid(), 0.0, &[]);
    /// assert_eq!((found.loss, found.positive), (0.5, 0.25));
    /// ```
    sigmoid, Sigmoid;
    /// Returns `ln(1 + e^x)`, which is finite also where `e^x` overflows.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.positive().softplus(), 1e9, &[]);
    /// assert_eq!((found.loss, found.positive), (1e9, 1.0));
    /// ```
    softplus, Softplus;
    /// Returns `max(x, 0)`; its derivative at 0 is 1, as in PBG.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.positive().relu(), 0.0, &[]);
    /// assert_eq!((found.loss, found.positive), (0.0, 1.0));
    /// ```
    relu, Relu;
    /// Returns the same value as a constant: no gradient flows back through it.
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
    /// Returns `self` to the power of `right`.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.positive().pow(3.0), 2.0, &[]);
    /// assert_eq!((found.loss, found.positive), (8.0, 12.0));
    /// ```
    pow, Pow;
    /// Returns the smaller of `self` and `right`; on a tie the gradient goes to `self`.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.positive().minimum(1.0), 2.0, &[]);
    /// assert_eq!((found.loss, found.positive), (1.0, 0.0));
    /// ```
    minimum, Min;
    /// Returns the larger of `self` and `right`; on a tie the gradient goes to `self`. `max`, in
    /// contrast, is the largest negative of a row.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.positive().maximum(1.0), 2.0, &[]);
    /// assert_eq!((found.loss, found.positive), (2.0, 1.0));
    /// ```
    maximum, Max;
    /// Returns 1 where `self` is less than `right`, 0 elsewhere.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.negatives().less(1.0).sum(), 0.0, &[0.0, 1.0]);
    /// assert_eq!(found.loss, 1.0);
    /// ```
    less, Less;
    /// Returns 1 where `self` is at most `right`, 0 elsewhere.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.negatives().less_equal(1.0).sum(), 0.0, &[0.0, 1.0]);
    /// assert_eq!(found.loss, 2.0);
    /// ```
    less_equal, LessEqual;
    /// Returns 1 where `self` is greater than `right`, 0 elsewhere.
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
    /// Returns 1 where `self` is at least `right`, 0 elsewhere.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.negatives().greater_equal(1.0).sum(), 0.0, &[0.0, 1.0]);
    /// assert_eq!(found.loss, 1.0);
    /// ```
    greater_equal, GreaterEqual;
    /// Returns 1 where `self` equals `right`, 0 elsewhere.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.negatives().equal(1.0).sum(), 0.0, &[0.0, 1.0]);
    /// assert_eq!(found.loss, 1.0);
    /// ```
    equal, Equal;
    /// Returns 1 where `self` differs from `right`, 0 elsewhere.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.negatives().not_equal(1.0).sum(), 0.0, &[0.0, 2.0]);
    /// assert_eq!(found.loss, 2.0);
    /// ```
    not_equal, NotEqual;
}

impl<'t, S> Expr<'t, S> {
    /// Returns `then` where `self` is not 0, `otherwise` elsewhere. Both are computed: if the side
    /// that is not selected is not finite, the gradient is not a number.
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

    /// Returns `min(max(x, low), high)`; the derivative is 1 from `low` to `high`, bounds included.
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
