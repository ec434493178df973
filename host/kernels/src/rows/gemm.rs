//! Products of single-precision matrices, on this thread.
//!
//! The `gemm` crate's kernels use what the processor has, whoever made it. The library that libtorch calls
//! leaves AVX-512 unused on AMD processors, and takes twice as long there.

use gemm::{Parallelism, gemm};

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

/// `out = a b`, or `out += a b` with `accumulate`: `[rows, columns]`, row-major, of `a [rows, inner]` and
/// `b [inner, columns]`.
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
    assert!(a.holds(rows, inner), "the left factor lies in its slice");
    assert!(
        b.holds(inner, columns),
        "the right factor lies in its slice"
    );
    // SAFETY: the slice of `out` has just been cut to `rows * columns`, the factors were found to lie in
    // theirs with these strides, which are no larger than a slice and so fit `isize`; `out` is borrowed
    // exclusively, so it overlaps no factor.
    unsafe {
        gemm(
            rows,
            columns,
            inner,
            out.as_mut_ptr(),
            1,
            columns as isize,
            accumulate,
            a.values.as_ptr(),
            a.column_stride as isize,
            a.row_stride as isize,
            b.values.as_ptr(),
            b.column_stride as isize,
            b.row_stride as isize,
            1.0,
            1.0,
            false,
            false,
            false,
            Parallelism::None,
        );
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn naive(
        [rows, inner, columns]: [usize; 3],
        a: Matrix<'_>,
        b: Matrix<'_>,
        before: &[f32],
    ) -> Vec<f64> {
        let at = |m: &Matrix<'_>, i: usize, j: usize| {
            f64::from(m.values[i * m.row_stride + j * m.column_stride])
        };
        let mut out: Vec<f64> = before.iter().copied().map(f64::from).collect();
        for i in 0..rows {
            for j in 0..columns {
                out[i * columns + j] +=
                    (0..inner).map(|k| at(&a, i, k) * at(&b, k, j)).sum::<f64>();
            }
        }
        out
    }

    proptest! {
        #[test]
        fn products_are_sums_of_products(
            shape in [1_usize..70, 0_usize..70, 1_usize..70],
            transposed in any::<[bool; 2]>(),
            accumulate in any::<bool>(),
        ) {
            let [rows, inner, columns] = shape;
            let numbers = |count: usize, phase: usize| -> Vec<f32> {
                (0..count).map(|i| ((i * 37 + phase) % 101) as f32 / 50.0 - 1.0).collect()
            };
            let (left, right) = (numbers(rows * inner, 1), numbers(inner * columns, 2));
            let matrix = |values, rows, columns, transposed| match transposed {
                false => Matrix { values, row_stride: columns, column_stride: 1 },
                true => Matrix { values, row_stride: 1, column_stride: rows },
            };
            let a = matrix(&left, rows, inner, transposed[0]);
            let b = matrix(&right, inner, columns, transposed[1]);
            let mut out = numbers(rows * columns, 3);
            let before = match accumulate {
                true => out.clone(),
                false => vec![0.0; rows * columns],
            };
            multiply(&mut out, shape, a, b, accumulate);
            for (got, expected) in out.iter().zip(naive(shape, a, b, &before)) {
                prop_assert!((f64::from(*got) - expected).abs() < 1e-4, "{got} {expected}");
            }
        }
    }
}
