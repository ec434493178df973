//! Assertion of the contract of losses, for the tests of plugins.

use crate::loss::{ComputedLoss, Evaluation, Graph, MASKED, TracedLoss, evaluate, trace};
use crate::testing::defaults;

/// Returns test cases: scores of positives, scores of their negatives row by row, and number of columns. They have
/// ordinary, masked, equal and extreme scores, rows without negatives, and no rows.
fn cases() -> Vec<(Vec<f32>, Vec<f32>, usize)> {
    let wave = |n: usize, step: f32| (0..n).map(|i| (i as f32 * step).sin() * 2.0).collect();
    let mut masked: Vec<f32> = wave(12, 0.7);
    masked[1] = MASKED;
    masked[6] = MASKED;
    masked[7] = MASKED;
    vec![
        (wave(3, 1.3), wave(15, 0.9), 5),
        (wave(2, 0.4), masked, 6),
        (vec![0.5], vec![0.25], 1),
        (vec![0.3, 0.3], vec![0.3; 8], 4),
        (
            vec![1e9, -1e9, 0.0],
            vec![1e9, -1e8, 1e9, 1e9, -1e8, -1e8],
            2,
        ),
        (vec![0.5, -0.5], vec![], 0),
        (vec![0.5, -0.5], vec![MASKED; 6], 3),
        (vec![], vec![], 4),
    ]
}

/// Asserts the contract of a traced loss, configured with its defaults: losses and gradients are finite
/// for ordinary, extreme, equal and masked scores, and without negatives.
///
/// # Panics
/// If the contract is violated. The message has the problem and the scores.
///
/// ```
/// # use pbg_plugin_sdk::loss::formula::{Row, Scores};
/// # use pbg_plugin_sdk::{Metadata, Result, TracedLoss};
/// #[derive(Default)]
/// struct Softmax;
///
/// impl TracedLoss for Softmax {
///     fn metadata() -> Metadata { Metadata::new("softmax", "0.1.0", "Cross-entropy.") }
///     fn build<'t>(&self, s: Scores<'t>) -> Result<Row<'t>> {
///         Ok((s.negatives().logsumexp() - s.positive()).softplus())
///     }
/// }
///
/// pbg_plugin_sdk::testing::assert_traced_loss::<Softmax>();
/// ```
pub fn assert_traced_loss<L: TracedLoss>() {
    let graph = traced_with_defaults::<L>();
    for (positive, negative, columns) in cases() {
        let found = graph.evaluate(&positive, &negative, columns);
        assert_valid(&found, &positive, &negative);
    }
}

/// Returns the graph of a loss with default parameters, as the host gets it if the configuration sets none.
///
/// # Panics
/// If the loss refuses its own defaults.
///
/// ```
/// # use pbg_plugin_sdk::loss::formula::{Row, Scores};
/// # use pbg_plugin_sdk::{Metadata, Result, TracedLoss};
/// # #[derive(Default)]
/// # struct Mean;
/// # impl TracedLoss for Mean {
/// #     fn metadata() -> Metadata { Metadata::new("mean", "0.1.0", "") }
/// #     fn build<'t>(&self, s: Scores<'t>) -> Result<Row<'t>> { Ok(s.negatives().mean() - s.positive()) }
/// # }
/// let graph = pbg_plugin_sdk::testing::traced_with_defaults::<Mean>();
/// assert_eq!(graph.evaluate(&[1.0], &[3.0], 1).loss, [2.0]);
/// ```
#[must_use]
pub fn traced_with_defaults<L: TracedLoss>() -> Graph {
    let mut loss = L::default();
    let configured = loss.configure(&defaults(&L::metadata()));
    assert_eq!(configured, Ok(()), "the plugin refuses its own defaults");
    trace(&loss).unwrap_or_else(|refusal| panic!("the plugin refuses to build: {refusal}"))
}

/// Asserts the contract of a computed loss, configured with its defaults: that of
/// [`assert_traced_loss`]; in addition, gradients agree with [finite differences](assert_gradient),
/// and the result of a row does not depend on the other rows.
///
/// # Panics
/// If the contract is violated. The message has the problem and the scores.
///
/// ```
/// # use pbg_plugin_sdk::loss::{RowResult, ScoreRow};
/// # use pbg_plugin_sdk::{ComputedLoss, Metadata, Result};
/// #[derive(Default)]
/// struct Sum;
///
/// impl ComputedLoss for Sum {
///     fn metadata() -> Metadata { Metadata::new("sum", "0.1.0", "Sum of the negatives.") }
///     fn row(&self, row: ScoreRow<'_>) -> Result<RowResult> {
///         let loss = row.negatives.iter().sum::<f32>() - row.positive;
///         row.negatives.fill(1.0);
///         Ok(RowResult { loss, positive_gradient: -1.0 })
///     }
/// }
///
/// pbg_plugin_sdk::testing::assert_computed_loss::<Sum>();
/// ```
pub fn assert_computed_loss<L: ComputedLoss>() {
    let loss = computed_with_defaults::<L>();
    let run = |positive: &[f32], negative: &[f32], columns| {
        evaluate(&loss, positive, negative.to_vec(), columns)
            .unwrap_or_else(|refusal| panic!("the plugin refuses {positive:?}: {refusal}"))
    };
    for (positive, negative, columns) in cases() {
        let all = run(&positive, &negative, columns);
        assert_valid(&all, &positive, &negative);
        for (i, &score) in positive.iter().enumerate() {
            let range = i * columns..(i + 1) * columns;
            let alone = run(&[score], &negative[range.clone()], columns);
            let same = alone.loss[0] == all.loss[i]
                && alone.positive_gradient[0] == all.positive_gradient[i]
                && alone.negative_gradient == all.negative_gradient[range];
            assert!(same, "row {i} of {positive:?} depends on the other rows");
        }
        let moderate = |x: &f32| x.abs() < 1e3 || *x == MASKED;
        if positive.iter().chain(&negative).all(moderate) {
            assert_gradient(&positive, &negative, columns, run);
        }
    }
}

