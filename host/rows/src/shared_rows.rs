//! Rows of floats that Hogwild workers read and update without locks.
//!
//! # Why unsynchronised access is acceptable here
//!
//! Workers read and update rows of [`SharedRows`] concurrently and take no lock. Now and then an update is lost, or a
//! row mixes floats of two updates. Stochastic gradient descent with sparse updates converges all the same, and nearly
//! as fast as with serialised updates (Niu, Recht, Ré, Wright: "HOGWILD!: A Lock-Free Approach to Parallelizing
//! Stochastic Gradient Descent", 2011).
//!
//! While a table is shared, every access to one of its floats is a relaxed atomic one ([`relaxed`]), so a reader sees
//! the value of one worker or of another, never a mixture of their bits. Values are copied to a worker's private memory
//! before anything is computed from them, and only floats are ever read this way: no length, index or pointer depends
//! on the outcome of a race.

#![expect(
    unsafe_code,
    reason = "floats in place as atomics; vectors of relaxed accesses"
)]

mod relaxed;

use std::sync::atomic::AtomicU32;

use pbg_gemm::pages;

/// A matrix of `rows` x `width` floats that threads read and update concurrently without locks.
pub struct SharedRows {
    cells: Box<[AtomicU32]>,
    rows: usize,
    width: usize,
}

impl std::fmt::Debug for SharedRows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "SharedRows {{ rows: {}, width: {} }}",
            self.rows, self.width
        )
    }
}

impl SharedRows {
    /// Creates a matrix from its values, row after row, `width` floats each. The values are not copied.
    ///
    /// # Panics
    /// If `values` is not a whole number of rows, or `width` is 0.
    #[must_use]
    pub fn from_vec(values: Vec<f32>, width: usize) -> Self {
        assert!(width > 0, "rows have at least one float");
        assert_eq!(
            values.len() % width,
            0,
            "a whole number of rows of {width} floats"
        );
        let rows = values.len() / width;
        let mut values = values.into_boxed_slice();
        pages::advise(&mut values);
        let raw = Box::into_raw(values);
        // SAFETY: both types have 4 bytes, aligned to 4 (checked below), and any bits are valid for either, so the
        // layout of the box does not change; `raw` was just released by `Box::into_raw`.
        let cells = unsafe { Box::from_raw(raw as *mut [AtomicU32]) };
        Self { cells, rows, width }
    }

    /// Creates a matrix of `rows` rows of zeros.
    #[must_use]
    pub fn zeros(rows: usize, width: usize) -> Self {
        Self::from_vec(pages::zeroed(rows * width), width)
    }

    /// Returns the values, row after row. They are not copied.
    #[must_use]
    pub fn into_vec(self) -> Vec<f32> {
        let raw = Box::into_raw(self.cells);
        // SAFETY: the reverse of `from_vec`, for the same reasons.
        let values = unsafe { Box::from_raw(raw as *mut [f32]) };
        values.into_vec()
    }

    /// Returns the number of rows.
    #[inline]
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number of floats per row.
    #[inline]
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns all values, through an exclusive reference.
    pub fn get_mut(&mut self) -> &mut [f32] {
        let start = self.cells.as_mut_ptr().cast::<f32>();
        // SAFETY: `&mut self` proves that no other thread has access; the cells are `len` contiguous numbers of the
        // size and alignment of floats, and the slice borrows from `self`.
        unsafe { std::slice::from_raw_parts_mut(start, self.cells.len()) }
    }

    /// Copies row `row` into `out`. Racy: see the module documentation.
    ///
    /// # Panics
    /// If the row does not exist or `out` is not one row long.
    #[inline]
    pub fn read_row(&self, row: usize, out: &mut [f32]) {
        self.read_rows(row, out);
        debug_assert_eq!(out.len(), self.width);
    }

    /// Copies consecutive rows into `out`, from row `first` on, until it is full. Racy.
    ///
    /// # Panics
    /// If the rows extend beyond the last one.
    #[inline]
    pub fn read_rows(&self, first: usize, out: &mut [f32]) {
        relaxed::read(self.cells(first, out.len()), out);
    }

