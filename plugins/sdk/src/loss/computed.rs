//! Losses as code.

use super::{Evaluation, MASKED};
use crate::{Metadata, Parameters, Result};

/// A loss as code, evaluated row by row, for losses that no [formula](super::formula) can express.
///
/// Every score crosses the sandbox boundary twice, and vector registers are narrower in the sandbox,
/// so it is slower than a formula; the functions of [`simd`](crate::simd) make up for part of that.
///
/// ```
/// use pbg_plugin_sdk::loss::{RowResult, ScoreRow};
/// use pbg_plugin_sdk::{ComputedLoss, Metadata, Result, export_computed_loss};
///
/// /// The three hardest negatives: formulas have no operation for sorting.
/// #[derive(Default)]
/// struct Hardest;
///
/// impl ComputedLoss for Hardest {
///     fn metadata() -> Metadata {
///         Metadata::new("hardest", "0.1.0", "Hinge loss of the three hardest negatives.")
///     }
///
///     fn row(&self, row: ScoreRow<'_>) -> Result<RowResult> {
///         let mut order: Vec<usize> = (0..row.negatives.len()).collect();
///         order.sort_by(|&a, &b| row.negatives[b].total_cmp(&row.negatives[a]));
///         let mut result = RowResult::default();
///         let scores = row.negatives.to_vec();
///         row.negatives.fill(0.0);
///         for &hard in order.iter().take(3) {
///             let excess = 1.0 - row.positive + scores[hard];
///             if excess > 0.0 {
///                 result.loss += excess;
///                 result.positive_gradient -= 1.0;
///                 row.negatives[hard] = 1.0;
///             }
///         }
///         Ok(result)
///     }
/// }
///
/// export_computed_loss!(Hardest);
///
/// # fn main() {
/// // The same type runs natively: test and debug it without a sandbox.
/// let found = pbg_plugin_sdk::loss::evaluate(&Hardest, &[1.0], vec![0.5, 0.0, 0.1, 0.2], 4).unwrap();
/// assert_eq!(found.negative_gradient, [1.0, 0.0, 1.0, 1.0]);
/// # pbg_plugin_sdk::testing::assert_computed_loss::<Hardest>();
/// # }
/// ```
pub trait ComputedLoss: Default + 'static {
    /// Name, version, summary and parameters.
    fn metadata() -> Metadata;

    /// Receives all parameters of the configuration, already checked against
    /// [`ComputedLoss::metadata`]; see [`Order::configure`](crate::Order::configure). The default
    /// implementation ignores them.
    ///
    /// # Errors
    /// If a combination of values makes no sense; the text is shown to the user.
    fn configure(&mut self, parameters: &Parameters) -> Result<()> {
        let _ = parameters;
        Ok(())
    }

    /// Computes loss and gradient of one row. The result must depend only on the arguments and the
    /// configuration, since the host distributes the rows of a batch over several instances.
    ///
    /// # Errors
    /// If the loss cannot be computed; the text is shown to the user.
    fn row(&self, row: ScoreRow<'_>) -> Result<RowResult>;
}

/// Scores of one row.
///
/// ```
/// use pbg_plugin_sdk::loss::ScoreRow;
/// let row = ScoreRow { positive: 1.0, negatives: &mut [0.5, 0.2], columns: 3 };
/// assert!(row.negatives.len() <= row.columns);
/// ```
#[derive(Debug, PartialEq)]
pub struct ScoreRow<'a> {
    /// Score of the positive.
    pub positive: f32,
    /// Scores of its negatives, without masked ones and in no particular order. The loss must
    /// overwrite each score with its gradient.
    pub negatives: &'a mut [f32],
    /// Number of negatives, masked ones included.
    pub columns: usize,
}

/// Loss and gradient of one row.
///
/// ```
/// use pbg_plugin_sdk::loss::RowResult;
/// assert_eq!(RowResult::default(), RowResult { loss: 0.0, positive_gradient: 0.0 });
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RowResult {
    /// The loss.
    pub loss: f32,
    /// Derivative with respect to the positive's score.
    pub positive_gradient: f32,
}

