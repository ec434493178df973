//! Tests of every kernel that this processor supports, against sums in double precision.

use pbg_gemm::{Kernel, OutputMatrix, StridedMatrix, multiply};
use proptest::prelude::*;

/// Returns each sum in double precision, and the sum of its terms' absolute values, to which rounding is relative.
fn exact(
    [rows, inner, columns]: [usize; 3],
    a: StridedMatrix<'_>,
    b: StridedMatrix<'_>,
    before: &[f32],
) -> Vec<(f64, f64)> {
    let at = |m: &StridedMatrix<'_>, i: usize, j: usize| {
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
    assert_eq!(before.len(), rows * columns);
    before.iter().enumerate().map(sums).collect()
}

fn numbers(count: usize, phase: usize) -> Vec<f32> {
    let number = |i: usize| ((i * 37 + phase) % 101) as f32 / 50.0 - 1.0;
    (0..count).map(number).collect()
}

/// What is between rows of a result.
const GAP: f32 = 7.25;

/// Returns the row-major matrix of `rows` x `columns` in `values`; if transposed, `values` is its transpose, row-major.
fn matrix(values: &[f32], rows: usize, columns: usize, transposed: bool) -> StridedMatrix<'_> {
    let (row_stride, column_stride) = match transposed {
        false => (columns, 1),
        true => (1, rows),
    };
    StridedMatrix {
        values,
        row_stride,
        column_stride,
    }
}

fn assert_right(
    shape: [usize; 3],
    transposed: [bool; 2],
    accumulate: bool,
) -> Result<(), TestCaseError> {
    assert_right_with_gaps(shape, transposed, accumulate, 0)
}

/// Checks a product whose result has `gap` floats between rows, which must stay as they are.
fn assert_right_with_gaps(
    shape: [usize; 3],
    transposed: [bool; 2],
    accumulate: bool,
    gap: usize,
) -> Result<(), TestCaseError> {
    let [rows, inner, columns] = shape;
    let row_stride = columns + gap;
    let (left, right) = (numbers(rows * inner, 1), numbers(inner * columns, 2));
    let a = matrix(&left, rows, inner, transposed[0]);
    let b = matrix(&right, inner, columns, transposed[1]);
    let start = numbers(rows * columns, 3);
    let before = match accumulate {
        true => start.clone(),
        false => vec![0.0; rows * columns],
    };
    let expected = exact(shape, a, b, &before);
    let check = |out: &[f32]| {
        // The precision of f32, whichever numbers a kernel composes the products from.
        let rounding = f64::from(f32::EPSILON) * (inner as f64 + 2.0);
        let elements = out.chunks(row_stride).flat_map(|row| &row[..columns]);
        for (&got, (sum, size)) in elements.zip(&expected) {
            let error = (f64::from(got) - sum).abs();
            prop_assert!(error <= rounding * size, "{got} {sum}");
        }
        let mut gaps = out.chunks(row_stride).flat_map(|row| &row[columns..]);
        prop_assert!(gaps.all(|&float| float == GAP), "{shape:?}");
        Ok(())
    };
    let spread = || {
        let mut out = vec![GAP; rows * row_stride];
        for (row, start) in out.chunks_mut(row_stride).zip(start.chunks(columns)) {
            row[..columns].copy_from_slice(start);
        }
        out
    };
    let mut out = spread();
    let values = &mut out[..];
    multiply(OutputMatrix { values, row_stride }, shape, a, b, accumulate);
    check(&out)?;
    for kernel in Kernel::ALL.into_iter().filter(|kernel| kernel.is_usable()) {
        let mut out = spread();
        let values = &mut out[..];
        kernel.multiply(OutputMatrix { values, row_stride }, shape, a, b, accumulate);
        check(&out)?;
    }
    Ok(())
}

proptest! {
    #[test]
    fn products_are_sums_of_products(
        shape in [1_usize..70, 1_usize..70, 1_usize..150],
        transposed in any::<[bool; 2]>(),
        accumulate in any::<bool>(),
        gap in 0_usize..20,
    ) {
        assert_right_with_gaps(shape, transposed, accumulate, gap)?;
    }
}

#[test]
fn sums_of_many_terms_and_wide_factors() {
    for transposed in [[false, false], [false, true], [true, false], [true, true]] {
        assert_right([9, 1300, 200], transposed, true).unwrap();
        assert_right([3, 500, 300], transposed, false).unwrap();
        // More rows than fit the second-level cache, and more columns than fit the memory for panels.
        assert_right([170, 500, 260], transposed, false).unwrap();
        assert_right([9, 511, 1100], transposed, true).unwrap();
    }
}

#[test]
fn a_sum_of_nothing_is_zero() {
    let empty = matrix(&[], 0, 0, false);
    let mut out = [1.0; 6];
    multiply(
        OutputMatrix::dense(&mut out, 3),
        [2, 0, 3],
        empty,
        empty,
        true,
    );
    assert_eq!(out, [1.0; 6]);
    multiply(
        OutputMatrix::dense(&mut out, 3),
        [2, 0, 3],
        empty,
        empty,
        false,
    );
    assert_eq!(out, [0.0; 6]);
}

#[test]
#[should_panic(expected = "the right factor lies in its slice")]
fn a_factor_beyond_its_slice_is_refused() {
    let values = numbers(12, 0);
    let (a, b) = (matrix(&values, 3, 4, false), matrix(&values, 4, 4, false));
    multiply(
        OutputMatrix::dense(&mut [0.0; 12], 4),
        [3, 4, 4],
        a,
        b,
        false,
    );
}

#[test]
fn a_result_beyond_its_slice_is_refused() {
    let values = numbers(12, 0);
    let (a, b) = (matrix(&values, 3, 4, false), matrix(&values, 4, 3, false));
    // Too short, rows that overlap, and a stride with which the last place would overflow.
    for (floats, row_stride) in [(8, 3), (12, 2), (12, 1 << 63), (12, usize::MAX)] {
        let refused = std::panic::catch_unwind(|| {
            let mut out = vec![0.0; floats];
            let values = &mut out[..];
            multiply(OutputMatrix { values, row_stride }, [3, 4, 3], a, b, false);
        });
        assert!(refused.is_err(), "{floats} floats, {row_stride}");
    }
    let mut out = [0.0; 3 * 5 + 3];
    let values = &mut out[..];
    let row_stride = 5;
    multiply(OutputMatrix { values, row_stride }, [3, 4, 3], a, b, false);
}
