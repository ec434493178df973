//! How a worker lays out its work: the size of slices, the precision of products, when gradients are
//! applied.

use pbg_core::model::{Comparator, Precision, Update};

use crate::spec::ModelSpec;
use crate::step::plan::default_slice_bytes;

/// Why neither cores nor devices compute distances from bf16.
pub const NO_ROUNDED_DISTANCES: &str = "bf16 would lose small distances in the difference of large numbers; with the comparators l2 and squared_l2 use fp32";

/// How a worker lays out its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Execution {
    /// Bytes of buffers that a slice aims at, at least 1. Results do not depend on it but for rounding,
    /// unless `update` is by slices.
    pub slice_bytes: usize,
    /// Precision of the factors of matrix products. Rows, sums and accumulators are f32 throughout.
    pub precision: Precision,
    /// When gradients reach the tables.
    pub update: Update,
}

impl Default for Execution {
    fn default() -> Self {
        Self::with_precision(Precision::Fp32)
    }
}

impl Execution {
    /// Everything but the precision by default.
    #[must_use]
    pub fn with_precision(precision: Precision) -> Self {
        Self {
            slice_bytes: default_slice_bytes(precision),
            precision,
            update: Update::Batch,
        }
    }

    /// Why `spec` cannot be trained this way on this machine, if so.
    #[must_use]
    pub fn refusal(&self, spec: &ModelSpec) -> Option<&'static str> {
        if self.precision == Precision::Fp32 {
            return None;
        }
        if matches!(spec.comparator, Comparator::L2 | Comparator::SquaredL2) {
            return Some(NO_ROUNDED_DISTANCES);
        }
        (!has_fast_bf16())
            .then_some("this processor multiplies no bf16 (it has neither avx512_bf16 nor amx-bf16), which would be slower than fp32; use fp32")
    }
}

/// Whether the processor has instructions for products of bfloat16.
#[must_use]
pub fn has_fast_bf16() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        std::arch::is_x86_feature_detected!("avx512bf16")
    }
    #[cfg(not(target_arch = "x86_64"))]
    {
        false
    }
}