/// Creates a computed loss with default parameters, as the host does if the configuration sets none.
///
/// # Panics
/// If the loss refuses its own defaults.
///
/// ```
/// # use pbg_plugin_sdk::loss::{RowResult, ScoreRow};
/// # use pbg_plugin_sdk::{ComputedLoss, Metadata, Result};
/// # #[derive(Default)]
/// # struct Nothing;
/// # impl ComputedLoss for Nothing {
/// #     fn metadata() -> Metadata { Metadata::new("nothing", "0.1.0", "") }
/// #     fn row(&self, row: ScoreRow<'_>) -> Result<RowResult> {
/// #         row.negatives.fill(0.0);
/// #         Ok(RowResult::default())
/// #     }
/// # }
/// let loss = pbg_plugin_sdk::testing::computed_with_defaults::<Nothing>();
/// let found = pbg_plugin_sdk::loss::evaluate(&loss, &[1.0], vec![2.0], 1).unwrap();
/// assert_eq!(found.loss, [0.0]);
/// ```
#[must_use]
pub fn computed_with_defaults<L: ComputedLoss>() -> L {
    let mut loss = L::default();
    let configured = loss.configure(&defaults(&L::metadata()));
    assert_eq!(configured, Ok(()), "the plugin refuses its own defaults");
    loss
}

/// Asserts that gradients agree with central differences, within 1 % of the largest gradient of the
/// row (at least 0.1) and the rounding error of the loss. Near a kink, where the left and the right
/// difference disagree, nothing is asserted.
///
/// # Panics
/// If a gradient disagrees. The message has the score and both derivatives.
///
/// ```
/// let graph = pbg_plugin_sdk::loss::formula::graph(|s| (s.negatives() - s.positive()).sum());
/// pbg_plugin_sdk::testing::assert_gradient(&[0.5], &[1.0, 2.0], 2, |positive, negative, columns| {
///     graph.evaluate(positive, negative, columns)
/// });
/// ```
pub fn assert_gradient(
    positive: &[f32],
    negative: &[f32],
    columns: usize,
    run: impl Fn(&[f32], &[f32], usize) -> Evaluation,
) {
    let found = run(positive, negative, columns);
    for (i, &own) in positive.iter().enumerate() {
        let row = i * columns..(i + 1) * columns;
        let loss = |moved: Option<usize>, h: f32| {
            let (mut score, mut row) = ([own], negative[row.clone()].to_vec());
            match moved {
                Some(j) => row[j] += h,
                None => score[0] += h,
            }
            f64::from(run(&score, &row, columns).loss[0])
        };
        let largest = found.negative_gradient[row.clone()]
            .iter()
            .chain([&found.positive_gradient[i], &0.1])
            .fold(0.0_f32, |a, g| a.max(g.abs()));
        let check = |moved: Option<usize>, gradient: f32| {
            let h = 1.0 / 128.0;
            let (up, here, down) = (loss(moved, h), loss(moved, 0.0), loss(moved, -h));
            let [right, left] = [(up - here) / f64::from(h), (here - down) / f64::from(h)];
            // The rounding error of the loss, 1e-6 of it, is divided by h.
            let tolerance = 0.01 * f64::from(largest) + 128.0 * 1e-6 * here.abs();
            let smooth = (right - left).abs() < 0.1 * f64::from(largest);
            let difference = (right + left) / 2.0;
            assert!(
                !smooth || (difference - f64::from(gradient)).abs() <= tolerance,
                "row {i}, {}: the gradient is {gradient}, finite differences give {difference}",
                moved.map_or("positive".to_owned(), |j| format!("negative {j}"))
            );
        };
        check(None, found.positive_gradient[i]);
        for j in (0..columns).filter(|&j| negative[row.start + j] != MASKED) {
            check(Some(j), found.negative_gradient[row.start + j]);
        }
    }
}

/// Asserts that an evaluation has one loss and gradient for each score, that all of them are finite, and that masked
/// negatives have gradient 0.
fn assert_valid(found: &Evaluation, positive: &[f32], negative: &[f32]) {
    let rows = format!("for the positives {positive:?} and the negatives {negative:?}: {found:?}");
    assert_eq!(found.loss.len(), positive.len(), "number of losses {rows}");
    assert_eq!(
        found.positive_gradient.len(),
        positive.len(),
        "number of gradients of positives {rows}"
    );
    assert_eq!(
        found.negative_gradient.len(),
        negative.len(),
        "number of gradients of negatives {rows}"
    );
    let all = [
        &found.loss,
        &found.positive_gradient,
        &found.negative_gradient,
    ];
    let finite = all.into_iter().flatten().all(|value| value.is_finite());
    assert!(finite, "a loss or gradient is not finite {rows}");
    let masked = negative.iter().zip(&found.negative_gradient);
    let zero = masked
        .filter(|&(&s, _)| s == MASKED)
        .all(|(_, &g)| g == 0.0);
    assert!(zero, "the gradient of a masked negative is not 0 {rows}");
}
