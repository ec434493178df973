//! Buffers of prepared rows and of their gradients.

use std::ops::Range;

use pbg_gemm::buffer::FloatBuffer;
use pbg_rows::vector;

use crate::half::HalfBuffer;
use crate::score_function::RowExtras;

/// Rows prepared for comparison, with the data from which their gradients are propagated back.
#[derive(Debug, Default)]
pub(crate) struct PreparedRows {
    /// Prepared rows.
    pub(crate) values: FloatBuffer,
    /// The prepared rows in bf16, if products need them.
    pub(crate) half: HalfBuffer,
    /// The rows before the operator, if there is one.
    pub(crate) input: FloatBuffer,
    /// Numbers that preparation took out of each row.
    pub(crate) extras: Vec<RowExtras>,
}

/// Gradients of prepared rows.
#[derive(Debug, Default)]
pub(crate) struct RowGradients {
    /// Gradients with respect to the prepared rows; once propagated back, with respect to the table's rows.
    pub(crate) values: FloatBuffer,
    /// Gradients with respect to the biases.
    pub(crate) bias: Vec<f32>,
    /// For distances: sums of the factors by which a row itself is subtracted from its gradient.
    pub(crate) row_factors: Vec<f32>,
    /// Whether `values` already holds gradients of this slice.
    pub(crate) started: bool,
    /// First row of each chunk that has a gradient in `values`. The gradients of earlier rows, the positives of a
    /// comparison that has products in common with the next one, are among those of its queries.
    pub(crate) first_row: usize,
}

impl PreparedRows {
    /// Makes room for `rows` rows; with `input`, also for the rows before the operator.
    pub(crate) fn reserve(&mut self, rows: usize, dimension: usize, input: bool) {
        self.values.reserve(rows * dimension);
        if input {
            self.input.reserve(rows * dimension);
        }
        if self.extras.len() < rows {
            // Reserved exactly, so that the buffer takes the announced memory.
            self.extras.reserve_exact(rows - self.extras.len());
            self.extras.resize(rows, RowExtras::default());
        }
    }

    /// Stores the first `floats` numbers of the prepared rows in bf16 too.
    pub(crate) fn round(&mut self, floats: usize) {
        self.half.reserve(floats);
        self.half.load(&self.values.as_slice()[..floats]);
    }

    /// Returns prepared row `row`.
    #[inline]
    pub(crate) fn row(&self, row: usize, dimension: usize) -> &[f32] {
        &self.values.as_slice()[row * dimension..(row + 1) * dimension]
    }

    pub(crate) fn bytes(&self) -> usize {
        4 * (self.values.floats() + self.input.floats())
            + 2 * self.half.len()
            + size_of::<RowExtras>() * self.extras.capacity()
    }
}

impl RowGradients {
    /// Makes room for the gradients of `rows` rows, none of which has been computed yet.
    pub(crate) fn start(&mut self, rows: usize, dimension: usize) {
        self.values.reserve(rows * dimension);
        for sums in [&mut self.bias, &mut self.row_factors] {
            sums.clear();
            sums.reserve_exact(rows);
            sums.resize(rows, 0.0);
        }
        self.started = false;
        self.first_row = 0;
    }

    /// Stores the first `floats` numbers of `half`, or adds them if there are gradients already.
    pub(crate) fn store_or_add(&mut self, half: &HalfBuffer, floats: usize) {
        let values = &mut self.values.as_mut_slice()[..floats];
        if self.started {
            half.add_to(values);
        } else {
            half.store(values);
        }
    }

    /// Adds `factor * values` to row `row`, or stores it if no row has a gradient yet. In the latter case every row
    /// must be stored before [`RowGradients::finish`].
    #[inline]
    pub(crate) fn add_scaled(&mut self, row: usize, factor: f32, values: &[f32]) {
        let width = values.len();
        let row = &mut self.values.as_mut_slice()[row * width..(row + 1) * width];
        match self.started {
            true => vector::axpy(row, factor, values),
            false => vector::scaled(row, factor, values),
        }
    }

    /// Completes the gradients after all rows except `padding` were stored: the padding becomes zero.
    pub(crate) fn finish(&mut self, padding: Range<usize>, dimension: usize) {
        if !self.started {
            self.values.as_mut_slice()[padding.start * dimension..padding.end * dimension]
                .fill(0.0);
            self.started = true;
        }
    }

    /// Sets the gradients to zero, unless they were computed already.
    pub(crate) fn ensure(&mut self, rows: usize, dimension: usize) {
        if !self.started {
            self.values.as_mut_slice()[..rows * dimension].fill(0.0);
            self.started = true;
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        4 * (self.values.floats() + self.bias.capacity() + self.row_factors.capacity())
    }
}
