//! Expressions on vectors: operators and functions that record a formula instead of computing it.
//!
//! A [`Vector`] is a component of the embedding, a parameter of the relation, or the result of an elementwise
//! operation: the [methods](crate::loss::formula::Expr) and the operators `+ - * /` of all expressions, also with
//! numbers. Only [`sum`](Vector::sum) and [`dot`](Vector::dot) mix elements. There is no control flow that depends on
//! values: [`select`](crate::loss::formula::Expr::select) computes both sides and selects one.
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

use super::{Formula, Initial, Node, Unary, VectorParameter};
use crate::loss::formula::shape::PerElement;
use crate::loss::formula::{self as expressions, Expr};

/// Recorder of a formula.
#[derive(Debug, Default)]
pub struct Trace {
    nodes: expressions::Trace,
    parameters: RefCell<Vec<VectorParameter>>,
}

impl Trace {
    pub(super) fn embedding(&self) -> Embedding<'_> {
        Embedding { trace: self }
    }

    pub(super) fn finish(self, outputs: Vec<u32>, lhs_outputs: Vec<u32>) -> Formula {
        Formula {
            name: String::new(),
            components: outputs.len() as u32,
            parameters: self.parameters.into_inner(),
            nodes: self.nodes.finish(0).nodes,
            outputs,
            lhs_outputs,
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
        self.trace.nodes.push_once(Node::Component(index))
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
            let mut parameters = self.trace.parameters.borrow_mut();
            let known = parameters.iter().position(|p| p.name == name);
            known.unwrap_or_else(|| {
                let name = name.to_owned();
                parameters.push(VectorParameter { name, initial });
                parameters.len() - 1
            })
        };
        self.trace.nodes.push_once(Node::Parameter(index as u32))
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
        self.trace.nodes.push(Node::Constant(value))
    }
}

/// A value of a formula: one number per element.
///
/// ```
/// use pbg_plugin_sdk::operator::{Initial, formula::formula};
/// let half = formula(|x| vec![0.5 * x.component(0) + x.parameter("shift", Initial::Zero) - 1.0]);
/// assert_eq!(half.apply(&[4.0], &[&[0.25]]), [1.25]);
///
/// // The other operand of a method is a number or a vector.
/// let p = Initial::One;
/// let both = formula(|x| vec![x.component(0).minimum(2.0).minimum(x.parameter("p", p))]);
/// assert_eq!(both.apply(&[3.0, 3.0], &[&[1.0, 5.0]]), [1.0, 2.0]);
///
/// let gate = formula(|x| {
///     let x0 = x.component(0);
///     vec![x0.greater(0.0).select(x0 * x.parameter("p", p), 0.0)]
/// });
/// assert_eq!(gate.apply(&[-1.0, 2.0], &[&[3.0, 3.0]]), [0.0, 6.0]);
///
/// let clamped = formula(|x| vec![(x.component(0) * x.parameter("p", p)).clamp(-1.0, 1.0)]);
/// assert_eq!(clamped.apply(&[-3.0, 0.5], &[&[1.0, 1.0]]), [-1.0, 0.5]);
/// ```
///
/// It has no number while the formula is built, so it cannot be compared, and `if` on it does not compile:
///
/// ```compile_fail,E0369
/// use pbg_plugin_sdk::operator::formula::formula;
/// formula(|x| vec![if x.component(0) > x.component(0) { x.component(0) } else { -x.component(0) }]);
/// ```
pub type Vector<'t> = Expr<'t, PerElement>;

/// Functions that only operators and comparators have: of angles, and sums over the elements of a vector.
impl Vector<'_> {
    /// Returns the sum over all elements of the vector, in every element. The sum over an embedding of several
    /// components is the sum of their sums.
    ///
    /// ```
    /// use pbg_plugin_sdk::operator::{Initial, formula::formula};
    /// let p = Initial::One;
    /// let share = formula(|x| {
    ///     let x0 = x.component(0) * x.parameter("p", p);
    ///     vec![x0 / x0.sum()]
    /// });
    /// assert_eq!(share.apply(&[1.0, 3.0], &[&[1.0, 1.0]]), [0.25, 0.75]);
    /// ```
    #[must_use]
    pub fn sum(self) -> Self {
        self.summed()
    }

    /// Returns the inner product with another vector, in every element.
    ///
    /// ```
    /// use pbg_plugin_sdk::operator::{Initial, formula::formula};
    /// // The embedding without the part along `w` (TransH, for `w` of length 1).
    /// let projection = formula(|x| {
    ///     let (x, w) = (x.component(0), x.parameter("w", Initial::Normal(0.1)));
    ///     vec![x - w * w.dot(x)]
    /// });
    /// assert_eq!(projection.apply(&[1.0, 3.0], &[&[0.0, 1.0]]), [1.0, 0.0]);
    /// ```
    #[must_use]
    pub fn dot(self, other: Self) -> Self {
        (self * other).sum()
    }

    /// Returns the sine of an angle in radians.
    ///
    /// ```
    /// use pbg_plugin_sdk::operator::{Initial, formula::formula};
    /// let sine = formula(|x| vec![x.component(0) * x.parameter("angle", Initial::Angle).sin()]);
    /// assert_eq!(sine.apply(&[2.0], &[&[0.0]]), [0.0]);
    /// ```
    #[must_use]
    pub fn sin(self) -> Self {
        self.unary(Unary::Sin)
    }

    /// Returns the cosine of an angle in radians.
    ///
    /// ```
    /// use pbg_plugin_sdk::operator::{Initial, formula::formula};
    /// let cosine = formula(|x| vec![x.component(0) * x.parameter("angle", Initial::Angle).cos()]);
    /// assert_eq!(cosine.apply(&[2.0], &[&[0.0]]), [2.0]);
    /// ```
    #[must_use]
    pub fn cos(self) -> Self {
        self.unary(Unary::Cos)
    }
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
    trace.finish(outputs, Vec::new())
}
