//! Rows of one side of a slice on a device: prepared for comparison, and their gradients.

use pbg_core::model::{Comparator, Operator};
use tch::{TchError, Tensor};

use super::operator::OperatorApplication;
use super::parameter_rows::ParameterRows;
use pbg_kernels::device::ScoreFunction;
use pbg_rows::regularizer::{PenaltyTerms, RowPenalty};

/// Rows ready for comparison, with the data for the backward pass. Positives come first, then draws, chunk by chunk,
/// without padding.
pub(super) struct DeviceRows {
    /// Rows, `[rows, dimension]`.
    pub(super) values: Tensor,
    /// Rows before the operator, if there is one.
    input: Option<Tensor>,
    /// For `cos`: the inverse of each row's length, `[rows, 1]`.
    inverse_norms: Option<Tensor>,
    /// For distances: squared lengths, `[rows]`.
    pub(super) squares: Option<Tensor>,
    /// Biases, `[rows]`.
    pub(super) biases: Option<Tensor>,
}

/// Gradients of prepared rows, in the same order.
pub(super) struct DeviceGradients {
    /// Gradients of the rows, `[rows, dimension]`.
    pub(super) values: Tensor,
    /// Gradients of the biases, `[rows]`.
    pub(super) bias: Option<Tensor>,
    /// For distances: sums of the factors by which the row itself is multiplied and then subtracted, `[rows]`.
    pub(super) row_factors: Option<Tensor>,
}

impl DeviceRows {
    /// Transforms rows and prepares them.
    pub(super) fn new(
        rows: Tensor,
        transform: &OperatorApplication<'_>,
        parameters: &[ParameterRows],
        comparison: ScoreFunction,
    ) -> Result<Self, TchError> {
        let (values, input) = match transform.operator {
            Operator::None => (rows, None),
            _ => (transform.forward(parameters, &rows)?, Some(rows)),
        };
        Self::compared(values, input, comparison)
    }

    /// Prepares rows that are already transformed, if their values before the operator are not needed.
    pub(super) fn without_input(
        values: Tensor,
        comparison: ScoreFunction,
    ) -> Result<Self, TchError> {
        Self::compared(values, None, comparison)
    }

    fn compared(
        values: Tensor,
        input: Option<Tensor>,
        comparison: ScoreFunction,
    ) -> Result<Self, TchError> {
        let mut prepared = Self {
            values,
            input,
            inverse_norms: None,
            squares: None,
            biases: None,
        };
        if comparison.bias {
            let count = prepared.values.size()[0];
            let biases = prepared.values.f_narrow_copy(1, 0, 1)?.f_reshape([count])?;
            prepared.biases = Some(biases);
            let _zero = prepared.values.f_narrow(1, 0, 1)?.f_zero_()?;
        }
        match comparison.comparator {
            // Formulas are refused before any batch.
            Comparator::Dot | Comparator::L1 | Comparator::ComplexL1 | Comparator::Traced(_) => {}
            Comparator::Cos => {
                let norms = squares(&prepared.values, true)?.f_sqrt()?;
                // A zero vector has no direction: its score is 0 with every row, and it gets no gradient.
                let inverse = norms
                    .f_reciprocal()?
                    .f_masked_fill(&norms.f_eq(0.0)?, 0.0)?;
                prepared.values = prepared.values.f_mul(&inverse)?;
                prepared.inverse_norms = Some(inverse);
            }
            Comparator::L2 | Comparator::SquaredL2 => {
                prepared.squares = Some(squares(&prepared.values, false)?);
            }
        }
        Ok(prepared)
    }

    /// Returns zero gradients of these rows.
    pub(super) fn gradients(&self, comparison: ScoreFunction) -> Result<DeviceGradients, TchError> {
        self.gradients_in(self.values.f_zeros_like()?, comparison)
    }

    /// Returns zero gradients of the rows of both sides, which share one tensor.
    pub(super) fn gradients_of(
        rows: &[Self; 2],
        comparison: ScoreFunction,
    ) -> Result<[DeviceGradients; 2], TchError> {
        let [lhs, rhs] = rows;
        let [of_lhs, of_rhs] = [lhs, rhs].map(|rows| rows.values.size()[0]);
        let size = [of_lhs + of_rhs, lhs.values.size()[1]];
        let zeros = Tensor::f_zeros(size, (lhs.values.kind(), lhs.values.device()))?;
        Ok([
            lhs.gradients_in(zeros.f_narrow(0, 0, of_lhs)?, comparison)?,
            rhs.gradients_in(zeros.f_narrow(0, of_lhs, of_rhs)?, comparison)?,
        ])
    }

    fn gradients_in(
        &self,
        values: Tensor,
        comparison: ScoreFunction,
    ) -> Result<DeviceGradients, TchError> {
        let count = self.values.size()[0];
        let zeros = || Tensor::f_zeros([count], (self.values.kind(), self.values.device()));
        Ok(DeviceGradients {
            values,
            bias: comparison.bias.then(zeros).transpose()?,
            row_factors: comparison.is_distance().then(zeros).transpose()?,
        })
    }

