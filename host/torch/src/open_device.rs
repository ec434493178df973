//! Opening of a GPU, its workers and its tables.

use std::sync::Arc;

use pbg_kernels::device::{DeviceWorker, OpenDevice, OpenError};
use pbg_kernels::step::{Execution, StepError, WorkerError};
use pbg_rows::spec::ModelSpec;
use pbg_rows::table::Table;
use tch::Cuda;

use super::device::TorchDevice;
use super::error::failed;
use super::one_thread::on_this_thread;
use super::tables::TorchRows;
use super::worker::TorchWorker;
use super::{fused, library};

impl TorchDevice {
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
                let place = Self::gpu(index as usize);
                fused::open(place).map(|()| place)
            }
        }
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
        on_this_thread();
        let rows = TorchRows::upload(table, *self).map_err(failed)?;
        table.resident = Some(Box::new(rows));
        Ok(())
    }
}
