//! Products of single-precision matrices, on this thread.
//!
//! The library that libtorch calls leaves AVX-512 unused on AMD processors, and takes twice as long there; on
//! Intel's it leaves AMX unused, and takes twice as long there. These products use what the processor has, whoever
//! made it; their scheme is that of Goto and van de Geijn ("Anatomy of high-performance matrix multiplication",
//! 2008): tiles whose sums stay in registers, factors packed into panels as wide as a tile. Nothing is allocated but
//! a thread's first time.

use std::cell::RefCell;

use crate::buffer::FloatBuffer;

#[cfg(target_arch = "x86_64")]
mod amx;
#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod blocks;

/// A matrix in a slice: how far apart its rows and its columns are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Matrix<'a> {
    pub(crate) values: &'a [f32],
    pub(crate) row_stride: usize,
    pub(crate) column_stride: usize,
}

impl Matrix<'_> {
    fn holds(&self, rows: usize, columns: usize) -> bool {
        let last = (rows - 1) * self.row_stride + (columns - 1) * self.column_stride;
        last < self.values.len()
    }
}

/// Terms of a sum at a time.
const DEPTH: usize = 512;
/// As many floats of a factor stay in the second-level cache beside what passes through it.
const KEPT: usize = 64 << 10;
/// Terms from which on it pays to pack rows of a left factor whose columns are contiguous.
const MANY_TERMS: usize = 128;
/// Floats that packed factors may take: they stay in the third-level cache.
const ROOM: usize = 512 << 10;

thread_local! {
    static PACKED: RefCell<FloatBuffer> = RefCell::new(FloatBuffer::zeros(ROOM));
}

/// Asks for a float's line of the cache, which will be written.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn prefetch_write(to: *const f32) {
    use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
    // SAFETY: a prefetch reads nothing and never faults, whatever the address.
    unsafe { _mm_prefetch::<_MM_HINT_ET0>(to.cast()) };
}

/// Asks for a float's line of the cache, which will be read.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn prefetch_read(from: *const f32) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    // SAFETY: as above.
    unsafe { _mm_prefetch::<_MM_HINT_T0>(from.cast()) };
}

/// A product whose factors and result lie in their slices: `out [rows, columns]`, row-major, of
/// `a [rows, inner]` and `b [inner, columns]`, whose columns or rows are contiguous.
struct Product<'a> {
    out: &'a mut [f32],
    rows: usize,
    inner: usize,
    columns: usize,
    a: Matrix<'a>,
    b: Matrix<'a>,
    accumulate: bool,
}

/// `out = a b`, or `out += a b` with `accumulate`: `[rows, columns]`, row-major, of `a [rows, inner]` and
/// `b [inner, columns]`, both of them or their transposed row-major.
///
/// # Panics
/// If a matrix does not lie in its slice.
pub(crate) fn multiply(
    out: &mut [f32],
    [rows, inner, columns]: [usize; 3],
    a: Matrix<'_>,
    b: Matrix<'_>,
    accumulate: bool,
) {
    if rows == 0 || columns == 0 {
        return;
    }
    let out = &mut out[..rows * columns];
    if inner == 0 {
        if !accumulate {
            out.fill(0.0);
        }
        return;
    }
    let contiguous = |m: &Matrix<'_>| m.row_stride == 1 || m.column_stride == 1;
    assert!(
        a.holds(rows, inner) && contiguous(&a),
        "the left factor lies in its slice"
    );
    assert!(
        b.holds(inner, columns) && contiguous(&b),
        "the right factor lies in its slice"
    );
    Product {
        out,
        rows,
        inner,
        columns,
        a,
        b,
        accumulate,
    }
    .carry_out();
}

