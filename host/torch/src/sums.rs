//! What a batch's losses add up to.

use tch::{Kind, TchError, Tensor};

use super::error::DeviceError;
use super::place::TorchPlace;
use pbg_kernels::step::BatchStats;
use pbg_kernels::step::StepError;

/// Where the regulariser is; the two losses and the two counts of violators come before it.
pub(super) const REGULARIZER: usize = 4;
/// Where the gradients of positives' scores are, of which one that is not finite shows.
pub(super) const POSITIVE_GRADIENTS: usize = 5;

/// Sums over the edges of a batch, which stay on the device until they are asked for.
pub(super) struct Sums([Tensor; 6]);

impl Sums {
    pub(super) fn new(place: TorchPlace) -> Result<Self, TchError> {
        let zero = || Tensor::f_zeros([1], (Kind::Double, place.device()));
        Ok(Self([zero()?, zero()?, zero()?, zero()?, zero()?, zero()?]))
    }

    /// Adds a number that is on the device.
    pub(super) fn add(&mut self, index: usize, value: &Tensor) -> Result<(), TchError> {
        let _same = self.0[index].f_add_(&value.f_to_kind(Kind::Double)?)?;
        Ok(())
    }

    /// Waits for the device. An error if the loss or its gradients are not finite.
    pub(super) fn stats(&self, edges: usize) -> Result<BatchStats, DeviceError> {
        let mut values = [0.0_f64; 6];
        Tensor::f_cat(&self.0, 0)?.f_copy_data(&mut values, 6)?;
        let [
            loss_lhs,
            loss_rhs,
            violators_lhs,
            violators_rhs,
            reg,
            gradients,
        ] = values;
        if !(loss_lhs + loss_rhs + reg).is_finite() || !gradients.is_finite() {
            return Err(StepError::NonFinite("loss").into());
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
}