    /// Copies columns of row `row` into `out`, from `column` on, until it is full. Racy.
    ///
    /// # Panics
    /// If the row does not exist or the columns extend beyond its end.
    #[inline]
    pub fn read_columns(&self, row: usize, column: usize, out: &mut [f32]) {
        relaxed::read(&self.cells(row, self.width)[column..][..out.len()], out);
    }

    /// Overwrites `values.len()` columns of row `row`, from `column` on. Racy.
    ///
    /// # Panics
    /// If the row does not exist or the columns extend beyond its end.
    #[inline]
    pub fn write_columns(&self, row: usize, column: usize, values: &[f32]) {
        relaxed::write(
            &self.cells(row, self.width)[column..][..values.len()],
            values,
        );
    }

    /// Overwrites row `row`. Racy.
    ///
    /// # Panics
    /// If the row does not exist or `values` is not one row long.
    #[inline]
    pub fn write_row(&self, row: usize, values: &[f32]) {
        assert_eq!(values.len(), self.width, "one row");
        self.write_rows(row, values);
    }

    /// Overwrites consecutive rows with `values`, from row `first` on. Racy.
    ///
    /// # Panics
    /// If the rows extend beyond the last one.
    #[inline]
    pub fn write_rows(&self, first: usize, values: &[f32]) {
        relaxed::write(self.cells(first, values.len()), values);
    }

    /// Adds `factor * values` to row `row`. Racy.
    ///
    /// # Panics
    /// If the row does not exist or `values` is not one row long.
    #[inline]
    pub fn add_to_row(&self, row: usize, factor: f32, values: &[f32]) {
        assert_eq!(values.len(), self.width, "one row");
        relaxed::add_scaled(self.cells(row, values.len()), factor, values);
    }

    /// Asks the processor to load row `row` into its cache. This does not affect values; a row that does not exist is
    /// ignored.
    #[inline]
    pub fn prefetch(&self, row: usize) {
        if row >= self.rows {
            return;
        }
        pbg_gemm::prefetch_at(self.cells(row, self.width).as_ptr().cast(), self.width);
    }

    /// Returns `len` cells, from the start of row `first` on.
    #[inline]
    fn cells(&self, first: usize, len: usize) -> &[AtomicU32] {
        let start = first * self.width;
        &self.cells[start..start + len]
    }
}

const _: () = assert!(
    size_of::<AtomicU32>() == size_of::<f32>() && align_of::<AtomicU32>() == align_of::<f32>(),
    "floats can be atomics in place"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_written_and_added_to() {
        let mut rows = SharedRows::from_vec((0..12).map(|i| i as f32).collect(), 4);
        let mut out = [0.0; 4];
        rows.read_row(1, &mut out);
        assert_eq!(out, [4.0, 5.0, 6.0, 7.0]);
        rows.write_row(0, &[9.0; 4]);
        rows.add_to_row(2, -2.0, &[1.0, 2.0, 3.0, 4.0]);
        rows.prefetch(2);
        rows.prefetch(7);
        rows.write_columns(1, 1, &[0.5, 0.25]);
        let mut two = [0.0; 2];
        rows.read_columns(1, 2, &mut two);
        assert_eq!(two, [0.25, 7.0]);
        assert_eq!(rows.get_mut()[..4], [9.0; 4]);
        assert_eq!(rows.into_vec()[8..], [6.0, 5.0, 4.0, 3.0]);
    }

    #[test]
    #[should_panic(expected = "range end index")]
    fn a_row_beyond_the_last_is_refused() {
        SharedRows::zeros(3, 4).read_row(3, &mut [0.0; 4]);
    }

    #[test]
    fn threads_that_share_rows_lose_no_update_of_rows_of_their_own() {
        let rows = SharedRows::zeros(64, 8);
        std::thread::scope(|scope| {
            for worker in 0..4 {
                let rows = &rows;
                scope.spawn(move || {
                    for _ in 0..1000 {
                        for row in (worker..64).step_by(4) {
                            rows.add_to_row(row, 1.0, &[1.0; 8]);
                        }
                    }
                });
            }
        });
        assert!(rows.into_vec().iter().all(|&v| v == 1000.0));
    }
}
