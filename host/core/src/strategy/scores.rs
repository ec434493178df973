//! Input and output of a loss: rows of scores, gradients and losses.

/// Rows of scores, with buffers for the gradients and losses. Row `i` has one positive and `columns` negatives.
///
/// Rows are independent of each other, so they may be cut anywhere.
#[derive(Debug)]
pub struct ScoreBlock<'a> {
    /// Scores of the positives, `[rows]`: input.
    pub positive: &'a [f32],
    /// Negatives, `[rows, columns]`: scores as input, replaced by their gradients. The scores of masked negatives are
    /// [`MASKED`](super::MASKED), and their gradients must be 0.
    pub negative: &'a mut [f32],
    /// Number of negatives per row.
    pub columns: usize,
    /// Gradients of the positives, `[rows]`: output.
    pub positive_gradient: &'a mut [f32],
    /// Losses, `[rows]`: output.
    pub loss: &'a mut [f32],
}

/// Error for slices whose lengths do not fit together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{positive} positives and {negative} negatives do not form rows of {columns} negatives each"
)]
pub struct ScoreLengthError {
    positive: usize,
    negative: usize,
    columns: usize,
}

impl ScoreBlock<'_> {
    /// Checks that the lengths of the slices fit together.
    ///
    /// # Errors
    /// Fails if they do not.
    pub fn checked(self) -> Result<Self, ScoreLengthError> {
        let rows = self.rows();
        let outputs = [self.positive_gradient.len(), self.loss.len()];
        match rows.checked_mul(self.columns) == Some(self.negative.len()) && outputs == [rows; 2] {
            true => Ok(self),
            false => Err(ScoreLengthError {
                positive: rows,
                negative: self.negative.len(),
                columns: self.columns,
            }),
        }
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.positive.len()
    }

    /// Calls `evaluate` for at most `most` rows at once, and removes the evaluated rows from `self`. If `evaluate`
    /// fails, `self` begins with the rows for which it failed.
    ///
    /// # Errors
    /// Returns the first error of `evaluate`.
    #[inline]
    pub fn in_blocks<E>(
        &mut self,
        most: usize,
        mut evaluate: impl FnMut(ScoreBlock<'_>) -> Result<(), E>,
    ) -> Result<(), E> {
        while !self.positive.is_empty() {
            let (rows, columns) = (self.rows().min(most.max(1)), self.columns);
            evaluate(ScoreBlock {
                positive: &self.positive[..rows],
                negative: &mut self.negative[..rows * columns],
                columns,
                positive_gradient: &mut self.positive_gradient[..rows],
                loss: &mut self.loss[..rows],
            })?;
            self.positive = &self.positive[rows..];
            leave_behind(&mut self.negative, rows * columns);
            leave_behind(&mut self.positive_gradient, rows);
            leave_behind(&mut self.loss, rows);
        }
        Ok(())
    }
}

fn leave_behind(slice: &mut &mut [f32], count: usize) {
    *slice = &mut std::mem::take(slice)[count..];
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_begins_with_the_rows_that_failed() {
        let mut negative = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0];
        let (mut gradient, mut loss) = ([0.0; 3], [0.0; 3]);
        let mut scores = ScoreBlock {
            positive: &[7.0, 8.0, 9.0],
            negative: &mut negative,
            columns: 2,
            positive_gradient: &mut gradient,
            loss: &mut loss,
        };
        let failed = scores.in_blocks(2, |block| match block.positive {
            [7.0, 8.0] => {
                block.negative.fill(0.5);
                block.loss.fill(1.0);
                Ok(())
            }
            [9.0] => Err("the last row"),
            other => panic!("{other:?}"),
        });
        assert_eq!(failed, Err("the last row"));
        assert_eq!(
            (scores.positive, &*scores.negative),
            (&[9.0][..], &[5.0, 6.0][..])
        );
        assert_eq!((scores.rows(), scores.loss.len()), (1, 1));
        assert_eq!(negative, [0.5, 0.5, 0.5, 0.5, 5.0, 6.0]);
        assert_eq!(loss, [1.0, 1.0, 0.0]);
    }

    #[test]
    fn rows_without_negatives_are_rows() {
        let (mut gradient, mut loss) = ([0.0; 3], [0.0; 3]);
        let mut scores = ScoreBlock {
            positive: &[0.0; 3],
            negative: &mut [],
            columns: 0,
            positive_gradient: &mut gradient,
            loss: &mut loss,
        };
        let mut blocks = Vec::new();
        let counted = scores.in_blocks(2, |block| {
            blocks.push(block.rows());
            Ok::<_, ()>(())
        });
        assert_eq!((counted, blocks), (Ok(()), vec![2, 1]));
    }

    #[test]
    fn slices_of_other_rows_are_refused() {
        let with = |columns: usize, negatives: usize, outputs: usize| {
            let scores = ScoreBlock {
                positive: &[0.0; 2],
                negative: &mut vec![0.0; negatives],
                columns,
                positive_gradient: &mut vec![0.0; outputs],
                loss: &mut [0.0; 2],
            };
            scores.checked().is_ok()
        };
        assert!(with(3, 6, 2) && with(0, 0, 2));
        assert!(!with(3, 5, 2) && !with(3, 6, 1) && !with(usize::MAX, 6, 2));
    }
}
