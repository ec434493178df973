//! Expressions on vectors: operators and functions that record a formula instead of computing it.
//!
//! A [`Vector`] is a component of the embedding, a parameter of the relation, or the result of an elementwise
//! operation. There is no operation that mixes elements, and no control flow that depends on values:
//! [`Vector::select`] computes both sides and selects one.
//!
//! ```
//! use pbg_plugin_sdk::operator::{Initial, formula::formula};
//!
//! // Complex numbers, rotated by an angle of the relation (RotatE).
//! let rotate = formula(|x| {
//!     let ([re, im], angle) = (x.components(), x.parameter("angle", Initial::Angle));
//!     vec![
//!         re * angle.cos() - im * angle.sin(),
//!         re * angle.sin() + im * angle.cos(),
//!     ]
//! });
//! let quarter = [std::f32::consts::FRAC_PI_2];
//! let turned = rotate.apply(&[1.0, 0.0], &[&quarter]);
//! assert!(turned[0].abs() < 1e-6 && (turned[1] - 1.0).abs() < 1e-6);
//! ```

use std::cell::RefCell;
use std::ops::{Add, Div, Mul, Neg, Sub};

use super::{Formula, Initial, Node, Unary, VectorParameter};
use crate::loss::Binary;

/// Recorder of a formula.
#[derive(Debug, Default)]
pub struct Trace(RefCell<Formula>);

impl Trace {
    fn push(&self, node: Node) -> Vector<'_> {
        let mut formula = self.0.borrow_mut();
        // Each component and parameter has only one node, even if it is requested several times.
        let leaf = matches!(node, Node::Component(_) | Node::Parameter(_));
        let known = formula.nodes.iter().position(|other| *other == node);
        let id = known.filter(|_| leaf).unwrap_or_else(|| {
            formula.nodes.push(node);
            formula.nodes.len() - 1
        });
        Vector {
            trace: self,
            id: id as u32,
        }
    }

    pub(super) fn embedding(&self) -> Embedding<'_> {
        Embedding { trace: self }
    }

    pub(super) fn finish(self, outputs: Vec<u32>) -> Formula {
        Formula {
            components: outputs.len() as u32,
            outputs,
            ..self.0.into_inner()
        }
    }
}

/// Embedding and parameters of a relation, from which a formula starts.
///
/// ```
/// use pbg_plugin_sdk::operator::{Initial, formula::formula};
/// let scale = formula(|x| vec![x.component(0) * x.parameter("scale", Initial::One)]);
/// assert_eq!(scale.apply(&[1.0, 2.0], &[&[3.0, 4.0]]), [3.0, 8.0]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Embedding<'t> {
    trace: &'t Trace,
}

impl<'t> Embedding<'t> {
    /// Returns the component with this index, counted from 0.
    ///
    /// ```
    /// use pbg_plugin_sdk::operator::{Initial, formula::formula};
    /// let p = Initial::One;
    /// let swapped = formula(|x| vec![x.component(1) * x.parameter("p", p), x.component(0)]);
    /// assert_eq!(swapped.apply(&[1.0, 2.0], &[&[1.0]]), [2.0, 1.0]);
    /// ```
    #[must_use]
    pub fn component(self, index: u32) -> Vector<'t> {
        self.trace.push(Node::Component(index))
    }

    /// Returns the first `N` components; `N` follows from the pattern that they are assigned to.
    ///
    /// ```
    /// use pbg_plugin_sdk::operator::{Initial, formula::formula};
    /// let conjugate = formula(|x| {
    ///     let [re, im] = x.components();
    ///     vec![re * x.parameter("p", Initial::One), -im]
    /// });
    /// assert_eq!(conjugate.apply(&[1.0, 2.0], &[&[1.0]]), [1.0, -2.0]);
    /// ```
    #[must_use]
    pub fn components<const N: usize>(self) -> [Vector<'t>; N] {
        std::array::from_fn(|index| self.component(index as u32))
    }

    /// Returns a parameter: a vector that belongs to the relation, as long as a component. The same name returns the
    /// same parameter.
    ///
    /// ```
    /// use pbg_plugin_sdk::operator::{Initial, formula::formula};
    /// let shift = formula(|x| vec![x.component(0) + x.parameter("shift", Initial::Normal(0.1))]);
    /// assert_eq!(shift.parameters[0].initial, Initial::Normal(0.1));
    /// ```
    #[must_use]
    pub fn parameter(self, name: &str, initial: Initial) -> Vector<'t> {
        let index = {
            let mut formula = self.trace.0.borrow_mut();
            let known = formula.parameters.iter().position(|p| p.name == name);
            known.unwrap_or_else(|| {
                let name = name.to_owned();
                formula.parameters.push(VectorParameter { name, initial });
                formula.parameters.len() - 1
            })
        };
        self.trace.push(Node::Parameter(index as u32))
    }

    /// Returns a constant, the same in all elements.
    ///
    /// ```
    /// use pbg_plugin_sdk::operator::{Initial, formula::formula};
    /// let p = Initial::One;
    /// let bounded = formula(|x| {
    ///     let low = x.constant(0.0);
    ///     vec![(x.component(0) * x.parameter("p", p)).maximum(low)]
    /// });
    /// assert_eq!(bounded.apply(&[-1.0], &[&[1.0]]), [0.0]);
    /// ```
    #[must_use]
    pub fn constant(self, value: f32) -> Vector<'t> {
        self.trace.push(Node::Constant(value))
    }
}

