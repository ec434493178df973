//! Methods that work element by element.

use super::{Expr, Operand};
use crate::loss::graph::{Binary, Node, Unary};

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
    /// The larger one; on a tie the gradient goes to the left one. `max` of the
    /// negatives is the largest of a row.
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
