//! Sums of a batch's gradients, with one row for each table row that the batch touches.

use pbg_gemm::{pages, prefetch};

use crate::vector;

const NONE: u32 = u32::MAX;

/// Number of rows by which prefetching runs ahead: enough to hide the latency of memory behind the work on the rows in
/// between.
pub const ROWS_AHEAD: usize = 4;

/// Sums of gradients of a table's rows, stored only for rows that were touched.
///
/// A dense map leads from a row to its slot in one look-up. Memory is 4 bytes per table row plus one gradient row for
/// the greatest number of rows that a batch has touched so far; nothing is allocated after that.
#[derive(Debug, Default)]
pub struct GradientRows {
    width: usize,
    slot_of_row: Vec<u32>,
    touched: Vec<u32>,
    values: Vec<f32>,
}

impl GradientRows {
    /// Clears all sums and prepares for a table of `rows` rows of `width` floats, of which about `expected` may be
    /// touched.
    pub fn reset(&mut self, rows: usize, width: usize, expected: usize) {
        self.clear();
        self.width = width;
        let floats = expected.min(rows) * width;
        if self.values.capacity() < floats {
            self.values = pages::with_capacity(floats);
            self.touched.reserve_exact(expected.min(rows));
        }
        if self.slot_of_row.len() < rows {
            // Reserved exactly, so that the buffer takes the announced memory.
            self.slot_of_row
                .reserve_exact(rows - self.slot_of_row.len());
            self.slot_of_row.resize(rows, NONE);
        }
    }

    /// Adds `gradient` to the sum of `row`.
    #[inline]
    pub fn add(&mut self, row: u32, gradient: &[f32]) {
        match self.sum_of(row) {
            Some(sum) => vector::add(sum, gradient),
            None => self.start(row, gradient),
        }
    }

    /// Prefetches the sum of `row` into the cache.
    #[inline]
    pub fn prefetch(&self, row: u32) {
        let first = self.slot_of_row[row as usize] as usize * self.width;
        if let Some(sum) = self.values.get(first..first + self.width) {
            prefetch(sum);
        }
    }

    /// Adds `factor * gradient` to the sum of `row`.
    #[inline]
    pub fn add_scaled(&mut self, row: u32, factor: f32, gradient: &[f32]) {
        if let Some(sum) = self.sum_of(row) {
            return vector::axpy(sum, factor, gradient);
        }
        self.start(row, gradient);
        let first = self.values.len() - self.width;
        vector::scale(&mut self.values[first..], factor);
    }

    /// Returns the sum of `row`, which is zero if the row has not been touched yet.
    #[inline]
    pub fn row_mut(&mut self, row: u32) -> &mut [f32] {
        let mut slot = self.slot_of_row[row as usize];
        if slot == NONE {
            slot = self.new_slot(row);
            self.values.resize(self.values.len() + self.width, 0.0);
        }
        let first = slot as usize * self.width;
        &mut self.values[first..first + self.width]
    }

    /// Passes each touched row and its sum to `apply`, in the order of first touch, and clears all sums. Each row is
    /// passed to `announce` a few rows ahead, for prefetching.
    pub fn drain(&mut self, announce: impl Fn(usize), mut apply: impl FnMut(usize, &[f32])) {
        let sums = self.values.chunks_exact(self.width.max(1));
        for (i, (&row, sum)) in self.touched.iter().zip(sums).enumerate() {
            if let Some(&ahead) = self.touched.get(i + ROWS_AHEAD) {
                announce(ahead as usize);
            }
            apply(row as usize, sum);
        }
        self.clear();
    }

    /// Returns the sum of `row`, if it was touched.
    #[inline]
    pub fn sum(&self, row: usize) -> Option<&[f32]> {
        let slot = *self.slot_of_row.get(row)?;
        let first = slot as usize * self.width;
        (slot != NONE).then(|| &self.values[first..first + self.width])
    }

    /// Adds all sums of `other` to these.
    pub fn add_all(&mut self, other: &Self) {
        let sums = other.values.chunks_exact(other.width.max(1));
        for (&row, sum) in other.touched.iter().zip(sums) {
            self.add(row, sum);
        }
    }

    /// Returns the current size of the buffers in bytes.
    pub fn bytes(&self) -> usize {
        4 * (self.slot_of_row.capacity() + self.touched.capacity() + self.values.capacity())
    }

    /// Clears all sums.
    pub fn clear(&mut self) {
        for &row in &self.touched {
            self.slot_of_row[row as usize] = NONE;
        }
        self.touched.clear();
        self.values.clear();
    }

    #[inline]
    fn sum_of(&mut self, row: u32) -> Option<&mut [f32]> {
        let slot = self.slot_of_row[row as usize];
        let first = slot as usize * self.width;
        (slot != NONE).then(|| &mut self.values[first..first + self.width])
    }

    /// Starts the sum of `row` with its first gradient, which is written directly: memory is not zeroed first.
    #[inline]
    fn start(&mut self, row: u32, gradient: &[f32]) {
        debug_assert_eq!(gradient.len(), self.width);
        self.new_slot(row);
        self.values.extend_from_slice(gradient);
    }

    fn new_slot(&mut self, row: u32) -> u32 {
        let slot = self.touched.len() as u32;
        self.slot_of_row[row as usize] = slot;
        self.touched.push(row);
        slot
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn duplicates_are_summed_and_batches_are_separate() {
        let mut rows = GradientRows::default();
        rows.reset(5, 2, 1);
        rows.add(3, &[1.0, 2.0]);
        rows.add(0, &[5.0, 5.0]);
        rows.add(3, &[10.0, 20.0]);
        rows.add_scaled(4, 0.5, &[2.0, 4.0]);
        rows.add_scaled(0, -1.0, &[1.0, 2.0]);
        rows.row_mut(1)[1] = 7.0;
        let mut seen = Vec::new();
        rows.drain(|_| {}, |row, sum| seen.push((row, sum.to_vec())));
        assert_eq!(
            seen,
            [
                (3, vec![11.0, 22.0]),
                (0, vec![4.0, 3.0]),
                (4, vec![1.0, 2.0]),
                (1, vec![0.0, 7.0])
            ]
        );
        rows.add(3, &[1.0, 1.0]);
        rows.reset(9, 1, 9);
        rows.add(8, &[3.0]);
        rows.drain(|_| {}, |row, sum| assert_eq!((row, sum), (8, &[3.0][..])));
    }
}
