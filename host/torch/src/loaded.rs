//! libtorch as the kernels of this process use it.

use pbg_core::model::Precision;
use pbg_kernels::device::{OpenDevice, OpenError};
use pbg_kernels::libtorch::{
    self, BenchmarkProduct, HalfLayout, HalfMatrices, Libtorch, ProductShape,
};
use pbg_kernels::step::{StepError, WorkerError};
use pbg_rows::spec::ModelSpec;

use crate::device::TorchDevice;
use crate::error::failed;
use crate::one_thread::on_this_thread;
use crate::{half, planner, product};

/// libtorch, loaded into this process.
#[derive(Clone, Copy, Debug)]
struct LoadedLibtorch;

/// Makes libtorch available to the kernels of this process.
pub(crate) fn install() {
    libtorch::install(&LoadedLibtorch);
}

impl Libtorch for LoadedLibtorch {
    fn multiply(
        &self,
        out: &mut [u16],
        layout: HalfLayout,
        a: HalfMatrices<'_>,
        b: HalfMatrices<'_>,
        accumulate: bool,
    ) -> Result<(), StepError> {
        on_this_thread();
        half::multiply(out, layout, a, b, accumulate).map_err(failed)
    }

    fn open(&self, index: u32) -> Result<Box<dyn OpenDevice>, OpenError> {
        Ok(Box::new(TorchDevice::cuda(index)?))
    }

    fn refusal(&self, spec: &ModelSpec, precision: Precision) -> Option<String> {
        planner::refusal(spec, precision)
    }

    fn product(
        &self,
        shape: ProductShape,
        precision: Precision,
    ) -> Result<Box<dyn BenchmarkProduct>, WorkerError> {
        on_this_thread();
        Ok(Box::new(product::TorchProduct::new(shape, precision)?))
    }
}
