//! Compares the losses with the numbers of PBG's unit tests, and with plain arithmetic.

use pbg_core::strategy::{LossWorker, MASKED, ScoreBlock};
use pbg_kernels::losses::handwritten::HandwrittenLoss;
use pbg_reference::losses::{LossKind, row_loss};

const POSITIVES: [f32; 3] = [0.8181, 0.5700, 0.3506];
const NEGATIVES: [f32; 15] = [
    0.4437, 0.6573, 0.9986, 0.2548, 0.0998, //
    0.6175, 0.4061, 0.4582, 0.5382, 0.3126, //
    0.9869, 0.2028, 0.1667, 0.0044, 0.9934,
];

struct Evaluated {
    loss: Vec<f32>,
    positive_gradient: Vec<f32>,
    negative_gradient: Vec<f32>,
}

fn evaluate(loss: &mut dyn LossWorker, positives: &[f32], negatives: &[f32]) -> Evaluated {
    let rows = positives.len();
    let columns = negatives.len().checked_div(rows).unwrap_or(0);
    let mut negative_gradient = negatives.to_vec();
    let (mut positive_gradient, mut losses) = (vec![f32::NAN; rows], vec![f32::NAN; rows]);
    loss.evaluate(&mut ScoreBlock {
        positive: positives,
        negative: &mut negative_gradient,
        columns,
        positive_gradient: &mut positive_gradient,
        loss: &mut losses,
    })
    .expect("a native loss does not fail");
    Evaluated {
        loss: losses,
        positive_gradient,
        negative_gradient,
    }
}

fn all() -> [(Box<dyn LossWorker>, LossKind); 3] {
    [
        (Box::new(HandwrittenLoss::logistic()), LossKind::Logistic),
        (
            Box::new(HandwrittenLoss::ranking(1.0)),
            LossKind::Ranking(1.0),
        ),
        (Box::new(HandwrittenLoss::softmax()), LossKind::Softmax),
    ]
}

#[test]
fn values_of_pbgs_unit_tests() {
    let expected = [(4.2589, 0.8302), (13.4475, 2.4658), (5.2513, 0.9978)];
    for ((mut loss, kind), (plain, weighted)) in all().into_iter().zip(expected) {
        let found = evaluate(loss.as_mut(), &POSITIVES, &NEGATIVES).loss;
        assert!(
            (found.iter().sum::<f32>() - plain).abs() < 6e-5,
            "{kind:?}: {found:?}"
        );
        let sum: f32 = found.iter().zip([0.2, 0.4, 0.0]).map(|(l, w)| l * w).sum();
        assert!((sum - weighted).abs() < 6e-5, "{kind:?}: {sum}");
    }
}

#[test]
fn extreme_scores_stay_finite() {
    for (mut loss, kind) in all() {
        let found = evaluate(loss.as_mut(), &[1e9, -1e9], &[-1e9, 1e9, 1e9, -1e9]);
        let finite = |values: &[f32]| values.iter().all(|v| v.is_finite());
        assert!(
            finite(&found.loss) && finite(&found.positive_gradient),
            "{kind:?}"
        );
        assert!(finite(&found.negative_gradient), "{kind:?}");
    }
}

#[test]
fn no_negatives_and_no_positives() {
    let softplus = |x: f32| (1.0 + (-x).exp()).ln();
    for (mut loss, kind) in all() {
        let found = evaluate(loss.as_mut(), &POSITIVES, &[]);
        for (i, &s) in POSITIVES.iter().enumerate() {
            let (value, gradient) = match kind {
                LossKind::Logistic => (softplus(s), -1.0 / (1.0 + s.exp())),
                _ => (0.0, 0.0),
            };
            assert!((found.loss[i] - value).abs() < 1e-6, "{kind:?}");
            assert!(
                (found.positive_gradient[i] - gradient).abs() < 1e-6,
                "{kind:?}"
            );
        }
        assert!(evaluate(loss.as_mut(), &[], &[]).loss.is_empty());
    }
}

#[test]
fn a_score_that_is_not_a_number_shows_in_the_loss() {
    for (mut loss, kind) in all() {
        assert!(
            evaluate(loss.as_mut(), &[0.5], &[0.1, f32::NAN]).loss[0].is_nan(),
            "{kind:?}"
        );
        assert!(
            evaluate(loss.as_mut(), &[f32::NAN], &[0.1, 0.2]).loss[0].is_nan(),
            "{kind:?}"
        );
    }
}

/// Compares values and gradients of wide rows with f64 arithmetic; gradients with central differences.
#[test]
fn rows_agree_with_plain_arithmetic() {
    let negatives: Vec<f32> = (0..101)
        .map(|i| ((i * 37 % 101) as f32 - 50.0) / 7.0)
        .collect();
    let wide: Vec<f64> = negatives.iter().map(|&x| f64::from(x)).collect();
    for (mut loss, kind) in all() {
        for positive in [-9.03_f32, -0.51, 0.02, 3.3, 11.07] {
            let mut masked = negatives.clone();
            masked[17] = MASKED;
            let mut wide = wide.clone();
            wide[17] = f64::from(MASKED);
            let found = evaluate(loss.as_mut(), &[positive], &masked);
            let s = f64::from(positive);
            let value = row_loss(kind, s, &wide, wide.len());
            let close = |a: f32, b: f64, what: &str| {
                assert!(
                    (f64::from(a) - b).abs() <= 2e-6 + 1e-5 * b.abs(),
                    "{kind:?} {what}: {a} {b}"
                );
            };
            close(found.loss[0], value, "loss");
            let h = 1e-6;
            let slope = |p: &dyn Fn(f64) -> f64| (p(h) - p(-h)) / (2.0 * h);
            close(
                found.positive_gradient[0],
                slope(&|h| row_loss(kind, s + h, &wide, wide.len())),
                "positive",
            );
            for (j, &gradient) in found.negative_gradient.iter().enumerate() {
                let moved = |h: f64| {
                    let mut wide = wide.clone();
                    wide[j] += h;
                    row_loss(kind, s, &wide, wide.len())
                };
                close(gradient, slope(&moved), "negative");
            }
            assert_eq!(found.negative_gradient[17], 0.0, "{kind:?}");
        }
    }
}