/// Computes loss and gradients of several rows, as the host requests them: `negative` has `columns`
/// scores per positive, row by row, masked ones as [`MASKED`].
///
/// # Errors
/// If [`ComputedLoss::row`] fails, or if the lengths do not match.
///
/// ```
/// # use pbg_plugin_sdk::loss::{RowResult, ScoreRow, evaluate};
/// # use pbg_plugin_sdk::{ComputedLoss, Metadata, Result};
/// # #[derive(Default)]
/// # struct Mean;
/// # impl ComputedLoss for Mean {
/// #     fn metadata() -> Metadata { Metadata::new("mean", "0.1.0", "") }
/// #     fn row(&self, row: ScoreRow<'_>) -> Result<RowResult> {
/// #         let loss = row.negatives.iter().sum::<f32>() - row.positive;
/// #         row.negatives.fill(1.0);
/// #         Ok(RowResult { loss, positive_gradient: -1.0 })
/// #     }
/// # }
/// // The masked negative gets no gradient, and the order of the others is kept.
/// let found = evaluate(&Mean, &[1.0], vec![-1e9, 2.0, 3.0], 3).unwrap();
/// assert_eq!(found.negative_gradient, [0.0, 1.0, 1.0]);
/// assert_eq!(found.loss, [4.0]);
/// ```
pub fn evaluate<L: ComputedLoss>(
    loss: &L,
    positive: &[f32],
    mut negative: Vec<f32>,
    columns: usize,
) -> Result<Evaluation> {
    let rows = positive.len();
    if negative.len() != rows * columns {
        let found = negative.len();
        return Err(format!(
            "expected {rows} rows of {columns} negatives, got {found} negatives"
        ));
    }
    let mut found = Evaluation {
        loss: Vec::with_capacity(rows),
        positive_gradient: Vec::with_capacity(rows),
        negative_gradient: Vec::new(),
    };
    let mut moved = Vec::new();
    for (i, &positive) in positive.iter().enumerate() {
        let row = &mut negative[i * columns..(i + 1) * columns];
        let present = set_masked_aside(row, &mut moved);
        let result = loss.row(ScoreRow {
            positive,
            negatives: &mut row[..present],
            columns,
        })?;
        put_back(row, present, &moved);
        found.loss.push(result.loss);
        found.positive_gradient.push(result.positive_gradient);
    }
    found.negative_gradient = negative;
    Ok(found)
}

/// Moves masked scores to the end of a row. Returns the number of unmasked scores; `moved` gets the
/// former indices of the masked ones.
fn set_masked_aside(row: &mut [f32], moved: &mut Vec<usize>) -> usize {
    moved.clear();
    let mut present = row.len();
    let mut at = 0;
    while at < present {
        // Fast path: most stretches have no masked score.
        let stretch = &row[at..present.min(at + 64)];
        if !stretch.iter().fold(false, |any, &s| any | (s == MASKED)) {
            at += stretch.len();
        } else if row[at] == MASKED {
            present -= 1;
            row.swap(at, present);
            moved.push(at);
        } else {
            at += 1;
        }
    }
    present
}

/// Reverses [`set_masked_aside`], with a gradient of 0 for each masked negative.
fn put_back(row: &mut [f32], mut present: usize, moved: &[usize]) {
    row[present..].fill(0.0);
    for &place in moved.iter().rev() {
        row.swap(place, present);
        present += 1;
    }
}

/// Exports a [`ComputedLoss`] as the component of this crate; see
/// [`export_order!`](crate::export_order).
///
/// ```
/// # use pbg_plugin_sdk::loss::{RowResult, ScoreRow};
/// # use pbg_plugin_sdk::{ComputedLoss, Metadata, Result};
/// #[derive(Default)]
/// struct Nothing;
///
/// impl ComputedLoss for Nothing {
///     fn metadata() -> Metadata { Metadata::new("nothing", "0.1.0", "Costs nothing.") }
///     fn row(&self, row: ScoreRow<'_>) -> Result<RowResult> {
///         row.negatives.fill(0.0);
///         Ok(RowResult::default())
///     }
/// }
///
/// pbg_plugin_sdk::export_computed_loss!(Nothing);
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! export_computed_loss {
    ($loss:ty) => {
        const _: fn() -> $crate::Metadata = <$loss as $crate::ComputedLoss>::metadata;

        #[cfg(target_family = "wasm")]
        const _: () = {
            $crate::__computed_loss_component!($loss);
        };
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn masked_scores_are_set_aside_and_come_back(
            row in prop::collection::vec(prop_oneof![3 => 0.0_f32..9.0, 1 => Just(MASKED)], 0..200),
        ) {
            let (mut moved, mut work) = (Vec::new(), row.clone());
            let present = set_masked_aside(&mut work, &mut moved);
            prop_assert!(work[..present].iter().all(|&s| s != MASKED));
            prop_assert!(work[present..].iter().all(|&s| s == MASKED));
            put_back(&mut work, present, &moved);
            let expected: Vec<f32> =
                row.iter().map(|&s| if s == MASKED { 0.0 } else { s }).collect();
            prop_assert_eq!(work, expected);
        }
    }
}
