//! Handwritten ranking, logistic and softmax losses, with which tests and benchmarks compare graphs. No run trains with
//! them.
//!
//! Each loss works on one row of scores after the other, in place: it reads the row's negatives two or three times
//! while they are in the first-level cache, and overwrites them with gradients.

use pbg_core::strategy::{Loss, LossWorker, ScoreBlock, StrategyError, StrategyId};
use pbg_rows::vector;

use crate::losses::maths::{self, exp_in_place, sigmoid_and_softplus_in_place};

fn native(name: &str) -> StrategyId {
    StrategyId {
        name: name.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        sha256: String::new(),
    }
}

/// Calls `row` with the negatives of each positive and its score, and stores the loss and the gradient that it returns.
/// The slice of negatives is empty if there are no columns.
fn for_each_row(
    scores: &mut ScoreBlock<'_>,
    mut row: impl FnMut(&mut [f32], f32) -> (f32, f32),
) -> Result<(), StrategyError> {
    let columns = scores.columns;
    let results = scores.positive_gradient.iter_mut().zip(&mut *scores.loss);
    for (i, (&s, (gradient, loss))) in scores.positive.iter().zip(results).enumerate() {
        (*loss, *gradient) = row(&mut scores.negative[i * columns..(i + 1) * columns], s);
    }
    Ok(())
}

/// The ranking loss: the sum over the negatives of `max(0, margin - positive + negative)`.
#[derive(Clone, Debug)]
pub struct HandwrittenRanking {
    id: StrategyId,
    margin: f32,
}

impl HandwrittenRanking {
    /// Creates a ranking loss that requires positives to score `margin` above negatives.
    #[must_use]
    pub fn new(margin: f32) -> Self {
        Self {
            id: native("ranking"),
            margin,
        }
    }
}

impl Loss for HandwrittenRanking {
    fn id(&self) -> &StrategyId {
        &self.id
    }

    fn worker(&self) -> Box<dyn LossWorker> {
        Box::new(self.clone())
    }
}

impl LossWorker for HandwrittenRanking {
    fn evaluate(&mut self, scores: &mut ScoreBlock<'_>) -> Result<(), StrategyError> {
        let margin = self.margin;
        for_each_row(scores, |row, s| {
            let (sum, violations) = maths::hinge(row, margin - s);
            (sum, -violations)
        })
    }
}

/// The logistic loss: `softplus(-positive)` plus the mean over the negatives of `softplus(negative)`.
#[derive(Clone, Debug)]
pub struct HandwrittenLogistic {
    id: StrategyId,
}

impl HandwrittenLogistic {
    /// Creates the logistic loss.
    #[must_use]
    pub fn new() -> Self {
        Self {
            id: native("logistic"),
        }
    }
}

impl Default for HandwrittenLogistic {
    fn default() -> Self {
        Self::new()
    }
}

impl Loss for HandwrittenLogistic {
    fn id(&self) -> &StrategyId {
        &self.id
    }

    fn worker(&self) -> Box<dyn LossWorker> {
        Box::new(self.clone())
    }
}

impl LossWorker for HandwrittenLogistic {
    fn evaluate(&mut self, scores: &mut ScoreBlock<'_>) -> Result<(), StrategyError> {
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
}

/// The softmax loss: the cross-entropy of the positive among itself and its negatives.
#[derive(Clone, Debug)]
pub struct HandwrittenSoftmax {
    id: StrategyId,
}

impl HandwrittenSoftmax {
    /// Creates the softmax loss.
    #[must_use]
    pub fn new() -> Self {
        Self {
            id: native("softmax"),
        }
    }
}

impl Default for HandwrittenSoftmax {
    fn default() -> Self {
        Self::new()
    }
}

impl Loss for HandwrittenSoftmax {
    fn id(&self) -> &StrategyId {
        &self.id
    }

    fn worker(&self) -> Box<dyn LossWorker> {
        Box::new(self.clone())
    }
}

impl LossWorker for HandwrittenSoftmax {
    fn evaluate(&mut self, scores: &mut ScoreBlock<'_>) -> Result<(), StrategyError> {
        for_each_row(scores, |row, s| {
            let largest = vector::max(row).max(s);
            let negatives = exp_in_place(row, largest);
            let own = (s - largest).exp();
            let total = own + negatives;
            vector::scale(row, 1.0 / total);
            // Equal to own / total - 1, which would be inexact if the positive has nearly all of the probability.
            (largest - s + total.ln(), -negatives / total)
        })
    }
}
