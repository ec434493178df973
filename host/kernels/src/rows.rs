//! Where kernels are `unsafe`: rows of floats that Hogwild workers share without locks, the memory of
//! libtorch's tensors as slices, and products of matrices in slices.
//!
//! # Why unsynchronised access is acceptable here
//!
//! Workers read and update rows of [`SharedRows`] at the same time and take no lock. That loses an
//! update now and then, or mixes floats of two updates in one row; stochastic gradient descent
//! with sparse updates converges all the same, and nearly as fast as if it had been serialised
//! (Niu, Recht, Ré, Wright: "HOGWILD!: A Lock-Free Approach to Parallelizing Stochastic Gradient
//! Descent", 2011). A float is written by one aligned 4-byte store or by a wider store made of
//! such, which no supported processor tears within an aligned float, so a reader sees one
//! worker's value or another's, never a mixture of bits.
//!
//! What keeps this within what the compiler may assume: while a table is shared, its memory is
//! reached through raw pointers into `UnsafeCell`s only. No `&[f32]` or `&mut [f32]` to it ever
//! exists, so no optimisation may rely on its floats being frozen or unaliased. Values are copied to
//! a worker's private memory before anything is computed from them, and nothing but floats is ever
//! read this way: no length, index or pointer depends on what a race left behind.

#![expect(
    unsafe_code,
    reason = "memory that threads share, and of tensors; see above"
)]

mod gemm;
mod half;

use std::cell::UnsafeCell;
use std::ptr;

pub(crate) use gemm::{Matrix, multiply};
pub(crate) use half::HalfBuffer;

/// A matrix of `rows` x `width` floats, shared by threads that read and update rows without locks.
pub struct SharedRows {
    cells: Box<[UnsafeCell<f32>]>,
    rows: usize,
    width: usize,
}

// SAFETY: the cells hold plain floats, which any thread may own. Through `&SharedRows` they are only
// accessed by the methods below, which copy single floats through raw pointers (see the module's
// documentation); exclusive slices need `&mut SharedRows`.
unsafe impl Sync for SharedRows {}

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
    /// Rows of `width` floats each, row after row. The values are not copied.
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
        let raw = Box::into_raw(values.into_boxed_slice());
        advise_huge(raw.cast(), raw.len());
        // SAFETY: `UnsafeCell<f32>` has the representation of `f32` (it is `repr(transparent)`), so the
        // box's layout does not change; `raw` was just released by `Box::into_raw`.
        let cells = unsafe { Box::from_raw(raw as *mut [UnsafeCell<f32>]) };
        Self { cells, rows, width }
    }

    /// `rows` rows of zeros.
    #[must_use]
    pub fn zeros(rows: usize, width: usize) -> Self {
        Self::from_vec(zeroed(rows * width), width)
    }

    /// The values, row after row. They are not copied.
    #[must_use]
    pub fn into_vec(self) -> Vec<f32> {
        let raw = Box::into_raw(self.cells);
        // SAFETY: as in `from_vec`, the other way round.
        let values = unsafe { Box::from_raw(raw as *mut [f32]) };
        values.into_vec()
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Floats per row.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// All values, when nobody else can reach them.
    pub fn get_mut(&mut self) -> &mut [f32] {
        let start = self.cells.as_mut_ptr().cast::<f32>();
        // SAFETY: `&mut self` proves that no other thread has access; the cells are `len` contiguous
        // floats, and the slice borrows from `self`.
        unsafe { std::slice::from_raw_parts_mut(start, self.cells.len()) }
    }

    /// Copies row `row` into `out`. Racy: see the module's documentation.
    ///
    /// # Panics
    /// If there is no such row or `out` is not one row long.
    #[inline]
    pub fn read_row(&self, row: usize, out: &mut [f32]) {
        self.read_rows(row, out);
        debug_assert_eq!(out.len(), self.width);
    }

    /// Copies consecutive rows, as many as fill `out`, from row `first` on. Racy.
    ///
    /// # Panics
    /// If they reach beyond the last row.
    #[inline]
    pub fn read_rows(&self, first: usize, out: &mut [f32]) {
        let source = self.cells(first, out.len());
        // SAFETY: `cells` checked that `out.len()` floats start at `source`; `out` is exclusively
        // borrowed, hence a different allocation. Racing writers are covered by the module's documentation.
        unsafe {
            ptr::copy_nonoverlapping(source, out.as_mut_ptr(), out.len());
        }
    }

    /// Overwrites row `row`. Racy.
    ///
    /// # Panics
    /// If there is no such row or `values` is not one row long.
    #[inline]
    pub fn write_row(&self, row: usize, values: &[f32]) {
        assert_eq!(values.len(), self.width, "one row");
        self.write_rows(row, values);
    }

    /// Overwrites consecutive rows, as many as `values` are, from row `first` on. Racy.
    ///
    /// # Panics
    /// If they reach beyond the last row.
    #[inline]
    pub fn write_rows(&self, first: usize, values: &[f32]) {
        let target = self.cells(first, values.len());
        // SAFETY: `cells` checked that as many floats start at `target`; `values` is a shared borrow, and no
        // shared borrow of our cells exists, so they do not overlap. Races: the module's documentation.
        unsafe {
            ptr::copy_nonoverlapping(values.as_ptr(), target, values.len());
        }
    }

    /// Adds `factor * values` to row `row`. Racy.
    ///
    /// # Panics
    /// If there is no such row or `values` is not one row long.
    #[inline]
    pub fn add_to_row(&self, row: usize, factor: f32, values: &[f32]) {
        assert_eq!(values.len(), self.width, "one row");
        let target = self.cells(row, values.len());
        // SAFETY: `cells` checked that one row starts at `target`.
        unsafe {
            axpy_raw(target, factor, values);
        }
    }

    /// Asks the processor to bring row `row` into its cache. No effect on values; a row that does
    /// not exist is ignored.
    #[inline]
    pub fn prefetch(&self, row: usize) {
        if row >= self.rows {
            return;
        }
        prefetch_floats(self.cells(row, self.width).cast_const(), self.width);
    }

    /// Pointer to row `first`, from which `len` floats may be accessed.
    #[inline]
    fn cells(&self, first: usize, len: usize) -> *mut f32 {
        let start = first * self.width;
        let cells = &self.cells[start..start + len];
        UnsafeCell::raw_get(cells.as_ptr())
    }
}

