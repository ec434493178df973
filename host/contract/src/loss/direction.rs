//! Check that training with a loss raises the scores of positives and lowers those of negatives.

use pbg_core::strategy::LossWorker;

use super::scores::{ScoreRows, evaluate, ordinary};

/// Factors for ordinary scores: a loss may have no gradient for scores far from its margins.
const SCALES: [f32; 4] = [1.0, 10.0, 100.0, 1000.0];

/// Signs of the derivatives of a loss by one kind of scores.
#[derive(Debug, Default)]
struct Signs {
    rises: usize,
    falls: usize,
    flat: usize,
}

/// Signs of the derivatives of a loss by the scores of positives, and by those of negatives.
#[derive(Debug, Default)]
pub(super) struct LossDirections {
    positives: Signs,
    negatives: Signs,
}

/// Returns ordinary scores of several magnitudes.
pub(super) fn scaled_scores() -> impl Iterator<Item = ScoreRows> {
    SCALES.into_iter().map(|scale| {
        let mut rows = ordinary(25, 8);
        let scores = rows.positive.iter_mut().chain(&mut rows.negative);
        scores.for_each(|score| *score *= scale);
        rows
    })
}

impl Signs {
    fn count(&mut self, derivatives: &[f32]) {
        for &derivative in derivatives {
            match derivative {
                rising if rising > 0.0 => self.rises += 1,
                falling if falling < 0.0 => self.falls += 1,
                _ => self.flat += 1,
            }
        }
    }

    const fn all(&self) -> usize {
        self.rises + self.falls + self.flat
    }

    /// Whether almost no derivative is other than 0.
    const fn are_almost_flat(&self) -> bool {
        let reached = self.rises + self.falls;
        reached > 0 && 40 * reached < self.all()
    }
}

impl LossDirections {
    /// Counts the signs of the derivatives of `loss` on scores of several magnitudes.
    pub(super) fn add(&mut self, loss: &mut dyn LossWorker) -> Result<(), String> {
        for rows in scaled_scores() {
            let found = evaluate(loss, &rows)?;
            self.positives.count(&found.positive);
            self.negatives.count(&found.negative);
        }
        Ok(())
    }

    /// Returns a summary, or everything that has the wrong direction.
    pub(super) fn judged(&self) -> Result<String, String> {
        let Self {
            positives,
            negatives,
        } = self;
        let mut broken = Vec::new();
        if positives.rises + positives.falls == 0 {
            broken.push(format!(
                "no gradient reaches the positives, tried on {} rows: training never raises the scores of true edges",
                positives.all()
            ));
        } else if positives.falls == 0 {
            broken.push(format!(
                "the loss rises with the score of the positive in {} of {} rows and falls in none: training lowers the \
                 scores of true edges",
                positives.rises,
                positives.all()
            ));
        }
        if negatives.rises + negatives.falls == 0 {
            broken.push(format!(
                "no gradient reaches the negatives, tried on {}: the loss ignores their scores, and training never \
                 lowers them",
                negatives.all()
            ));
        } else if negatives.rises == 0 {
            broken.push(format!(
                "the loss falls with the score of a negative for {} of {} and rises for none: training raises the \
                 scores of wrong edges",
                negatives.falls,
                negatives.all()
            ));
        }
        for (signs, of) in [(positives, "positives"), (negatives, "negatives")] {
            if signs.are_almost_flat() {
                broken.push(format!(
                    "a gradient reaches {} of {} {of} only: training hardly ever moves the others",
                    signs.rises + signs.falls,
                    signs.all()
                ));
            }
        }
        if !broken.is_empty() {
            return Err(broken.join("\n"));
        }
        Ok(format!(
            "falls with the score of the positive in {} of {} rows and rises in {}; rises with the score of {} of {} \
             negatives and falls with {}",
            positives.falls,
            positives.all(),
            positives.rises,
            negatives.rises,
            negatives.all(),
            negatives.falls
        ))
    }
}

#[cfg(test)]
mod tests {
    use pbg_core::strategy::{ScoreBlock, StrategyError};

    use super::*;

    /// A loss with the same derivatives everywhere: by the positive, and by each negative.
    struct Linear(f32, f32);

    impl LossWorker for Linear {
        fn evaluate(&mut self, scores: &mut ScoreBlock<'_>) -> Result<(), StrategyError> {
            scores.positive_gradient.fill(self.0);
            scores.negative.fill(self.1);
            Ok(())
        }
    }

    fn judged(losses: &mut [Linear]) -> Result<String, String> {
        let mut directions = LossDirections::default();
        for loss in losses {
            directions.add(loss)?;
        }
        directions.judged()
    }

    #[test]
    fn what_training_would_do_the_wrong_way_round_is_found() {
        assert!(judged(&mut [Linear(-1.0, 1.0)]).is_ok());
        for (positive, negative, said) in [
            (1.0, 1.0, &["rises with the score of the positive"][..]),
            (0.0, 1.0, &["no gradient reaches the positives"]),
            (-1.0, 0.0, &["no gradient reaches the negatives"]),
            (-1.0, -1.0, &["falls with the score of a negative"]),
            (
                1.0,
                0.0,
                &[
                    "rises with the score of the positive",
                    "no gradient reaches the negatives",
                ],
            ),
        ] {
            let broken = judged(&mut [Linear(positive, negative)]).unwrap_err();
            assert!(said.iter().all(|words| broken.contains(words)), "{broken}");
            assert_eq!(broken.lines().count(), said.len(), "{broken}");
        }
    }

    /// A loss with a gradient only where the positive's score is above a threshold.
    struct Above(f32);

    impl LossWorker for Above {
        fn evaluate(&mut self, scores: &mut ScoreBlock<'_>) -> Result<(), StrategyError> {
            for (gradient, &score) in scores.positive_gradient.iter_mut().zip(scores.positive) {
                *gradient = if score > self.0 { -1.0 } else { 0.0 };
            }
            scores.negative.fill(1.0);
            Ok(())
        }
    }

    #[test]
    fn a_gradient_that_is_zero_almost_everywhere_is_found() {
        let judged = |threshold: f32| {
            let mut directions = LossDirections::default();
            directions.add(&mut Above(threshold))?;
            directions.judged()
        };
        judged(0.5).unwrap();
        // Scores of 2000 at most: few are above.
        let broken = judged(1750.0).unwrap_err();
        assert!(broken.contains("of 100 positives only"), "{broken}");
    }

    #[test]
    fn a_parameter_may_bring_the_negatives_in_later() {
        assert!(judged(&mut [Linear(-1.0, 0.0), Linear(-1.0, 1.0)]).is_ok());
    }
}
