//! `[execution]`: how the work is laid out on the machine.

use pbg_core::model::{Precision, Update};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::default;

/// How the work is laid out on the machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExecutionConfig {
    /// Where batches are trained: `cpu`, or `cuda:0` for the first GPU, `cuda:1` for the second.
    #[serde(default = "default::device")]
    #[schemars(extend("x-rule" = "`cpu`, or `cuda:` and a number"))]
    pub device: String,
    /// Read the partitions that the next bucket lacks, and write those that left the buffer, while
    /// the current bucket trains. Takes memory for two partitions more.
    #[serde(default = "default::prefetch")]
    pub prefetch: bool,
    /// Bytes that the buffers of one slice of a batch aim at.
    #[serde(default)]
    #[schemars(range(min = 1, max = 1_099_511_627_776_u64), extend("x-unset" = "half of the second-level cache; all of it with `precision = \"bf16\"`; 256 MiB on a GPU"))]
    pub slice_bytes: Option<u64>,
    /// Precision of the factors of matrix products; embeddings, sums and accumulators are f32 always.
    #[serde(default)]
    pub precision: Precision,
    /// When the gradients of a batch are applied to embeddings.
    #[serde(default)]
    pub update: Update,
}

impl Default for ExecutionConfig {
    fn default() -> Self {
        Self {
            device: default::device(),
            prefetch: default::prefetch(),
            slice_bytes: None,
            precision: Precision::default(),
            update: Update::default(),
        }
    }
}