/// Asks the processor to bring floats into its cache that will be read or written soon.
#[inline]
pub(crate) fn prefetch(values: &[f32]) {
    prefetch_floats(values.as_ptr(), values.len());
}

#[inline]
fn prefetch_floats(start: *const f32, len: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        const LINE: usize = 16;
        for offset in (0..len).step_by(LINE) {
            // SAFETY: a prefetch reads nothing and never faults, whatever the address.
            unsafe {
                _mm_prefetch::<_MM_HINT_T0>(start.wrapping_add(offset).cast());
            }
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, len);
}

/// `target[i] += factor * values[i]`, reading and writing each float of `target` once.
///
/// # Safety
/// `values.len()` floats of a live [`SharedRows`] start at `target`.
#[multiversion::multiversion(targets("x86_64+avx512f+avx2+fma", "x86_64+avx2+fma"))]
unsafe fn axpy_raw(target: *mut f32, factor: f32, values: &[f32]) {
    for (i, value) in values.iter().enumerate() {
        // SAFETY: the caller promises as many floats as there are values; races are covered by the
        // module's documentation.
        unsafe {
            let cell = target.add(i);
            cell.write(cell.read() + factor * value);
        }
    }
}

/// Bytes of a huge page on the processors that matter.
pub(crate) const HUGE_PAGE: usize = 2 << 20;

/// Zeroed floats, spread over huge pages as [`with_capacity`].
#[must_use]
pub(crate) fn zeroed(len: usize) -> Vec<f32> {
    // Fresh from the system, hence not touched yet, so that the advice holds for every page.
    let mut values = vec![0.0; len];
    advise_huge(values.as_mut_ptr(), len);
    values
}

/// Room for `len` floats, spread over huge pages: rows are read at random, and with small pages the
/// translation of addresses costs as much as the reads. A table is best read into such room, since pages
/// that were written stay as they are. None where memory has not as much: `len` may be what a damaged
/// file says, and whoever fills the room knows better how much it takes.
#[must_use]
pub fn with_capacity(len: usize) -> Vec<f32> {
    let mut values = Vec::new();
    if values.try_reserve_exact(len).is_ok() {
        advise_huge(values.as_mut_ptr(), len);
    }
    values
}

/// Asks the system for huge pages. Without them everything works as well, only slower.
fn advise_huge(start: *mut f32, len: usize) {
    #[cfg(target_os = "linux")]
    {
        const SMALL_PAGE: usize = 4096;
        let bytes = len * size_of::<f32>();
        let skipped = (start as usize).next_multiple_of(SMALL_PAGE) - start as usize;
        if bytes >= HUGE_PAGE / 2 {
            // SAFETY: the advice changes no byte and no permission; the range lies in an allocation.
            let _best_effort = unsafe {
                rustix::mm::madvise(
                    start.wrapping_byte_add(skipped).cast(),
                    bytes - skipped,
                    rustix::mm::Advice::LinuxHugepage,
                )
            };
        }
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (start, len);
}

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
        assert_eq!(rows.get_mut()[..4], [9.0; 4]);
        assert_eq!(rows.into_vec()[8..], [6.0, 5.0, 4.0, 3.0]);
    }

    #[test]
    fn room_that_there_is_not_is_no_fault() {
        assert!(with_capacity(1000).capacity() >= 1000);
        assert_eq!(with_capacity(usize::MAX / 8).capacity(), 0);
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