    /// Adds the gradient of the penalty on the first `count` rows, and returns its value.
    pub(super) fn regularize(
        &self,
        penalty: RowPenalty,
        count: i64,
        gradients: &mut DeviceGradients,
    ) -> Result<Tensor, TchError> {
        let mut rows = self.values.f_narrow(0, 0, count)?;
        // A bias counts like any coordinate; during the comparison its place holds a zero.
        if let Some(biases) = &self.biases {
            rows = rows.f_mul_scalar(1.0)?;
            let mut place = rows.f_narrow(1, 0, 1)?;
            place.f_copy_(&biases.f_narrow(0, 0, count)?.f_unsqueeze(1)?)?;
        }
        let (value, gradient) = penalties(penalty, &rows)?;
        let mut target = gradients.values.f_narrow(0, 0, count)?;
        let _same = target.f_add_(&gradient)?;
        value.f_sum(tch::Kind::Double)
    }

    /// Adds the gradient of the penalty on the first `count` rows before the operator, if there is one, and returns its
    /// value.
    pub(super) fn regularize_input(
        &self,
        penalty: RowPenalty,
        count: i64,
        gradients: &Tensor,
    ) -> Result<Option<Tensor>, TchError> {
        let Some(input) = &self.input else {
            return Ok(None);
        };
        let (value, gradient) = penalties(penalty, &input.f_narrow(0, 0, count)?)?;
        let mut target = gradients.f_narrow(0, 0, count)?;
        let _same = target.f_add_(&gradient)?;
        value.f_sum(tch::Kind::Double).map(Some)
    }

    /// Computes the gradients of the rows as they were looked up, and adds those of parameters to their sums.
    pub(super) fn backward(
        &self,
        gradients: DeviceGradients,
        transform: &OperatorApplication<'_>,
        parameters: &mut [ParameterRows],
    ) -> Result<Tensor, TchError> {
        let DeviceGradients {
            mut values,
            bias,
            row_factors,
        } = gradients;
        if let Some(row_factors) = row_factors {
            values = values.f_sub(&self.values.f_mul(&row_factors.f_unsqueeze(1)?)?)?;
        }
        // The bias was not part of the comparison; the gradient in its place comes from the regulariser.
        let mut regularizer = None;
        if bias.is_some() {
            regularizer = Some(values.f_narrow_copy(1, 0, 1)?);
            let _zero = values.f_narrow(1, 0, 1)?.f_zero_()?;
        }
        if let Some(inverse) = &self.inverse_norms {
            let along = values.f_mul(&self.values)?;
            let along = along.f_sum_dim_intlist(1_i64, true, None)?;
            values = values.f_sub(&self.values.f_mul(&along)?)?.f_mul(inverse)?;
        }
        if let (Some(bias), Some(regularizer)) = (bias, regularizer) {
            let mut place = values.f_narrow(1, 0, 1)?;
            place.f_copy_(&regularizer.f_add(&bias.f_unsqueeze(1)?)?)?;
        }
        match &self.input {
            Some(input) => transform.backward(parameters, input, &values),
            None => Ok(values),
        }
    }
}

/// Returns the squared lengths of rows.
fn squares(rows: &Tensor, keep: bool) -> Result<Tensor, TchError> {
    rows.f_square()?.f_sum_dim_intlist(1_i64, keep, None)
}

/// Returns the penalty on every row, and its gradient.
pub(super) fn penalties(penalty: RowPenalty, rows: &Tensor) -> Result<(Tensor, Tensor), TchError> {
    let coefficient = f64::from(penalty.coefficient);
    let half = rows.size()[1] / 2;
    // Lengths of the numbers, and the same for every coordinate.
    let (lengths, each) = match penalty.terms {
        PenaltyTerms::Squares => {
            let value = squares(rows, false)?.f_mul_scalar(coefficient)?;
            return Ok((value, rows.f_mul_scalar(2.0 * coefficient)?));
        }
        PenaltyTerms::CubedModuli => {
            let (re, im) = (rows.f_narrow(1, 0, half)?, rows.f_narrow(1, half, half)?);
            let lengths = re.f_square()?.f_add(&im.f_square()?)?.f_sqrt()?;
            let each = Tensor::f_cat(&[&lengths, &lengths], 1)?;
            (lengths, each)
        }
        PenaltyTerms::Cubes => {
            let lengths = rows.f_abs()?;
            (lengths.shallow_clone(), lengths)
        }
    };
    let value = lengths.f_square()?.f_mul(&lengths)?;
    let value = value.f_sum_dim_intlist(1_i64, false, None)?;
    let gradient = rows.f_mul(&each)?.f_mul_scalar(3.0 * coefficient)?;
    Ok((value.f_mul_scalar(coefficient)?, gradient))
}