impl Product<'_> {
    fn carry_out(self) {
        #[cfg(target_arch = "x86_64")]
        {
            if self.is_worth_packing() && amx::is_usable() {
                return PACKED.with_borrow_mut(|packed| {
                    // SAFETY: AMX is usable, and `multiply` has checked that matrices lie in their slices.
                    unsafe { amx::carry_out(self, packed.as_mut_slice()) }
                });
            }
            if is_x86_feature_detected!("avx512f") {
                return PACKED.with_borrow_mut(|packed| {
                    // SAFETY: the processor has the instructions; the rest as above.
                    unsafe { avx512::carry_out(self, packed.as_mut_slice()) }
                });
            }
            if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
                return PACKED.with_borrow_mut(|packed| {
                    // SAFETY: as above.
                    unsafe { avx2::carry_out(self, packed.as_mut_slice()) }
                });
            }
        }
        self.carry_out_plainly();
    }

    /// Whether AMX is faster although it wants both factors packed. Measured, packing a float takes 48 times what AMX
    /// gains where one of its products is added: less than it gains in all if `1 / rows + 1 / columns < 1 / 48`.
    #[cfg(target_arch = "x86_64")]
    fn is_worth_packing(&self) -> bool {
        48 * (self.rows + self.columns) < self.rows * self.columns
    }

    /// For processors without these instructions.
    fn carry_out_plainly(self) {
        let at =
            |m: &Matrix<'_>, i: usize, j: usize| m.values[i * m.row_stride + j * m.column_stride];
        for (i, out) in self.out.chunks_exact_mut(self.columns).enumerate() {
            if !self.accumulate {
                out.fill(0.0);
            }
            for k in 0..self.inner {
                let factor = at(&self.a, i, k);
                for (j, out) in out.iter_mut().enumerate() {
                    *out += factor * at(&self.b, k, j);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The sums in double precision, and the sums of the terms' sizes, which rounding is relative to.
    fn exact(
        [rows, inner, columns]: [usize; 3],
        a: Matrix<'_>,
        b: Matrix<'_>,
        before: &[f32],
    ) -> Vec<(f64, f64)> {
        let at = |m: &Matrix<'_>, i: usize, j: usize| {
            f64::from(m.values[i * m.row_stride + j * m.column_stride])
        };
        let sums = |(place, &before): (usize, &f32)| {
            let (i, j) = (place / columns, place % columns);
            let terms = (0..inner).map(|k| at(&a, i, k) * at(&b, k, j));
            let terms = terms.chain([f64::from(before)]);
            terms.fold((0.0, 0.0), |(sum, size), term| {
                (sum + term, size + term.abs())
            })
        };
        debug_assert_eq!(before.len(), rows * columns);
        before.iter().enumerate().map(sums).collect()
    }

    /// Every way that this processor has to carry out a product.
    fn ways() -> Vec<fn(Product<'_>)> {
        let mut ways: Vec<fn(Product<'_>)> = vec![|product| product.carry_out(), |product| {
            product.carry_out_plainly()
        }];
        #[cfg(target_arch = "x86_64")]
        if amx::is_usable() {
            ways.push(|product| {
                PACKED.with_borrow_mut(|packed| {
                    // SAFETY: AMX is usable; the tests' matrices lie in their slices.
                    unsafe { amx::carry_out(product, packed.as_mut_slice()) }
                });
            });
        }
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx512f") {
            ways.push(|product| {
                PACKED.with_borrow_mut(|packed| {
                    // SAFETY: the processor has the instructions; the tests' matrices lie in their slices.
                    unsafe { avx512::carry_out(product, packed.as_mut_slice()) }
                });
            });
        }
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            ways.push(|product| {
                PACKED.with_borrow_mut(|packed| {
                    // SAFETY: the processor has the instructions; the tests' matrices lie in their slices.
                    unsafe { avx2::carry_out(product, packed.as_mut_slice()) }
                });
            });
        }
        ways
    }

    fn assert_right(
        shape: [usize; 3],
        transposed: [bool; 2],
        accumulate: bool,
    ) -> Result<(), TestCaseError> {
        let [rows, inner, columns] = shape;
        let numbers = |count: usize, phase: usize| -> Vec<f32> {
            (0..count)
                .map(|i| ((i * 37 + phase) % 101) as f32 / 50.0 - 1.0)
                .collect()
        };
        let (left, right) = (numbers(rows * inner, 1), numbers(inner * columns, 2));
        let matrix = |values, rows, columns, transposed| match transposed {
            false => Matrix {
                values,
                row_stride: columns,
                column_stride: 1,
            },
            true => Matrix {
                values,
                row_stride: 1,
                column_stride: rows,
            },
        };
        let a = matrix(&left, rows, inner, transposed[0]);
        let b = matrix(&right, inner, columns, transposed[1]);
        let start = numbers(rows * columns, 3);
        let before = match accumulate {
            true => start.clone(),
            false => vec![0.0; rows * columns],
        };
        let expected = exact(shape, a, b, &before);
        for carry_out in ways() {
            let mut out = start.clone();
            carry_out(Product {
                out: &mut out,
                rows,
                inner,
                columns,
                a,
                b,
                accumulate,
            });
            // As precise as single precision, whatever the numbers are put together from.
            let rounding = f64::from(f32::EPSILON) * (inner as f64 + 2.0);
            for (&got, (sum, size)) in out.iter().zip(&expected) {
                let error = (f64::from(got) - sum).abs();
                prop_assert!(error <= rounding * size, "{got} {sum}");
            }
        }
        Ok(())
    }

    proptest! {
        #[test]
        fn products_are_sums_of_products(
            shape in [1_usize..70, 1_usize..70, 1_usize..150],
            transposed in any::<[bool; 2]>(),
            accumulate in any::<bool>(),
        ) {
            assert_right(shape, transposed, accumulate)?;
        }
    }

    #[test]
    fn sums_of_many_terms_and_wide_factors() {
        for transposed in [[false, false], [false, true], [true, false], [true, true]] {
            assert_right([9, 1300, 200], transposed, true).unwrap();
            assert_right([3, 500, 300], transposed, false).unwrap();
            // More rows than the second-level cache takes, and more columns than there is room for.
            assert_right([170, 500, 260], transposed, false).unwrap();
            assert_right([9, 511, 1100], transposed, true).unwrap();
        }
    }

    #[test]
    fn a_sum_of_nothing_is_zero() {
        let empty = Matrix {
            values: &[],
            row_stride: 0,
            column_stride: 1,
        };
        let mut out = [1.0; 6];
        multiply(&mut out, [2, 0, 3], empty, empty, true);
        assert_eq!(out, [1.0; 6]);
        multiply(&mut out, [2, 0, 3], empty, empty, false);
        assert_eq!(out, [0.0; 6]);
    }
}
