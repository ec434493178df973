//! Methods of expressions that combine all negatives of a row.

use super::{Matrix, Row};
use crate::loss::{Node, Reduction};

impl<'t> Matrix<'t> {
    fn reduce(self, op: Reduction) -> Row<'t> {
        self.trace.push(Node::Reduce(op, self.id))
    }

    /// Returns the sum over the negatives.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.negatives().sum(), 0.0, &[1.0, 2.0]);
    /// assert_eq!((found.loss, found.negative), (3.0, vec![1.0, 1.0]));
    /// ```
    #[must_use]
    pub fn sum(self) -> Row<'t> {
        self.reduce(Reduction::Sum)
    }

    /// Returns the sum divided by [`Scores::columns`](super::Scores::columns); 0 without negatives.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.negatives().mean(), 0.0, &[1.0, 2.0]);
    /// assert_eq!((found.loss, found.negative), (1.5, vec![0.5, 0.5]));
    /// ```
    #[must_use]
    pub fn mean(self) -> Row<'t> {
        self.reduce(Reduction::Mean)
    }

    /// Returns the largest value; negative infinity without negatives. On a tie, the largest
    /// negatives share the gradient equally.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.negatives().max(), 0.0, &[1.0, 2.0]);
    /// assert_eq!((found.loss, found.negative), (2.0, vec![0.0, 1.0]));
    /// ```
    #[must_use]
    pub fn max(self) -> Row<'t> {
        self.reduce(Reduction::Max)
    }

    /// Returns the smallest value; infinity without negatives.
    ///
    /// ```
    /// let found = pbg_plugin_sdk::loss::formula::row(|s| s.negatives().min(), 0.0, &[1.0, 2.0]);
    /// assert_eq!((found.loss, found.negative), (1.0, vec![1.0, 0.0]));
    /// ```
    #[must_use]
    pub fn min(self) -> Row<'t> {
        -(-self).max()
    }

    /// Returns `ln(sum(e^x))`, without overflow; negative infinity without negatives.
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

    /// Returns `e^x` divided by the row's sum of `e^x`: weights with the sum 1.
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
