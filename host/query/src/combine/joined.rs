//! Combination of the rows of several models.

use super::combination::Combination;

/// Rows that accumulate those of one model after another.
pub(super) struct RowAccumulator {
    combination: Combination,
    /// Elements per row.
    width: usize,
    /// Number of parts of equal length that a row is divided into. Each part contains the same part of all models.
    parts: usize,
    values: Vec<f32>,
    /// Number of models added.
    models: usize,
    /// Number of elements of a row that are filled.
    filled: usize,
    /// Whether each row is a square matrix, to whose diagonal the matrices of the models are added as blocks.
    matrices: bool,
}

impl RowAccumulator {
    /// Creates `rows` rows of `width` elements. `parts` has no effect with [`Combination::Average`].
    pub(super) fn new(combination: Combination, rows: usize, width: usize, parts: usize) -> Self {
        Self {
            combination,
            width,
            parts,
            values: vec![0.0; rows * width],
            models: 0,
            filled: 0,
            matrices: false,
        }
    }

    /// Creates `rows` square matrices of `side` rows and columns.
    pub(super) fn of_matrices(combination: Combination, rows: usize, side: usize) -> Self {
        Self {
            matrices: true,
            ..Self::new(combination, rows, side * side, 1)
        }
    }

    /// Adds the rows of the next model. For a mean, they are as wide as the result; otherwise, the widths of all models
    /// add up to it.
    pub(super) fn add(&mut self, rows: &[f32]) {
        self.models += 1;
        let count = self.values.len() / self.width.max(1);
        match self.combination {
            Combination::Average => {
                for (sum, value) in self.values.iter_mut().zip(rows) {
                    *sum += value;
                }
            }
            Combination::Concatenate if count > 0 && self.matrices => {
                self.add_blocks(rows, (rows.len() / count).isqrt());
            }
            Combination::Concatenate if count > 0 => self.add_beside(rows, rows.len() / count),
            Combination::Concatenate => {}
        }
    }

    fn add_beside(&mut self, rows: &[f32], own: usize) {
        let (part, own_part) = (self.width / self.parts, own / self.parts);
        let first = self.filled / self.parts;
        let into = self.values.chunks_exact_mut(part);
        for (into, from) in into.zip(rows.chunks_exact(own_part)) {
            into[first..][..own_part].copy_from_slice(from);
        }
        self.filled += own;
    }

    /// Adds a block with `own` rows and columns to the diagonal of each matrix.
    fn add_blocks(&mut self, blocks: &[f32], own: usize) {
        let (side, first) = (self.width.isqrt(), self.filled);
        let matrices = self.values.chunks_exact_mut(self.width);
        for (matrix, block) in matrices.zip(blocks.chunks_exact(own * own)) {
            let rows = matrix.chunks_exact_mut(side).skip(first);
            for (into, from) in rows.zip(block.chunks_exact(own)) {
                into[first..][..own].copy_from_slice(from);
            }
        }
        self.filled += own;
    }

    pub(super) fn finish(mut self) -> Vec<f32> {
        if self.combination == Combination::Average {
            let share = 1.0 / self.models.max(1) as f32;
            self.values.iter_mut().for_each(|value| *value *= share);
        }
        self.values
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_mean() {
        let mut joined = RowAccumulator::new(Combination::Average, 2, 2, 1);
        joined.add(&[1.0, 2.0, 3.0, 4.0]);
        joined.add(&[3.0, 0.0, -3.0, 4.0]);
        assert_eq!(joined.finish(), [2.0, 1.0, 0.0, 4.0]);
    }

    #[test]
    fn halves_stay_halves() {
        let mut joined = RowAccumulator::new(Combination::Concatenate, 2, 6, 2);
        joined.add(&[1.0, 2.0, 11.0, 12.0]);
        joined.add(&[3.0, 4.0, 5.0, 6.0, 13.0, 14.0, 15.0, 16.0]);
        let expected = [
            1.0, 3.0, 4.0, 2.0, 5.0, 6.0, 11.0, 13.0, 14.0, 12.0, 15.0, 16.0,
        ];
        assert_eq!(joined.finish(), expected);
    }

    #[test]
    fn matrices_become_blocks_on_the_diagonal() {
        let mut joined = RowAccumulator::of_matrices(Combination::Concatenate, 2, 3);
        joined.add(&[1.0, 2.0, 3.0, 4.0, 11.0, 12.0, 13.0, 14.0]);
        joined.add(&[5.0, 15.0]);
        let expected = [
            [1.0, 2.0, 0.0, 3.0, 4.0, 0.0, 0.0, 0.0, 5.0],
            [11.0, 12.0, 0.0, 13.0, 14.0, 0.0, 0.0, 0.0, 15.0],
        ];
        assert_eq!(joined.finish(), expected.as_flattened());
    }

    #[test]
    fn a_mean_of_matrices() {
        let mut joined = RowAccumulator::of_matrices(Combination::Average, 1, 2);
        joined.add(&[1.0, 2.0, 3.0, 4.0]);
        joined.add(&[3.0, 0.0, -3.0, 4.0]);
        assert_eq!(joined.finish(), [2.0, 1.0, 0.0, 4.0]);
    }

    proptest! {
        #[test]
        fn inner_products_add_up(
            parts in 1_usize..4,
            lengths in proptest::collection::vec(1_usize..4, 1..5),
            seed in 0_u32..1000,
        ) {
            let rows = 3;
            let widths: Vec<_> = lengths.iter().map(|length| length * parts).collect();
            let mut number = seed;
            let mut draw = || {
                number = number.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (number >> 28) as f32 - 8.0
            };
            let models: Vec<Vec<f32>> = widths
                .iter()
                .map(|width| (0..rows * width).map(|_| draw()).collect())
                .collect();
            let width = widths.iter().sum();
            let mut joined = RowAccumulator::new(Combination::Concatenate, rows, width, parts);
            models.iter().for_each(|rows| joined.add(rows));
            let joined = joined.finish();
            let dot = |values: &[f32], width: usize, a: usize, b: usize| -> f32 {
                let (a, b) = (&values[a * width..][..width], &values[b * width..][..width]);
                a.iter().zip(b).map(|(x, y)| x * y).sum()
            };
            for (a, b) in [(0, 1), (1, 2), (2, 2)] {
                let of_all = models.iter().zip(&widths);
                let sum: f32 = of_all.map(|(values, &width)| dot(values, width, a, b)).sum();
                prop_assert_eq!(dot(&joined, width, a, b), sum);
            }
        }
    }
}
