//! Products of positives with positives, which the two comparisons of a slice have in common.
//!
//! If the positives of a chunk are negatives on both sides of a static relation, one comparison multiplies the right
//! positives with the left ones, and the other the left ones with the right ones, which gives the transpose. So the
//! first comparison keeps its products for the second. It also keeps the gradients of these products, and the second
//! comparison, which adds them to its own, multiplies the sum. With as many uniform negatives as positives in a chunk,
//! this saves a quarter of a step's products.

use std::ops::Range;

use pbg_gemm::buffer::FloatBuffer;
use pbg_rows::vector;

use crate::step::plan::BatchPlan;

/// Place of a comparison among two that have products in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SharingOrder {
    First,
    Second,
}

impl SharingOrder {
    /// Returns the columns of scores that a comparison multiplies, of `columns` of which the first `chunk` are those of
    /// the positives.
    pub(super) fn scored(order: Option<Self>, chunk: usize, columns: usize) -> Range<usize> {
        match order {
            Some(Self::Second) => chunk..columns,
            Some(Self::First) | None => 0..columns,
        }
    }

    /// Returns the columns of scores whose gradients a comparison multiplies.
    pub(super) fn differentiated(
        order: Option<Self>,
        chunk: usize,
        columns: usize,
    ) -> Range<usize> {
        match order {
            Some(Self::First) => chunk..columns,
            Some(Self::Second) | None => 0..columns,
        }
    }
}

/// Products of positives with positives and their gradients, `[chunks, chunk, chunk]`, as the second comparison has
/// them: a row belongs to one of its queries.
#[derive(Debug, Default)]
pub(crate) struct CommonProducts {
    products: FloatBuffer,
    gradients: FloatBuffer,
}

/// Rows of scores, of which the first columns of each chunk are compared positives.
pub(super) struct ChunkScores<'a> {
    /// Scores, `[chunks, chunk, columns]`.
    pub(super) values: &'a mut [f32],
    pub(super) chunk: usize,
    pub(super) columns: usize,
}

impl ChunkScores<'_> {
    fn chunks(&mut self) -> impl Iterator<Item = &mut [f32]> {
        self.values.chunks_exact_mut(self.chunk * self.columns)
    }

    /// Transposes the positives' columns of each chunk to `kept`.
    fn keep(&mut self, kept: &mut FloatBuffer) {
        let (chunk, columns) = (self.chunk, self.columns);
        kept.reserve(self.values.len() / columns * chunk);
        let kept = kept.as_mut_slice().chunks_exact_mut(chunk * chunk);
        for (scores, kept) in self.chunks().zip(kept) {
            for (column, row) in kept.chunks_exact_mut(chunk).enumerate() {
                let scores = scores[column..].iter().step_by(columns);
                row.iter_mut()
                    .zip(scores)
                    .for_each(|(kept, &score)| *kept = score);
            }
        }
    }

    /// Passes the positives' columns of each row to `change`, with the row that was kept.
    fn change(&mut self, kept: &FloatBuffer, change: impl Fn(&mut [f32], &[f32])) {
        let (chunk, columns) = (self.chunk, self.columns);
        let rows = self.values.chunks_exact_mut(columns);
        for (row, kept) in rows.zip(kept.as_slice().chunks_exact(chunk)) {
            change(&mut row[..chunk], kept);
        }
    }
}

impl CommonProducts {
    /// Keeps the products of the first comparison.
    pub(super) fn keep_products(&mut self, mut scores: ChunkScores<'_>) {
        scores.keep(&mut self.products);
    }

    /// Writes the products to the scores of the second comparison.
    pub(super) fn fill_products(&self, mut scores: ChunkScores<'_>) {
        scores.change(&self.products, |row, kept| row.copy_from_slice(kept));
    }

    /// Keeps the gradients of the first comparison's products.
    pub(super) fn keep_gradients(&mut self, mut scores: ChunkScores<'_>) {
        scores.keep(&mut self.gradients);
    }

    /// Adds the kept gradients to those of the second comparison.
    pub(super) fn add_gradients(&self, mut scores: ChunkScores<'_>) {
        scores.change(&self.gradients, vector::add);
    }

    pub(crate) fn bytes(&self) -> usize {
        4 * (self.products.floats() + self.gradients.floats())
    }
}

/// Returns the bytes of each of the two buffers for slices of `plan`; 0 if its comparisons have no products in common.
pub(super) fn buffer_bytes(plan: &BatchPlan) -> usize {
    let shares = plan.step.passes.iter().any(|pass| pass.shares_products);
    match shares {
        true => [plan.chunks_per_slice, plan.chunk, plan.chunk]
            .into_iter()
            .fold(4, usize::saturating_mul),
        false => 0,
    }
}
