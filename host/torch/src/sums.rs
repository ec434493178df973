//! Sums over the edges of a batch: losses, violators and gradients.

use tch::{Kind, TchError, Tensor};

use super::device::TorchDevice;
use super::error::DeviceError;
use pbg_kernels::step::BatchStats;
use pbg_kernels::step::StepError;

/// Index of the regulariser, which follows the two losses and the two counts of violators.
pub(super) const REGULARIZER: usize = 4;
/// Index of the sum of gradients of positives' scores, which shows whether one of them is not finite.
pub(super) const POSITIVE_GRADIENTS: usize = 5;
/// Index of the number of rows and parameters whose gradients were not finite when a kernel applied them.
const NOT_FINITE: usize = 6;
const COUNT: usize = NOT_FINITE + 1;

/// Sums over the edges of a batch, kept on the device until they are read.
pub(super) struct BatchSums(Tensor);

impl BatchSums {
    pub(super) fn new(place: TorchDevice) -> Result<Self, TchError> {
        Ok(Self(Tensor::f_zeros(
            [COUNT as i64],
            (Kind::Double, place.device()),
        )?))
    }

    /// Returns all sums, as kernels expect them.
    pub(super) fn all(&self) -> &Tensor {
        &self.0
    }

    /// Returns the sums that the loss of one side is added to: losses, violators, and gradients of positives' scores.
    pub(super) fn of_loss(&self, side: usize) -> Result<[Tensor; 3], TchError> {
        let at = |index| self.0.f_narrow(0, index as i64, 1);
        Ok([at(side)?, at(2 + side)?, at(POSITIVE_GRADIENTS)?])
    }

    /// Adds a number that is on the device.
    pub(super) fn add(&mut self, index: usize, value: &Tensor) -> Result<(), TchError> {
        let mut sum = self.0.f_narrow(0, index as i64, 1)?;
        let _same = sum.f_add_(&value.f_to_kind(Kind::Double)?)?;
        Ok(())
    }

    /// Waits for the device and returns the sums. It is an error if the loss, its gradients or the gradients applied by
    /// a kernel are not finite.
    pub(super) fn stats(&self, edges: usize) -> Result<BatchStats, DeviceError> {
        stats(&self.0, edges)
    }
}

/// Returns the sums, as [`BatchSums::stats`] does.
pub(super) fn stats(sums: &Tensor, edges: usize) -> Result<BatchStats, DeviceError> {
    let mut values = [0.0_f64; COUNT];
    sums.f_copy_data(&mut values, COUNT)?;
    let [
        loss_lhs,
        loss_rhs,
        violators_lhs,
        violators_rhs,
        reg,
        gradients,
        not_finite,
    ] = values;
    if !(loss_lhs + loss_rhs + reg).is_finite() || !gradients.is_finite() {
        return Err(StepError::NonFinite("loss").into());
    }
    if not_finite > 0.0 {
        return Err(StepError::NonFinite("gradient").into());
    }
    Ok(BatchStats {
        count: edges,
        loss_lhs,
        loss_rhs,
        loss_relations: 0.0,
        reg,
        violators_lhs: violators_lhs as u64,
        violators_rhs: violators_rhs as u64,
    })
}

/// Returns an error unless all gradients were finite. Waits for the device.
pub(super) fn all_finite(finite: &[Tensor]) -> Result<(), DeviceError> {
    let all = Tensor::f_stack(finite, 0)?.f_all()?;
    match all.f_int64_value(&[])? {
        0 => Err(StepError::NonFinite("gradient").into()),
        _ => Ok(()),
    }
}
