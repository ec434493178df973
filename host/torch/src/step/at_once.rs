//! End of a batch on a GPU.

use pbg_kernels::step::BatchStats;

use super::DeviceStep;
use crate::error::DeviceError;
use crate::fused::{CudaKernels, CudaUpdate};
use crate::pending_sums::PendingSums;

impl DeviceStep<'_> {
    /// Ends a batch on a GPU, which makes sure by itself that nothing is applied that is not finite. The result is
    /// waited for after all updates are queued, or later.
    pub(super) fn fused_update(mut self, kernels: &CudaKernels) -> Result<BatchStats, DeviceError> {
        let sums = &self.sums;
        let update = |lr| CudaUpdate { kernels, lr, sums };
        self.parameters
            .apply(self.read, &self.touched, &update(self.spec.relation_lr))?;
        let [lhs, rhs] = &mut self.tables;
        let tables = [lhs.as_deref_mut(), rhs.as_deref_mut()];
        self.set
            .apply_to(tables, &self.touched, &update(self.spec.lr))?;
        let edges = self.job.batch.len();
        match self.later {
            Some(later) => {
                *later = Some(PendingSums::copy(&self.sums, edges, kernels)?);
                Ok(BatchStats::default())
            }
            None => self.sums.stats(edges),
        }
    }
}
