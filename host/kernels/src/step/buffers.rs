//! Buffers of prepared rows and of their gradients, which a worker keeps from slice to slice.

use std::ops::Range;

use pbg_core::graph::Side;
use pbg_gemm::buffer::FloatBuffer;

use crate::comparators::RowExtras;
use crate::half::HalfBuffer;
use crate::step::score_buffers::ScoreBuffers;
use crate::vector;

/// Rows ready for comparison, and what is needed to go back from their gradients.
#[derive(Debug)]
pub(crate) struct PreparedRows {
    /// Prepared rows.
    pub(crate) values: FloatBuffer,
    /// The same in bf16; only kept where products want it.
    pub(crate) half: HalfBuffer,
    /// Rows before the operator; only kept where one is applied.
    pub(crate) input: FloatBuffer,
    /// What preparing took out of each row.
    pub(crate) extras: Vec<RowExtras>,
}

/// Gradients of rows.
#[derive(Debug)]
pub(crate) struct RowGradients {
    /// With respect to the prepared rows.
    pub(crate) values: FloatBuffer,
    /// With respect to the biases.
    pub(crate) bias: Vec<f32>,
    /// For distances: sums of the factors with which a row itself is subtracted.
    pub(crate) row_factors: Vec<f32>,
    /// Whether `values` holds this slice's gradients yet.
    pub(crate) started: bool,
}

impl PreparedRows {
    pub(crate) fn new() -> Self {
        Self {
            values: FloatBuffer::zeros(0),
            half: HalfBuffer::zeros(0),
            input: FloatBuffer::zeros(0),
            extras: Vec::new(),
        }
    }

    /// Room for `rows` rows; with `input` also for what they were before the operator.
    pub(crate) fn reserve(&mut self, rows: usize, dimension: usize, input: bool) {
        self.values.reserve(rows * dimension);
        if input {
            self.input.reserve(rows * dimension);
        }
        if self.extras.len() < rows {
            // Exactly, so that the memory is what was announced.
            self.extras.reserve_exact(rows - self.extras.len());
            self.extras.resize(rows, RowExtras::default());
        }
    }

    /// Keeps the first `floats` of the prepared rows in bf16 too.
    pub(crate) fn round(&mut self, floats: usize) {
        self.half.reserve(floats);
        self.half.load(&self.values.as_slice()[..floats]);
    }

    /// Row `row` as prepared.
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
    pub(crate) fn new() -> Self {
        Self {
            values: FloatBuffer::zeros(0),
            bias: Vec::new(),
            row_factors: Vec::new(),
            started: false,
        }
    }

    /// Room for `rows` rows, none of which has a gradient yet.
    pub(crate) fn start(&mut self, rows: usize, dimension: usize) {
        self.values.reserve(rows * dimension);
        for sums in [&mut self.bias, &mut self.row_factors] {
            sums.clear();
            sums.reserve_exact(rows);
            sums.resize(rows, 0.0);
        }
        self.started = false;
    }

    /// Takes the first `floats` of `half`, or adds them to what is there.
    pub(crate) fn receive(&mut self, half: &HalfBuffer, floats: usize) {
        let values = &mut self.values.as_mut_slice()[..floats];
        if self.started {
            half.add_to(values);
        } else {
            half.store(values);
        }
    }

    /// Adds `factor * values` to row `row`, or writes it if no row has a gradient yet; then every row needs
    /// one before [`RowGradients::finish`].
    #[inline]
    pub(crate) fn add_scaled(&mut self, row: usize, factor: f32, values: &[f32]) {
        let width = values.len();
        let row = &mut self.values.as_mut_slice()[row * width..(row + 1) * width];
        match self.started {
            true => vector::axpy(row, factor, values),
            false => vector::scaled(row, factor, values),
        }
    }

    /// After all rows but `padding` were written: now all have a gradient.
    pub(crate) fn finish(&mut self, padding: Range<usize>, dimension: usize) {
        if !self.started {
            self.values.as_mut_slice()[padding.start * dimension..padding.end * dimension]
                .fill(0.0);
            self.started = true;
        }
    }

    /// Makes `values` valid: zero, unless a product has written them.
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

/// Buffers of one side of a slice.
#[derive(Debug)]
pub(crate) struct SliceSide {
    /// Positives and uniform negatives, chunk by chunk.
    pub(crate) rows: PreparedRows,
    /// Gradients of the positives.
    pub(crate) positives: RowGradients,
    /// Gradients of sampled candidates.
    pub(crate) candidates: RowGradients,
}

impl SliceSide {
    pub(crate) fn new() -> Self {
        Self {
            rows: PreparedRows::new(),
            positives: RowGradients::new(),
            candidates: RowGradients::new(),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.rows.bytes() + self.positives.bytes() + self.candidates.bytes()
    }
}

/// With all negatives: every entity that replaces a side, and its gradients over the whole batch.
#[derive(Debug)]
pub(crate) struct EntitySide {
    pub(crate) rows: PreparedRows,
    pub(crate) gradients: RowGradients,
}

impl EntitySide {
    pub(crate) fn new() -> Self {
        Self {
            rows: PreparedRows::new(),
            gradients: RowGradients::new(),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.rows.bytes() + self.gradients.bytes()
    }
}

/// The two sides as (this one, the other one).
pub fn pair<T>(both: &mut [T; 2], side: Side) -> (&mut T, &mut T) {
    let [lhs, rhs] = both;
    match side {
        Side::Lhs => (lhs, rhs),
        Side::Rhs => (rhs, lhs),
    }
}

/// Buffers of a slice.
#[derive(Debug)]
pub(crate) struct SliceBuffers {
    pub(super) sides: [SliceSide; 2],
    pub(super) scores: ScoreBuffers,
}

impl SliceBuffers {
    pub(crate) fn new() -> Self {
        Self {
            sides: [SliceSide::new(), SliceSide::new()],
            scores: ScoreBuffers::new(),
        }
    }

    pub(crate) fn bytes(&self) -> usize {
        self.scores.bytes() + self.sides.iter().map(SliceSide::bytes).sum::<usize>()
    }
}
