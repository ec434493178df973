//! Operators of relation types on a device, forward and backward.
//!
//! With static relations all rows have the same parameters; with dynamic ones every row has those of its edge.

use pbg_core::model::Operator;
use tch::{TchError, Tensor};

use super::fused::{CudaKernels, OperatorKernel, SelectedRows};
use super::parameter_rows::ParameterRows;
use super::traced_operator::OperatorInputs;

/// Largest number of floats of matrices that are gathered at once, if every row has its own matrix.
const MATRICES: i64 = 16 << 20;

/// An operator, and the parameters that its rows use.
#[derive(Clone, Copy)]
pub(super) struct OperatorApplication<'a> {
    pub(super) operator: Operator,
    /// Index of each row's relation among those that occur; `None` if there is only one.
    pub(super) relations: Option<&'a Tensor>,
    /// Kernels; `None` without a GPU.
    pub(super) kernels: Option<&'a CudaKernels>,
}

impl OperatorApplication<'_> {
    /// Computes `y = f(x)`, row by row.
    pub(super) fn forward(
        &self,
        parameters: &[ParameterRows],
        x: &Tensor,
    ) -> Result<Tensor, TchError> {
        if let Some(OperatorKernel { kernels, operator }) = self.kernel() {
            let rows = SelectedRows::all(x);
            return kernels.transform(operator, parameters, self.relations, rows);
        }
        let of = |index: usize| self.rows(&parameters[index].values);
        match self.operator {
            Operator::None => x.f_mul_scalar(1.0),
            Operator::Diagonal => x.f_mul(&of(0)?),
            Operator::Translation => x.f_add(&of(0)?),
            Operator::ComplexDiagonal => complex_product(&halves(x)?, &[of(0)?, of(1)?], false),
            Operator::Linear => self.multiply(&parameters[0], x, false),
            Operator::Affine => self.multiply(&parameters[0], x, false)?.f_add(&of(1)?),
            Operator::Traced(formula) => {
                let parameters = self.all_rows(parameters)?;
                let given = OperatorInputs::new(&formula, x, None, &parameters)?;
                given.outputs(formula.forward(), formula.components())
            }
        }
    }

    /// Returns the kernel for the operator, if one exists.
    fn kernel(&self) -> Option<OperatorKernel<'_>> {
        OperatorKernel::of(self.kernels, self.operator)
    }

    /// Computes the gradient of `x` from the gradient of `y`, which may be overwritten. Adds the gradients of the
    /// parameters to their sums.
    pub(super) fn backward(
        &self,
        parameters: &mut [ParameterRows],
        x: &Tensor,
        gradient: &Tensor,
    ) -> Result<Tensor, TchError> {
        if let Some(OperatorKernel { kernels, operator }) = self.kernel() {
            let (relations, rows) = (self.relations, SelectedRows::all(x));
            kernels.transform_backward(operator, parameters, relations, rows, gradient, None)?;
            return Ok(gradient.shallow_clone());
        }
        match self.operator {
            Operator::None => gradient.f_mul_scalar(1.0),
            Operator::Diagonal => {
                self.sum(&mut parameters[0], &gradient.f_mul(x)?)?;
                gradient.f_mul(&self.rows(&parameters[0].values)?)
            }
            Operator::Translation => {
                self.sum(&mut parameters[0], gradient)?;
                gradient.f_mul_scalar(1.0)
            }
            Operator::ComplexDiagonal => {
                let (x, gradient) = (halves(x)?, halves(gradient)?);
                let product = halves(&complex_product(&gradient, &x, true)?)?;
                for (parameter, product) in parameters.iter_mut().zip(&product) {
                    self.sum(parameter, product)?;
                }
                let values = [
                    self.rows(&parameters[0].values)?,
                    self.rows(&parameters[1].values)?,
                ];
                complex_product(&gradient, &values, true)
            }
            Operator::Linear | Operator::Affine => {
                self.sum_outer(&mut parameters[0], gradient, x)?;
                if let Some(translation) = parameters.get_mut(1) {
                    self.sum(translation, gradient)?;
                }
                self.multiply(&parameters[0], gradient, true)
            }
            Operator::Traced(formula) => {
                let values = self.all_rows(parameters)?;
                let given = OperatorInputs::new(&formula, x, Some(gradient), &values)?;
                let gradients = given.evaluate(formula.backward())?;
                let (components, others) = gradients.split_at(formula.components());
                for (parameter, gradient) in parameters.iter_mut().zip(others) {
                    if let Some(gradient) = gradient {
                        self.sum(parameter, &given.spread(gradient)?)?;
                    }
                }
                given.joined(components)
            }
        }
    }

    /// Returns the values of all parameters; see [`OperatorApplication::rows`].
    fn all_rows(&self, parameters: &[ParameterRows]) -> Result<Vec<Tensor>, TchError> {
        let rows = |parameter: &ParameterRows| self.rows(&parameter.values);
        parameters.iter().map(rows).collect()
    }

    /// Returns a parameter's values for every row, or one row for all.
    fn rows(&self, values: &Tensor) -> Result<Tensor, TchError> {
        match self.relations {
            Some(relations) => values.f_index_select(0, relations),
            None => values.f_narrow(0, 0, 1),
        }
    }

    /// Adds the gradients of every row to the sums of its parameter.
    fn sum(&self, parameter: &mut ParameterRows, rows: &Tensor) -> Result<(), TchError> {
        let sums = &mut parameter.gradients;
        let _same = match self.relations {
            Some(relations) => sums.f_index_add_(0, relations, rows)?,
            None => sums.f_add_(&rows.f_sum_dim_intlist(0_i64, true, None)?)?,
        };
        Ok(())
    }

    /// Computes `M x` for every row, or `M' x`.
    fn multiply(
        &self,
        matrix: &ParameterRows,
        x: &Tensor,
        transposed: bool,
    ) -> Result<Tensor, TchError> {
        let size = x.size()[1];
        let Some(relations) = self.relations else {
            let matrix = matrix.values.f_reshape([size, size])?;
            return match transposed {
                false => x.f_mm(&matrix.f_transpose(0, 1)?),
                true => x.f_mm(&matrix),
            };
        };
        let mut made = Vec::new();
        for (first, count) in blocks(x.size()[0], size) {
            let relations = relations.f_narrow(0, first, count)?;
            let matrices = matrix.values.f_index_select(0, &relations)?;
            let matrices = matrices.f_reshape([count, size, size])?;
            let x = x.f_narrow(0, first, count)?.f_unsqueeze(2)?;
            let product = match transposed {
                false => matrices.f_bmm(&x)?,
                true => matrices.f_transpose(1, 2)?.f_bmm(&x)?,
            };
            made.push(product.f_squeeze_dim(2)?);
        }
        Tensor::f_cat(&made, 0)
    }

    /// Adds `g x'` of every row to the sums of its matrix.
    fn sum_outer(
        &self,
        matrix: &mut ParameterRows,
        g: &Tensor,
        x: &Tensor,
    ) -> Result<(), TchError> {
        let size = x.size()[1];
        if self.relations.is_none() {
            let outer = g.f_transpose(0, 1)?.f_mm(x)?.f_reshape([1, size * size])?;
            let _same = matrix.gradients.f_add_(&outer)?;
            return Ok(());
        }
        for (first, count) in blocks(x.size()[0], size) {
            let g = g.f_narrow(0, first, count)?.f_unsqueeze(2)?;
            let x = x.f_narrow(0, first, count)?.f_unsqueeze(1)?;
            let outer = g.f_bmm(&x)?.f_reshape([count, size * size])?;
            if let Some(relations) = self.relations {
                let relations = relations.f_narrow(0, first, count)?;
                let _same = matrix.gradients.f_index_add_(0, &relations, &outer)?;
            }
        }
        Ok(())
    }
}

