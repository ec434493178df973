//! Expressions on vectors: ordinary operators and functions, which write down what they are told.
//!
//! A [`Vector`] is a component of the embedding, a parameter of the relation, or made of those, element by
//! element. There is no operation that mixes elements, and no way to look at a value and decide what to compute
//! next: [`Vector::select`] computes both sides and takes one.
//!
//! ```
//! use pbg_plugin_sdk::operator::{Initial, formula::formula};
//!
//! // Complex numbers, turned by an angle of the relation's (RotatE).
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

use super::graph::{Formula, Initial, Node, Unary, VectorParameter};
use crate::loss::Binary;

/// Where a formula is written down.
#[derive(Debug, Default)]
pub struct Trace(RefCell<Formula>);

impl Trace {
    fn push(&self, node: Node) -> Vector<'_> {
        let mut formula = self.0.borrow_mut();
        // Components and parameters are there once, however often one asks for them.
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

/// What a formula starts from.
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
    /// The component with this index, counted from 0.
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

    /// All components, as many as the pattern on the left asks for.
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

    /// A vector of the relation's own, as long as a component; the same one for the same name.
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

    /// A number, the same in all elements.
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

/// A value of a formula; the functions below and the operators `+ - * /` make new ones, together
/// with numbers where one likes.
///
/// ```
/// use pbg_plugin_sdk::operator::{Initial, formula::formula};
/// let half = formula(|x| vec![0.5 * x.component(0) + x.parameter("shift", Initial::Zero) - 1.0]);
/// assert_eq!(half.apply(&[4.0], &[&[0.25]]), [1.25]);
/// ```
///
/// It has no number while the formula is written down, so it cannot be compared, and `if` on it does not compile:
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
    /// The distance from 0; its derivative at 0 is 0.
    abs, Abs;
    /// `e^x`
    exp, Exp;
    /// Natural logarithm.
    log, Log;
    /// Square root; its derivative at 0 is infinite.
    sqrt, Sqrt;
    /// `1 / (1 + e^-x)`
    sigmoid, Sigmoid;
    /// `ln(1 + e^x)`, also where `e^x` overflows.
    softplus, Softplus;
    /// `max(x, 0)`; its derivative at 0 is 1.
    relu, Relu;
    /// The same value, through which no gradient flows back.
    stop_gradient, StopGradient;
    /// Sine of an angle in radians.
    ///
    /// ```
    /// use pbg_plugin_sdk::operator::{Initial, formula::formula};
    /// let sine = formula(|x| vec![x.component(0) * x.parameter("angle", Initial::Angle).sin()]);
    /// assert_eq!(sine.apply(&[2.0], &[&[0.0]]), [0.0]);
    /// ```
    sin, Sin;
    /// Cosine of an angle in radians.
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
    /// The power with this exponent.
    pow, Pow;
    /// The smaller one; on a tie the gradient goes to `self`.
    minimum, Min;
    /// The larger one; on a tie the gradient goes to `self`.
    maximum, Max;
    /// 1 where `self` is less, 0 elsewhere.
    less, Less;
    /// 1 where `self` is less or equal, 0 elsewhere.
    less_equal, LessEqual;
    /// 1 where `self` is greater, 0 elsewhere.
    greater, Greater;
    /// 1 where `self` is greater or equal, 0 elsewhere.
    greater_equal, GreaterEqual;
    /// 1 where both are equal, 0 elsewhere.
    equal, Equal;
    /// 1 where they differ, 0 elsewhere.
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

    /// `then` where `self` is not 0, `otherwise` elsewhere; both are computed.
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

    /// `min(max(x, low), high)`; the derivative is 1 from `low` to `high`, bounds included.
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

/// The formula that a function writes down: to try one out.
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
