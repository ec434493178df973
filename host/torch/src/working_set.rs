//! Rows that a batch touches, each once, with the sums of their gradients.

use tch::{TchError, Tensor};

use super::fused::{CudaKernels, CudaUpdate, OperatorKernel, RowUpdate, SelectedRows};
use super::parameter_rows::ParameterRows;
use super::sums::BatchSums;
use super::tables::TableRows;
use super::touched::TouchedRows;
use pbg_rows::optimizer::EPSILON;

/// Copies of rows of one or two tables; those of the left table come first.
pub(super) struct WorkingSet {
    /// Rows, `[touched, dimension]`.
    rows: Tensor,
    /// Accumulators, `[touched]`.
    row_adagrad: Tensor,
    /// Sums of gradients over the batch, `[touched, dimension]`.
    sums: Tensor,
}

impl WorkingSet {
    /// Copies the rows that a batch touches. The right table is `None` if it is the left one.
    pub(super) fn load(
        tables: [Option<&TableRows>; 2],
        touched: &TouchedRows,
    ) -> Result<Self, TchError> {
        let (mut rows, mut accumulators) = (Vec::new(), Vec::new());
        for (table, ids) in tables.into_iter().zip(&touched.rows) {
            if let Some(table) = table {
                let (some, accumulated) = table.select(ids)?;
                rows.push(some);
                accumulators.push(accumulated);
            }
        }
        let rows = one_behind_the_other(rows)?;
        Ok(Self {
            sums: rows.f_zeros_like()?,
            row_adagrad: one_behind_the_other(accumulators)?,
            rows,
        })
    }

    /// Copies the rows at `places`. Rows longer than `max_norm` are scaled down to it, in the working set, too.
    pub(super) fn look_up(
        &mut self,
        places: &Tensor,
        max_norm: Option<f32>,
    ) -> Result<Tensor, TchError> {
        let rows = self.rows.f_index_select(0, places)?;
        let Some(max) = max_norm else {
            return Ok(rows);
        };
        let norms = rows
            .f_square()?
            .f_sum_dim_intlist(1_i64, true, None)?
            .f_sqrt()?;
        // As torch does, so that rounding does not leave a row slightly too long.
        let scales = norms
            .f_add_scalar(1e-7)?
            .f_reciprocal()?
            .f_mul_scalar(f64::from(max))?;
        let too_long = norms.f_gt(f64::from(max))?;
        let rows = rows.f_mul(&scales.f_where_self(&too_long, &scales.f_ones_like()?)?)?;
        // If a place occurs twice, both rows are the same.
        let _same = self.rows.f_index_copy_(0, places, &rows)?;
        Ok(rows)
    }

    /// Applies an operator to the rows at `places`, with a kernel.
    pub(super) fn transformed(
        &self,
        kernel: OperatorKernel<'_>,
        places: &Tensor,
        parameters: &[ParameterRows],
        relations: Option<&Tensor>,
    ) -> Result<Tensor, TchError> {
        let OperatorKernel { kernels, operator } = kernel;
        let rows = SelectedRows::at(&self.rows, places);
        kernels.transform(operator, parameters, relations, rows)
    }

    /// Backward pass of `transformed`: adds the gradients to the sums of rows and of parameters.
    pub(super) fn add_transform_gradients(
        &mut self,
        kernel: OperatorKernel<'_>,
        places: &Tensor,
        parameters: &mut [ParameterRows],
        relations: Option<&Tensor>,
        gradients: &Tensor,
    ) -> Result<(), TchError> {
        let OperatorKernel { kernels, operator } = kernel;
        let rows = SelectedRows::at(&self.rows, places);
        let sums = Some(&self.sums);
        kernels.transform_backward(operator, parameters, relations, rows, gradients, sums)
    }

    /// Adds gradients of the rows at `places` to their sums.
    pub(super) fn add(&mut self, places: &Tensor, gradients: &Tensor) -> Result<(), TchError> {
        let _same = self.sums.f_index_add_(0, places, gradients)?;
        Ok(())
    }

    /// Applies row-Adagrad with the sums, and sets them to zero. Rows whose gradients are not finite are skipped;
    /// returns whether there were none.
    pub(super) fn update(&mut self, lr: f32) -> Result<Tensor, TchError> {
        let means = self.sums.f_square()?.f_mean_dim(1_i64, false, None)?;
        let sums = self.row_adagrad.f_add(&means)?;
        let finite = sums.f_isfinite()?;
        let steps = sums
            .f_sqrt()?
            .f_add_scalar(f64::from(EPSILON))?
            .f_reciprocal()?
            .f_mul_scalar(f64::from(-lr))?
            .f_unsqueeze(1)?;
        let moved = self.sums.f_mul(&steps)?;
        let moved = moved.f_masked_fill(&finite.f_logical_not()?.f_unsqueeze(1)?, 0.0)?;
        self.row_adagrad = sums.f_where_self(&finite, &self.row_adagrad)?;
        let _same = self.rows.f_add_(&moved)?;
        let _same = self.sums.f_zero_()?;
        finite.f_all()
    }

    /// Applies row-Adagrad on a GPU, unless the loss is not finite.
    pub(super) fn apply(
        &mut self,
        kernels: &CudaKernels,
        lr: f32,
        sums: &BatchSums,
    ) -> Result<(), TchError> {
        let rows = RowUpdate {
            rows: &self.rows,
            accumulators: &self.row_adagrad,
            gradients: &self.sums,
            to: None,
        };
        kernels.update_rows(&rows, lr, sums)
    }

    /// Applies row-Adagrad on a GPU, and writes the rows back to their tables.
    pub(super) fn apply_to(
        &self,
        tables: [Option<&mut TableRows>; 2],
        touched: &TouchedRows,
        update: &CudaUpdate<'_>,
    ) -> Result<(), TchError> {
        let mut start = 0;
        for (table, ids) in tables.into_iter().zip(&touched.rows) {
            let count = ids.size()[0];
            if let Some(table) = table {
                let part = |of: &Tensor| of.f_narrow(0, start, count);
                let rows = RowUpdate {
                    rows: &part(&self.rows)?,
                    accumulators: &part(&self.row_adagrad)?,
                    gradients: &part(&self.sums)?,
                    to: Some((ids, table.changing())),
                };
                update.kernels.update_rows(&rows, update.lr, update.sums)?;
            }
            start += count;
        }
        Ok(())
    }

    /// Writes the rows back to their tables.
    pub(super) fn store(
        &self,
        tables: [Option<&mut TableRows>; 2],
        touched: &TouchedRows,
    ) -> Result<(), TchError> {
        let mut start = 0;
        for (table, ids) in tables.into_iter().zip(&touched.rows) {
            let count = ids.size()[0];
            if let Some(table) = table {
                let rows = self.rows.f_narrow(0, start, count)?;
                let accumulated = self.row_adagrad.f_narrow(0, start, count)?;
                table.replace(ids, &rows, &accumulated)?;
            }
            start += count;
        }
        Ok(())
    }
}

/// Concatenates the rows of all tensors; a single tensor is returned as it is.
fn one_behind_the_other(mut tensors: Vec<Tensor>) -> Result<Tensor, TchError> {
    match tensors.len() {
        1 => Ok(tensors.remove(0)),
        _ => Tensor::f_cat(&tensors, 0),
    }
}
