//! Arithmetic operators and free functions on expressions, in mathematical notation.

use std::ops::{Add, Div, Mul, Neg, Sub};

use super::shape::ForAll;
use super::{Expr, Operand};
use crate::loss::{Binary, Node, Unary};

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
    /// Function form of [`Expr::softplus`].
    ///
    /// ```
    /// use pbg_plugin_sdk::loss::formula::{row, softplus};
    /// assert_eq!(row(|s| softplus(s.positive()), 0.0, &[]).positive, 0.5);
    /// ```
    softplus;
    /// Function form of [`Expr::sigmoid`].
    ///
    /// ```
    /// use pbg_plugin_sdk::loss::formula::{row, sigmoid};
    /// assert_eq!(row(|s| sigmoid(s.positive()), 0.0, &[]).loss, 0.5);
    /// ```
    sigmoid;
    /// Function form of [`Expr::relu`].
    ///
    /// ```
    /// use pbg_plugin_sdk::loss::formula::{relu, row};
    /// assert_eq!(row(|s| relu(s.positive()), -1.0, &[]).loss, 0.0);
    /// ```
    relu;
    /// Function form of [`Expr::exp`].
    ///
    /// ```
    /// use pbg_plugin_sdk::loss::formula::{exp, row};
    /// assert_eq!(row(|s| exp(s.positive()), 0.0, &[]).loss, 1.0);
    /// ```
    exp;
    /// Function form of [`Expr::log`].
    ///
    /// ```
    /// use pbg_plugin_sdk::loss::formula::{log, row};
    /// assert_eq!(row(|s| log(s.positive()), 1.0, &[]).loss, 0.0);
    /// ```
    log;
}
