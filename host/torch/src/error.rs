//! Why a step on a device fails.

use pbg_kernels::step::StepError;
use tch::TchError;

/// libtorch failed, or what it was given does not fit.
#[derive(Debug, thiserror::Error)]
pub(super) enum DeviceError {
    /// libtorch failed: out of memory, most likely.
    #[error("libtorch: {0}")]
    Tensor(#[from] TchError),
    /// Anything else that ends a step on the cores, too.
    #[error(transparent)]
    Step(#[from] StepError),
}

impl From<DeviceError> for StepError {
    fn from(error: DeviceError) -> Self {
        match error {
            DeviceError::Tensor(error) => Self::Tensor(error.to_string()),
            DeviceError::Step(error) => error,
        }
    }
}
