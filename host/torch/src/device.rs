//! Devices on which tensors are stored.

use std::fmt;
use std::sync::Arc;

use pbg_kernels::device::{DeviceWorker, OpenDevice, OpenError};
use pbg_kernels::step::{Execution, StepError, WorkerError};
use pbg_rows::spec::ModelSpec;
use pbg_rows::table::Table;
use tch::{Cuda, Device, Kind};

use super::tables::TorchRows;
use super::worker::TorchWorker;
use super::{fused, library};

/// An opened device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TorchDevice(Device);

impl TorchDevice {
    /// Main memory: the device's computations, without a device. For tests and comparisons; training on the CPU has its
    /// own kernels.
    pub const MAIN_MEMORY: Self = Self(Device::Cpu);

    /// Opens GPU `index`, and at the first call libtorch's CUDA library.
    ///
    /// # Errors
    /// When the library or the GPU does not exist.
    pub fn cuda(index: u32) -> Result<Self, OpenError> {
        library::open()?;
        let count = match Cuda::is_available() {
            true => u32::try_from(Cuda::device_count()).unwrap_or(0),
            false => 0,
        };
        match count {
            0 => Err(OpenError::NoGpu),
            _ if index >= count => Err(OpenError::Index { index, count }),
            _ => {
                let place = Self(Device::Cuda(index as usize));
                fused::open(place).map(|()| place)
            }
        }
    }

    /// The first GPU, whether or not it exists.
    #[cfg(test)]
    pub(super) const fn first_gpu() -> Self {
        Self(Device::Cuda(0))
    }

    pub(super) fn device(self) -> Device {
        self.0
    }

    /// Returns the kind and device of floats there.
    pub(super) fn floats(self) -> (Kind, Device) {
        (Kind::Float, self.0)
    }
}

impl OpenDevice for TorchDevice {
    fn worker(
        &self,
        spec: Arc<ModelSpec>,
        execution: Execution,
    ) -> Result<Box<dyn DeviceWorker>, WorkerError> {
        Ok(Box::new(TorchWorker::new(spec, execution, *self)?))
    }

    fn upload(&self, table: &mut Table) -> Result<(), StepError> {
        crate::on_this_thread();
        let rows = TorchRows::upload(table, *self).map_err(crate::failed)?;
        table.resident = Some(Box::new(rows));
        Ok(())
    }
}

impl fmt::Display for TorchDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Device::Cuda(index) => write!(f, "cuda:{index}"),
            _ => f.write_str("main memory"),
        }
    }
}
