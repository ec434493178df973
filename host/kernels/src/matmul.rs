//! Batched matrix products between preallocated buffers: of floats on the calling thread, of bfloat16 by libtorch.

use std::ops::Range;

use pbg_gemm::buffer::FloatBuffer;
use pbg_gemm::{OutputMatrix, StridedMatrix, multiply};

use crate::error::StepError;
use crate::half::HalfBuffer;
use crate::libtorch::{self, HalfLayout, HalfMatrices};

/// Buffer that contains matrices.
pub(crate) trait Matrices: Sized {
    /// Computes the same as [`product`], for matrices that are not empty.
    fn multiply(
        &mut self,
        block: MatrixBlock,
        a: &Factor<'_, Self>,
        b: &Factor<'_, Self>,
        accumulate: bool,
    ) -> Result<(), StepError>;
}

impl Matrices for FloatBuffer {
    fn multiply(
        &mut self,
        block: MatrixBlock,
        a: &Factor<'_, Self>,
        b: &Factor<'_, Self>,
        accumulate: bool,
    ) -> Result<(), StepError> {
        let inner = match a.transposed {
            true => a.block.rows,
            false => a.block.columns,
        };
        for i in 0..block.count {
            let out = OutputMatrix {
                values: &mut self.as_mut_slice()[block.offset + i * block.stride..],
                row_stride: block.row_stride,
            };
            multiply(
                out,
                [block.rows, inner, block.columns],
                a.matrix(i),
                b.matrix(i),
                accumulate,
            );
        }
        Ok(())
    }
}

impl Matrices for HalfBuffer {
    fn multiply(
        &mut self,
        block: MatrixBlock,
        a: &Factor<'_, Self>,
        b: &Factor<'_, Self>,
        accumulate: bool,
    ) -> Result<(), StepError> {
        libtorch::installed()?.multiply(
            &mut self.bits_mut()[block.offset..],
            block.layout(),
            a.matrices(),
            b.matrices(),
            accumulate,
        )
    }
}

/// Equally large matrices at equal distances in a buffer: `count` matrices of `rows` x `columns`, whose rows are
/// contiguous.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MatrixBlock {
    /// Start of the first matrix, in numbers.
    pub(crate) offset: usize,
    /// Number of matrices.
    pub(crate) count: usize,
    /// Numbers from the start of one matrix to the start of the next.
    pub(crate) stride: usize,
    /// Rows per matrix.
    pub(crate) rows: usize,
    /// Columns per matrix.
    pub(crate) columns: usize,
    /// Numbers from one row to the next. In bf16, rows follow each other without gaps.
    pub(crate) row_stride: usize,
}

impl MatrixBlock {
    /// Returns the block of `count` matrices that follow each other without gaps, from the start of the buffer on.
    pub(crate) fn dense(count: usize, rows: usize, columns: usize) -> Self {
        Self {
            offset: 0,
            count,
            stride: rows * columns,
            rows,
            columns,
            row_stride: columns,
        }
    }

    /// Returns the block of some rows of each matrix.
    pub(crate) fn with_rows(self, rows: Range<usize>) -> Self {
        Self {
            offset: self.offset + rows.start * self.row_stride,
            rows: rows.len(),
            ..self
        }
    }

    /// Returns the block of some columns of each matrix.
    pub(crate) fn with_columns(self, columns: Range<usize>) -> Self {
        Self {
            offset: self.offset + columns.start,
            columns: columns.len(),
            ..self
        }
    }

    /// Returns the block of a single matrix.
    pub(crate) fn one(offset: usize, rows: usize, columns: usize) -> Self {
        Self {
            offset,
            ..Self::dense(1, rows, columns)
        }
    }

    /// Returns the numbers from the start of the first matrix to the end of the last, if they follow each other without
    /// gaps.
    pub(crate) fn floats(&self) -> usize {
        self.count * self.rows * self.columns
    }

    fn layout(&self) -> HalfLayout {
        debug_assert_eq!(self.row_stride, self.columns, "rows without gaps");
        HalfLayout {
            count: self.count,
            stride: self.stride,
            rows: self.rows,
            columns: self.columns,
        }
    }
}

/// A factor of a product: matrices of a buffer, all of them transposed or none.
#[derive(Debug)]
pub(crate) struct Factor<'a, M> {
    buffer: &'a M,
    block: MatrixBlock,
    transposed: bool,
}

impl<'a, M: Matrices> Factor<'a, M> {
    /// Returns a factor of the matrices as they are stored.
    pub(crate) fn plain(buffer: &'a M, block: MatrixBlock) -> Self {
        Self {
            buffer,
            block,
            transposed: false,
        }
    }

    /// Returns a factor of the transposed matrices.
    pub(crate) fn transposed(buffer: &'a M, block: MatrixBlock) -> Self {
        Self {
            buffer,
            block,
            transposed: true,
        }
    }
}

impl Factor<'_, FloatBuffer> {
    /// Returns matrix `i` of the block.
    fn matrix(&self, i: usize) -> StridedMatrix<'_> {
        let next_row = self.block.row_stride;
        let (row_stride, column_stride) = match self.transposed {
            true => (1, next_row),
            false => (next_row, 1),
        };
        StridedMatrix {
            values: &self.buffer.as_slice()[self.block.offset + i * self.block.stride..],
            row_stride,
            column_stride,
        }
    }
}

impl Factor<'_, HalfBuffer> {
    fn matrices(&self) -> HalfMatrices<'_> {
        HalfMatrices {
            bits: &self.buffer.bits()[self.block.offset..],
            layout: self.block.layout(),
            transposed: self.transposed,
        }
    }
}

/// Computes `out = a b`, or `out += a b` with `accumulate`, matrix by matrix.
///
/// `out` is borrowed exclusively, so it cannot be the buffer of a factor.
pub(crate) fn product<M: Matrices>(
    out: &mut M,
    block: MatrixBlock,
    a: Factor<'_, M>,
    b: Factor<'_, M>,
    accumulate: bool,
) -> Result<(), StepError> {
    if block.count == 0 || block.rows * block.columns == 0 {
        return Ok(());
    }
    out.multiply(block, &a, &b, accumulate)
}
