//! Expressions on the two embeddings of a pair, which record a formula instead of computing it.
//!
//! The values are those of [operators](crate::operator::formula): a [`Vector`] is a component of an embedding or the
//! result of an operation. [`sum`](Vector::sum) and [`dot`](Vector::dot) return one number, which may be used in further
//! operations, elementwise ones too. A score is one number.
//!
//! ```
//! use pbg_plugin_sdk::comparator::formula::formula;
//!
//! // Minus the sum of the moduli of complex differences (RotatE).
//! let moduli = formula(2, |left, right| {
//!     let ([a, b], [c, d]) = (left.components(), right.components());
//!     let (re, im) = (a - c, b - d);
//!     -(re * re + im * im).maximum(1e-30).sqrt().sum()
//! });
//! assert_eq!(moduli.compare(&[3.0, 0.0, 4.0, 0.0], &[0.0, 0.0, 0.0, 1.0]), -6.0);
//! ```

use super::Formula;
use crate::loss::formula as expressions;
use crate::operator::Node;

pub use crate::operator::formula::Vector;

/// Recorder of a formula.
#[derive(Debug)]
pub struct PairTrace {
    nodes: expressions::Trace,
    components: u32,
}

impl PairTrace {
    pub(super) fn new(components: u32) -> Self {
        Self {
            nodes: expressions::Trace::default(),
            components,
        }
    }

    /// Returns the left and the right embedding.
    pub(super) fn embeddings(&self) -> [ComparedEmbedding<'_>; 2] {
        [0, self.components].map(|first| ComparedEmbedding { trace: self, first })
    }

    pub(super) fn finish(self, score: u32) -> Formula {
        Formula {
            name: String::new(),
            components: self.components,
            nodes: self.nodes.finish(score).nodes,
            score,
        }
    }
}

/// One of the two embeddings that are compared.
///
/// ```
/// use pbg_plugin_sdk::comparator::formula::formula;
/// let dot = formula(1, |left, right| left.component(0).dot(right.component(0)));
/// assert_eq!(dot.compare(&[1.0, 2.0], &[3.0, 4.0]), 11.0);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct ComparedEmbedding<'t> {
    trace: &'t PairTrace,
    /// Index of its first component among those of both embeddings.
    first: u32,
}

impl<'t> ComparedEmbedding<'t> {
    /// Returns the component with this index, counted from 0.
    ///
    /// # Panics
    /// If there is no such component.
    ///
    /// ```
    /// use pbg_plugin_sdk::comparator::formula::formula;
    /// let crossed = formula(2, |left, right| left.component(0).dot(right.component(1)));
    /// assert_eq!(crossed.compare(&[2.0, 3.0], &[5.0, 7.0]), 14.0);
    /// ```
    #[must_use]
    pub fn component(self, index: u32) -> Vector<'t> {
        let components = self.trace.components;
        assert!(
            index < components,
            "there is no component {index}: embeddings have {components} components"
        );
        self.trace
            .nodes
            .push_once(Node::Component(self.first + index))
    }

    /// Returns the first `N` components; `N` follows from the pattern that they are assigned to.
    ///
    /// # Panics
    /// If there are fewer.
    ///
    /// ```
    /// use pbg_plugin_sdk::comparator::formula::formula;
    /// // The real part of a complex inner product (ComplEx).
    /// let real = formula(2, |left, right| {
    ///     let ([a, b], [c, d]) = (left.components(), right.components());
    ///     a.dot(c) + b.dot(d)
    /// });
    /// assert_eq!(real.compare(&[1.0, 2.0], &[3.0, 4.0]), 11.0);
    /// ```
    #[must_use]
    pub fn components<const N: usize>(self) -> [Vector<'t>; N] {
        std::array::from_fn(|index| self.component(index as u32))
    }

    /// Returns a constant.
    ///
    /// ```
    /// use pbg_plugin_sdk::comparator::formula::formula;
    /// let bounded = formula(1, |left, right| {
    ///     left.component(0).dot(right.component(0)).minimum(left.constant(1.0))
    /// });
    /// assert_eq!(bounded.compare(&[2.0], &[3.0]), 1.0);
    /// ```
    #[must_use]
    pub fn constant(self, value: f32) -> Vector<'t> {
        self.trace.nodes.push(Node::Constant(value))
    }
}

/// Returns the formula that a function builds of the left and the right embedding, to test it.
///
/// ```
/// use pbg_plugin_sdk::comparator::formula::formula;
/// let l1 = formula(1, |left, right| -(left.component(0) - right.component(0)).abs().sum());
/// assert_eq!(l1.compare(&[1.0, 2.0], &[0.0, 4.0]), -3.0);
/// ```
pub fn formula(
    components: u32,
    build: impl for<'t> FnOnce(ComparedEmbedding<'t>, ComparedEmbedding<'t>) -> Vector<'t>,
) -> Formula {
    let trace = PairTrace::new(components);
    let [left, right] = trace.embeddings();
    let score = build(left, right).id();
    trace.finish(score)
}