/// Splits rows into blocks (first row, number of rows) whose matrices of `size` x `size` are gathered at once.
fn blocks(rows: i64, size: i64) -> impl Iterator<Item = (i64, i64)> {
    let at_once = (MATRICES / (size * size).max(1)).max(1);
    (0..rows)
        .step_by(at_once as usize)
        .map(move |first| (first, at_once.min(rows - first)))
}

/// Returns the real and imaginary parts of rows.
fn halves(x: &Tensor) -> Result<[Tensor; 2], TchError> {
    let half = x.size()[1] / 2;
    Ok([x.f_narrow(1, 0, half)?, x.f_narrow(1, half, half)?])
}

/// Computes `x y`, or `x` times the conjugate of `y`.
fn complex_product(
    [a, b]: &[Tensor; 2],
    [c, d]: &[Tensor; 2],
    conjugate: bool,
) -> Result<Tensor, TchError> {
    let (ac, bd) = (a.f_mul(c)?, b.f_mul(d)?);
    let (ad, bc) = (a.f_mul(d)?, b.f_mul(c)?);
    let parts = match conjugate {
        false => [ac.f_sub(&bd)?, ad.f_add(&bc)?],
        true => [ac.f_add(&bd)?, bc.f_sub(&ad)?],
    };
    Tensor::f_cat(&parts, 1)
}
