//! libtorch's own batched matrix product, as a baseline for comparisons.

use pbg_core::model::Precision;
use pbg_kernels::libtorch::{BenchmarkProduct, ProductShape};
use pbg_kernels::step::WorkerError;
use tch::{Device, Kind, TchError, Tensor};

/// Random factors in main memory, and a tensor for their product.
#[derive(Debug)]
pub(super) struct TorchProduct {
    left: Tensor,
    right: Tensor,
    out: Tensor,
}

impl TorchProduct {
    /// Creates factors of `shape` and multiplies them once, since libtorch prepares itself at the first product.
    ///
    /// # Errors
    /// When libtorch fails.
    pub(super) fn new(shape: ProductShape, precision: Precision) -> Result<Self, WorkerError> {
        Self::prepared(shape, precision).map_err(failed)
    }

    fn prepared(shape: ProductShape, precision: Precision) -> Result<Self, TchError> {
        let kind = match precision {
            Precision::Fp32 => Kind::Float,
            Precision::Bf16 => Kind::BFloat16,
        };
        let random = |size: [i64; 3]| {
            let values = Tensor::f_randn(size, (Kind::Float, Device::Cpu))?;
            values.f_to_kind(kind)
        };
        let left = random([shape.batch, shape.rows, shape.inner])?;
        let right = random([shape.batch, shape.inner, shape.columns])?;
        let size = [shape.batch, shape.rows, shape.columns];
        let out = Tensor::f_zeros(size, (kind, Device::Cpu))?;
        let _same = left.f_bmm_out(&out, &right)?;
        Ok(Self { left, right, out })
    }
}

impl BenchmarkProduct for TorchProduct {
    fn multiply(&self) -> Result<(), WorkerError> {
        let same = self.left.f_bmm_out(&self.out, &self.right);
        same.map(drop).map_err(failed)
    }
}

fn failed(error: TchError) -> WorkerError {
    WorkerError::Tensor(crate::error::message_of(&error))
}
