//! Methods over all negatives of a row.

use super::{Matrix, Row};
use crate::loss::graph::{Node, Reduction};

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

    /// The sum divided by [`Scores::columns`](super::Scores::columns); 0 where there are none.
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
