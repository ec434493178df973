//! Product that a kernel computes.

/// A matrix in a slice: element `[i, j]` is `values[i * row_stride + j * column_stride]`.
#[derive(Clone, Copy, Debug)]
pub struct StridedMatrix<'a> {
    /// Slice that contains the elements.
    pub values: &'a [f32],
    /// Floats from one row to the next.
    pub row_stride: usize,
    /// Floats from one column to the next.
    pub column_stride: usize,
}

/// The matrix that a product writes: element `[i, j]` is `values[i * row_stride + j]`.
#[derive(Debug)]
pub struct OutputMatrix<'a> {
    /// Slice that contains the elements.
    pub values: &'a mut [f32],
    /// Floats from one row to the next, at least the number of columns. Floats between rows are left as they are.
    pub row_stride: usize,
}

impl<'a> OutputMatrix<'a> {
    /// Returns the matrix whose rows of `columns` floats follow each other without gaps.
    pub fn dense(values: &'a mut [f32], columns: usize) -> Self {
        Self {
            values,
            row_stride: columns,
        }
    }
}

/// Returns the place of a matrix's last element; `None` if no slice is so long.
fn last_element(extents: [usize; 2], strides: [usize; 2]) -> Option<usize> {
    let [rows, columns] = [0, 1].map(|i: usize| (extents[i] - 1).checked_mul(strides[i]));
    rows?.checked_add(columns?)
}

impl StridedMatrix<'_> {
    fn fits(&self, rows: usize, columns: usize) -> bool {
        let last = last_element([rows, columns], [self.row_stride, self.column_stride]);
        last.is_some_and(|last| last < self.values.len())
    }
}

/// Greatest number of terms of a sum that are added up in registers before the result is written, except with AMX.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) const DEPTH: usize = 512;

/// Floats of a packed factor that stay in the second-level cache while the other factor is streamed through it.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) const L2_FLOATS: usize = 64 << 10;

/// Number of terms from which it is faster to pack rows of a left factor whose columns are contiguous.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(super) const MANY_TERMS: usize = 128;

/// A checked product: `out [rows, columns]`, of contiguous rows, of `a [rows, inner]` and `b [inner, columns]`, which lie within
/// their slices and have contiguous columns or rows. No extent is 0.
pub(super) struct CheckedProduct<'a> {
    pub(super) out: &'a mut [f32],
    /// Floats from one row of the result to the next.
    pub(super) out_stride: usize,
    pub(super) rows: usize,
    pub(super) inner: usize,
    pub(super) columns: usize,
    pub(super) a: StridedMatrix<'a>,
    pub(super) b: StridedMatrix<'a>,
    pub(super) accumulate: bool,
}

impl<'a> CheckedProduct<'a> {
    /// Checks a product. Returns `None` if nothing remains to be computed.
    pub(super) fn new(
        out: OutputMatrix<'a>,
        [rows, inner, columns]: [usize; 3],
        a: StridedMatrix<'a>,
        b: StridedMatrix<'a>,
        accumulate: bool,
    ) -> Option<Self> {
        if rows == 0 || columns == 0 {
            return None;
        }
        let out_stride = out.row_stride;
        assert!(out_stride >= columns, "rows of the result do not overlap");
        let last = last_element([rows, columns], [out_stride, 1]);
        let fits = last.is_some_and(|last| last < out.values.len());
        assert!(fits, "the result lies in its slice");
        let out = &mut out.values[..(rows - 1) * out_stride + columns];
        if inner == 0 {
            if !accumulate {
                out.chunks_mut(out_stride)
                    .for_each(|row| row[..columns].fill(0.0));
            }
            return None;
        }
        let contiguous = |m: &StridedMatrix<'_>| m.row_stride == 1 || m.column_stride == 1;
        assert!(
            a.fits(rows, inner) && contiguous(&a),
            "the left factor lies in its slice"
        );
        assert!(
            b.fits(inner, columns) && contiguous(&b),
            "the right factor lies in its slice"
        );
        Some(Self {
            out,
            out_stride,
            rows,
            inner,
            columns,
            a,
            b,
            accumulate,
        })
    }
}
