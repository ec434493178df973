//! The loops of a program's steps, over a few rows of one component's width.

use pbg_rows::vector;

/// Rows to read, `stride` floats apart; with stride 0, one row that is repeated.
#[derive(Clone, Copy)]
pub(super) struct RowsRef<'a> {
    pub(super) values: &'a [f32],
    pub(super) stride: usize,
}

impl<'a> RowsRef<'a> {
    #[inline(always)]
    pub(super) fn row(&self, row: usize, width: usize) -> &'a [f32] {
        &self.values[row * self.stride..][..width]
    }
}

/// Rows to write, `stride` floats apart.
pub(super) struct RowsMut<'a> {
    pub(super) values: &'a mut [f32],
    pub(super) stride: usize,
}

/// Number and width of the rows of a step.
#[derive(Clone, Copy)]
pub(super) struct RowsShape {
    pub(super) rows: usize,
    pub(super) width: usize,
}

impl RowsShape {
    /// Returns the same numbers as a single row if rows are contiguous and none is repeated.
    #[inline(always)]
    fn joined(self, strides: impl IntoIterator<Item = usize>) -> Self {
        let dense = strides.into_iter().all(|stride| stride == self.width);
        match dense {
            true => Self {
                rows: 1,
                width: self.rows * self.width,
            },
            false => self,
        }
    }
}

/// `out = f(x)`
#[inline(always)]
pub(super) fn map(
    out: &mut RowsMut<'_>,
    x: RowsRef<'_>,
    extent: RowsShape,
    f: impl Fn(f32) -> f32,
) {
    let RowsShape { rows, width } = extent.joined([out.stride, x.stride]);
    for row in 0..rows {
        let out = &mut out.values[row * out.stride..][..width];
        for (out, &x) in out.iter_mut().zip(x.row(row, width)) {
            *out = f(x);
        }
    }
}

/// Sets all elements of each row `i` to `f(i)`.
#[inline(always)]
pub(super) fn repeat(out: &mut RowsMut<'_>, extent: RowsShape, f: impl Fn(usize) -> f32) {
    let RowsShape { rows, width } = extent;
    for row in 0..rows {
        out.values[row * out.stride..][..width].fill(f(row));
    }
}

/// Partial sums of a row, in as many registers as hide the latency of an addition.
const SUMS: usize = 32;

/// Sets the elements of each row that are `written` to the sum of `f(x)` over the whole row.
#[inline(always)]
pub(super) fn sums(
    out: &mut RowsMut<'_>,
    x: RowsRef<'_>,
    [written, whole]: [RowsShape; 2],
    f: impl Fn(f32) -> f32,
) {
    for row in 0..whole.rows {
        let mut sums = [0.0; SUMS];
        let (chunks, rest) = x.row(row, whole.width).as_chunks::<SUMS>();
        for chunk in chunks {
            for i in 0..SUMS {
                sums[i] += f(chunk[i]);
            }
        }
        for (sum, &x) in sums.iter_mut().zip(rest) {
            *sum += f(x);
        }
        let sum = vector::join_lanes(sums, |a, b| a + b);
        out.values[row * out.stride..][..written.width].fill(sum);
    }
}

/// Sets all elements of each row to its first one.
#[inline(always)]
pub(super) fn spread(out: &mut RowsMut<'_>, extent: RowsShape) {
    let RowsShape { rows, width } = extent;
    for row in 0..rows {
        let row = &mut out.values[row * out.stride..][..width];
        if let Some(&first) = row.first() {
            row.fill(first);
        }
    }
}

/// `out = f(a, b)`
#[inline(always)]
pub(super) fn zip(
    out: &mut RowsMut<'_>,
    [a, b]: [RowsRef<'_>; 2],
    extent: RowsShape,
    f: impl Fn(f32, f32) -> f32,
) {
    let RowsShape { rows, width } = extent.joined([out.stride, a.stride, b.stride]);
    for row in 0..rows {
        let out = &mut out.values[row * out.stride..][..width];
        let operands = a.row(row, width).iter().zip(b.row(row, width));
        for (out, (&a, &b)) in out.iter_mut().zip(operands) {
            *out = f(a, b);
        }
    }
}

/// `out = f(a, b, c)`
#[inline(always)]
pub(super) fn zip3(
    out: &mut RowsMut<'_>,
    [a, b, c]: [RowsRef<'_>; 3],
    extent: RowsShape,
    f: impl Fn(f32, f32, f32) -> f32,
) {
    let RowsShape { rows, width } = extent.joined([out.stride, a.stride, b.stride, c.stride]);
    for row in 0..rows {
        let out = &mut out.values[row * out.stride..][..width];
        let operands = a.row(row, width).iter().zip(b.row(row, width));
        let operands = operands.zip(c.row(row, width));
        for (out, ((&a, &b), &c)) in out.iter_mut().zip(operands) {
            *out = f(a, b, c);
        }
    }
}

/// `out = f(a, b, c, d)`
#[inline(always)]
pub(super) fn zip4(
    out: &mut RowsMut<'_>,
    [a, b, c, d]: [RowsRef<'_>; 4],
    extent: RowsShape,
    f: impl Fn(f32, f32, f32, f32) -> f32,
) {
    let strides = [out.stride, a.stride, b.stride, c.stride, d.stride];
    let RowsShape { rows, width } = extent.joined(strides);
    for row in 0..rows {
        let out = &mut out.values[row * out.stride..][..width];
        let first = a.row(row, width).iter().zip(b.row(row, width));
        let second = c.row(row, width).iter().zip(d.row(row, width));
        for (out, ((&a, &b), (&c, &d))) in out.iter_mut().zip(first.zip(second)) {
            *out = f(a, b, c, d);
        }
    }
}