/// A value of a formula. The methods below and the operators `+ - * /` make new values, also from
/// numbers.
///
/// ```
/// use pbg_plugin_sdk::operator::{Initial, formula::formula};
/// let half = formula(|x| vec![0.5 * x.component(0) + x.parameter("shift", Initial::Zero) - 1.0]);
/// assert_eq!(half.apply(&[4.0], &[&[0.25]]), [1.25]);
/// ```
///
/// It has no number while the formula is built, so it cannot be compared, and `if` on it does not compile:
///
/// ```compile_fail,E0369
/// use pbg_plugin_sdk::operator::formula::formula;
/// formula(|x| vec![if x.component(0) > x.component(0) { x.component(0) } else { -x.component(0) }]);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Vector<'t> {
    trace: &'t Trace,
    id: u32,
}

/// A number or a vector, as the second operand of a function.
///
/// ```
/// use pbg_plugin_sdk::operator::{Initial, formula::formula};
/// // A number and a vector alike.
/// let p = Initial::One;
/// let both = formula(|x| vec![x.component(0).minimum(2.0).minimum(x.parameter("p", p))]);
/// assert_eq!(both.apply(&[3.0, 3.0], &[&[1.0, 5.0]]), [1.0, 2.0]);
/// ```
pub trait Operand<'t> {
    /// The node.
    #[doc(hidden)]
    fn id(self, trace: &'t Trace) -> u32;
}

impl<'t> Operand<'t> for f32 {
    fn id(self, trace: &'t Trace) -> u32 {
        trace.push(Node::Constant(self)).id
    }
}

impl<'t> Operand<'t> for Vector<'t> {
    fn id(self, _: &'t Trace) -> u32 {
        self.id
    }
}

