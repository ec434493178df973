//! Handwritten ranking, logistic and softmax losses, with which tests and benchmarks compare graphs. No run trains with
//! them.
//!
//! Each loss works on one row of scores after the other, in place: it reads the row's negatives two or three times
//! while they are in the first-level cache, and overwrites them with gradients.

use pbg_core::strategy::{Loss, LossWorker, ScoreBlock, StrategyError, StrategyId};
use pbg_rows::vector;

use crate::losses::maths::{self, exp_in_place, sigmoid_and_softplus_in_place};

/// A handwritten loss.
#[derive(Clone, Debug)]
pub struct HandwrittenLoss {
    id: StrategyId,
    kind: LossKind,
}

#[derive(Clone, Copy, Debug)]
enum LossKind {
    /// The margin by which positives must score above negatives.
    Ranking(f32),
    Logistic,
    Softmax,
}

impl HandwrittenLoss {
    fn new(name: &str, kind: LossKind) -> Self {
        let id = StrategyId {
            name: name.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            sha256: String::new(),
        };
        Self { id, kind }
    }

    /// Creates the ranking loss: the sum over the negatives of `max(0, margin - positive + negative)`.
    #[must_use]
    pub fn ranking(margin: f32) -> Self {
        Self::new("ranking", LossKind::Ranking(margin))
    }

    /// Creates the logistic loss: `softplus(-positive)` plus the mean over the negatives of `softplus(negative)`.
    #[must_use]
    pub fn logistic() -> Self {
        Self::new("logistic", LossKind::Logistic)
    }

    /// Creates the softmax loss: the cross-entropy of the positive among itself and its negatives.
    #[must_use]
    pub fn softmax() -> Self {
        Self::new("softmax", LossKind::Softmax)
    }
}

impl Loss for HandwrittenLoss {
    fn id(&self) -> &StrategyId {
        &self.id
    }

    fn worker(&self) -> Box<dyn LossWorker> {
        Box::new(self.clone())
    }
}

impl LossWorker for HandwrittenLoss {
    fn evaluate(&mut self, scores: &mut ScoreBlock<'_>) -> Result<(), StrategyError> {
        match self.kind {
            LossKind::Ranking(margin) => for_each_row(scores, |row, s| {
                let (sum, violations) = maths::hinge(row, margin - s);
                (sum, -violations)
            }),
            LossKind::Logistic => {
                let share = match scores.columns {
                    0 => 0.0,
                    columns => 1.0 / columns as f32,
                };
                for_each_row(scores, |row, s| {
                    let negatives = sigmoid_and_softplus_in_place(row, share);
                    let mut minus_s = [-s];
                    let positive = sigmoid_and_softplus_in_place(&mut minus_s, 1.0);
                    (positive + share * negatives, -minus_s[0])
                })
            }
            LossKind::Softmax => for_each_row(scores, |row, s| {
                let largest = vector::max(row).max(s);
                let negatives = exp_in_place(row, largest);
                let own = (s - largest).exp();
                let total = own + negatives;
                vector::scale(row, 1.0 / total);
                // Equal to own / total - 1, which would be inexact if the positive has nearly all of the probability.
                (largest - s + total.ln(), -negatives / total)
            }),
        }
        Ok(())
    }
}

/// Calls `row` with the negatives of each positive and its score, and stores the loss and the gradient that it returns.
/// The slice of negatives is empty if there are no columns.
fn for_each_row(scores: &mut ScoreBlock<'_>, mut row: impl FnMut(&mut [f32], f32) -> (f32, f32)) {
    let columns = scores.columns;
    let results = scores.positive_gradient.iter_mut().zip(&mut *scores.loss);
    for (i, (&s, (gradient, loss))) in scores.positive.iter().zip(results).enumerate() {
        (*loss, *gradient) = row(&mut scores.negative[i * columns..(i + 1) * columns], s);
    }
}
