//! Sums of a batch that the host reads later than the batch ends.

use pbg_kernels::step::BatchStats;
use tch::{Device, Kind, TchError, Tensor};

use super::error::DeviceError;
use super::fused::{CudaEvent, CudaKernels};
use super::sums::{self, BatchSums};

/// Sums that are being copied from the device.
pub(super) struct PendingSums {
    values: Tensor,
    copied: CudaEvent,
    edges: usize,
}

impl PendingSums {
    /// Starts copying `sums` of a batch of `edges` edges, so that the device can continue with the next batch meanwhile.
    pub(super) fn copy(
        sums: &BatchSums,
        edges: usize,
        kernels: &CudaKernels,
    ) -> Result<Self, TchError> {
        // Copies to pinned memory, which a GPU writes by itself.
        let values = sums
            .all()
            .f_to_device_(Device::Cpu, Kind::Double, true, false)?;
        let copied = kernels.record_event()?;
        Ok(Self {
            values,
            copied,
            edges,
        })
    }

    /// Waits for the copy and returns the sums; see [`BatchSums::stats`].
    pub(super) fn stats(self) -> Result<BatchStats, DeviceError> {
        self.copied.wait()?;
        sums::stats(&self.values, self.edges)
    }
}