macro_rules! unary_methods {
    ($($(#[$doc:meta])* $name:ident, $op:ident;)*) => {
        impl Vector<'_> {
            $($(#[$doc])* #[must_use] pub fn $name(self) -> Self {
                self.trace.push(Node::Unary(Unary::$op, self.id))
            })*
        }
    };
}

unary_methods! {
    /// Returns the absolute value; its derivative at 0 is 0.
    abs, Abs;
    /// Returns `e^x`.
    exp, Exp;
    /// Returns the natural logarithm.
    log, Log;
    /// Returns the square root; its derivative at 0 is infinite.
    sqrt, Sqrt;
    /// Returns `1 / (1 + e^-x)`.
    sigmoid, Sigmoid;
    /// Returns `ln(1 + e^x)`, which is finite also where `e^x` overflows.
    softplus, Softplus;
    /// Returns `max(x, 0)`; its derivative at 0 is 1.
    relu, Relu;
    /// Returns the same value as a constant: no gradient flows back through it.
    stop_gradient, StopGradient;
    /// Returns the sine of an angle in radians.
    ///
    /// ```
    /// use pbg_plugin_sdk::operator::{Initial, formula::formula};
    /// let sine = formula(|x| vec![x.component(0) * x.parameter("angle", Initial::Angle).sin()]);
    /// assert_eq!(sine.apply(&[2.0], &[&[0.0]]), [0.0]);
    /// ```
    sin, Sin;
    /// Returns the cosine of an angle in radians.
    ///
    /// ```
    /// use pbg_plugin_sdk::operator::{Initial, formula::formula};
    /// let cosine = formula(|x| vec![x.component(0) * x.parameter("angle", Initial::Angle).cos()]);
    /// assert_eq!(cosine.apply(&[2.0], &[&[0.0]]), [2.0]);
    /// ```
    cos, Cos;
}

macro_rules! binary_methods {
    ($($(#[$doc:meta])* $name:ident, $op:ident;)*) => {
        impl<'t> Vector<'t> {
            $($(#[$doc])* #[must_use] pub fn $name<R: Operand<'t>>(self, right: R) -> Self {
                self.binary(Binary::$op, right)
            })*
        }
    };
}

binary_methods! {
    /// Returns `self` to the power of `right`.
    pow, Pow;
    /// Returns the smaller of both; on a tie the gradient goes to `self`.
    minimum, Min;
    /// Returns the larger of both; on a tie the gradient goes to `self`.
    maximum, Max;
    /// Returns 1 where `self` is less than `right`, 0 elsewhere.
    less, Less;
    /// Returns 1 where `self` is at most `right`, 0 elsewhere.
    less_equal, LessEqual;
    /// Returns 1 where `self` is greater than `right`, 0 elsewhere.
    greater, Greater;
    /// Returns 1 where `self` is at least `right`, 0 elsewhere.
    greater_equal, GreaterEqual;
    /// Returns 1 where both are equal, 0 elsewhere.
    equal, Equal;
    /// Returns 1 where both differ, 0 elsewhere.
    not_equal, NotEqual;
}

impl<'t> Vector<'t> {
    pub(super) fn id(self) -> u32 {
        self.id
    }

    fn binary<R: Operand<'t>>(self, op: Binary, right: R) -> Self {
        let right = right.id(self.trace);
        self.trace.push(Node::Binary(op, self.id, right))
    }

    /// Returns `then` where `self` is not 0, `otherwise` elsewhere; both are computed.
    ///
    /// ```
    /// use pbg_plugin_sdk::operator::{Initial, formula::formula};
    /// let p = Initial::One;
    /// let gate = formula(|x| {
    ///     let x0 = x.component(0);
    ///     vec![x0.greater(0.0).select(x0 * x.parameter("p", p), 0.0)]
    /// });
    /// assert_eq!(gate.apply(&[-1.0, 2.0], &[&[3.0, 3.0]]), [0.0, 6.0]);
    /// ```
    #[must_use]
    pub fn select(self, then: impl Operand<'t>, otherwise: impl Operand<'t>) -> Self {
        let (then, otherwise) = (then.id(self.trace), otherwise.id(self.trace));
        self.trace.push(Node::Select(self.id, then, otherwise))
    }

    /// Returns `min(max(x, low), high)`; the derivative is 1 from `low` to `high`, bounds included.
    ///
    /// ```
    /// use pbg_plugin_sdk::operator::{Initial, formula::formula};
    /// let p = Initial::One;
    /// let clamped = formula(|x| vec![(x.component(0) * x.parameter("p", p)).clamp(-1.0, 1.0)]);
    /// assert_eq!(clamped.apply(&[-3.0, 0.5], &[&[1.0, 1.0]]), [-1.0, 0.5]);
    /// ```
    #[must_use]
    pub fn clamp(self, low: impl Operand<'t>, high: impl Operand<'t>) -> Self {
        let (low, high) = (low.id(self.trace), high.id(self.trace));
        self.trace.push(Node::Clamp(self.id, low, high))
    }
}

impl Neg for Vector<'_> {
    type Output = Self;
    fn neg(self) -> Self {
        self.trace.push(Node::Unary(Unary::Neg, self.id))
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident $op:ident;)*) => {
        $(
            impl<'t, R: Operand<'t>> $trait<R> for Vector<'t> {
                type Output = Self;
                fn $method(self, right: R) -> Self {
                    self.binary(Binary::$op, right)
                }
            }

            impl<'t> $trait<Vector<'t>> for f32 {
                type Output = Vector<'t>;
                fn $method(self, right: Vector<'t>) -> Vector<'t> {
                    right.trace.push(Node::Constant(self)).binary(Binary::$op, right)
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

/// Returns the formula that a function builds, to test it.
///
/// ```
/// use pbg_plugin_sdk::operator::{Initial, formula::formula};
/// let shift = formula(|x| vec![x.component(0) + x.parameter("shift", Initial::Zero)]);
/// assert_eq!(shift.apply(&[1.0], &[&[2.0]]), [3.0]);
/// ```
pub fn formula(build: impl for<'t> FnOnce(Embedding<'t>) -> Vec<Vector<'t>>) -> Formula {
    let trace = Trace::default();
    let outputs = build(trace.embedding());
    let outputs: Vec<u32> = outputs.into_iter().map(Vector::id).collect();
    trace.finish(outputs)
}
