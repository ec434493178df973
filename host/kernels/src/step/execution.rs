//! Settings of a worker's execution: the size of slices, the precision of products, and the time of updates.

use pbg_core::model::{Comparator, Precision, Update};
use pbg_rows::spec::ModelSpec;

use crate::step::plan::default_slice_bytes;

/// Reason why neither cores nor devices compute distances from bf16.
pub const NO_ROUNDED_DISTANCES: &str = "bf16 would lose small distances in the difference of large numbers; use fp32 with the comparators l2 and squared_l2";

/// Reason why comparators that are formulas are not computed from bf16.
pub(crate) const NO_ROUNDED_FORMULAS: &str = "bf16 is for matrix products, and this comparator is a formula of each pair of embeddings; use fp32";

/// Settings of a worker's execution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Execution {
    /// Target size of a slice's buffers in bytes, at least 1. Results depend on it only by rounding, unless `update` is
    /// by slices.
    pub slice_bytes: usize,
    /// Precision of the factors of matrix products. Rows, sums and accumulators are always f32.
    pub precision: Precision,
    /// When gradients are applied to the tables.
    pub update: Update,
}

impl Default for Execution {
    fn default() -> Self {
        Self::with_precision(Precision::Fp32)
    }
}

impl Execution {
    /// Returns the default settings for a precision.
    #[must_use]
    pub fn with_precision(precision: Precision) -> Self {
        Self {
            slice_bytes: default_slice_bytes(precision),
            precision,
            update: Update::Batch,
        }
    }

    /// Returns the reason why this machine cannot train `spec` with these settings, if there is one.
    #[must_use]
    pub fn refusal(&self, spec: &ModelSpec) -> Option<&'static str> {
        if self.precision == Precision::Fp32 {
            return None;
        }
        if matches!(spec.comparator, Comparator::L2 | Comparator::SquaredL2) {
            return Some(NO_ROUNDED_DISTANCES);
        }
        if spec.comparator.formula().is_some() {
            return Some(NO_ROUNDED_FORMULAS);
        }
        (!has_fast_bf16())
            .then_some("this processor has no instructions for bf16 products (neither avx512_bf16 nor amx-bf16), without which bf16 is slower than fp32; use fp32")
    }
}

/// Returns whether the processor has instructions for products of bfloat16.
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

#[cfg(test)]
mod tests {
    use pbg_core::batch_graph::{Negatives, StepPlan, StepSpec};
    use pbg_core::model::{Comparator, Operator, Update};

    use super::*;
    use crate::step::cores::CoreStep;
    use crate::step::executor::StepExecutor as _;

    #[test]
    fn distances_of_rounded_rows_are_refused_before_any_batch() {
        for (comparator, half) in [
            (Comparator::L2, true),
            (Comparator::L2, false),
            (Comparator::Dot, true),
            (Comparator::L1, true),
            (Comparator::L1, false),
        ] {
            let step_spec = StepSpec {
                dimension: [8; 2],
                one_type: true,
                featurized: [false; 2],
                operator: Operator::Diagonal,
                comparator,
                bias: false,
                global: false,
                relations: None,
                negatives: [Negatives::All; 2],
                chunk: 1,
                regularizer: None,
                predicts_relations: false,
                half,
            };
            let step = StepPlan::new(&step_spec, Update::Batch).expect("shapes fit");
            let refused = match comparator {
                Comparator::L2 if half => Some(NO_ROUNDED_DISTANCES),
                Comparator::L1 if half => Some(NO_ROUNDED_FORMULAS),
                _ => None,
            };
            assert_eq!(CoreStep::unsupported(&step), refused);
        }
    }
}
