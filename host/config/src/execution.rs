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
    /// the current bucket trains, and prepare its edges. Takes memory for two partitions more.
    #[serde(default = "default::prefetch")]
    pub prefetch: bool,
    /// Partitions that may be on their way, in or out, while a bucket trains: the bound of the pipe from storage
    /// to training. 0: training reads and writes itself, commits included.
    #[serde(default)]
    #[schemars(range(min = 0, max = 2), extend("x-unset" = "2, which a bucket needs at most; 0 with `prefetch = false`"))]
    pub partitions_ahead: Option<u32>,
    /// Buckets whose edges may be ready before they are trained: the bound of the pipe from edges to training.
    /// 0: training reads and shuffles itself.
    #[serde(default)]
    #[schemars(range(min = 0, max = 64), extend("x-unset" = "1; 0 with `prefetch = false`"))]
    pub buckets_ahead: Option<u32>,
    /// Batches whose negatives and offsets may be ready before a GPU trains them: the bound of the pipe from planning
    /// to training. 0: training plans them itself, as it always does with static relations, whose sampler hears of
    /// every loss before it draws the next batch.
    #[serde(default)]
    #[schemars(range(min = 0, max = 64), extend("x-unset" = "1; 0 with `prefetch = false`"))]
    pub batches_ahead: Option<u32>,
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

impl ExecutionConfig {
    /// Bound of the pipe from storage to training; 0 where training does the work of storage.
    #[must_use]
    pub fn partitions_ahead(&self) -> usize {
        self.partitions_ahead
            .unwrap_or(2 * u32::from(self.prefetch)) as usize
    }

    /// Bound of the pipe from edges to training; 0 where training does the work of edges.
    #[must_use]
    pub fn buckets_ahead(&self) -> usize {
        self.buckets_ahead.unwrap_or(u32::from(self.prefetch)) as usize
    }

    /// Bound of the pipe from planning to training on a GPU; 0 where training does the work of planning.
    #[must_use]
    pub fn batches_ahead(&self) -> usize {
        self.batches_ahead.unwrap_or(u32::from(self.prefetch)) as usize
    }
}

impl Default for ExecutionConfig {
    fn default() -> Self {
        Self {
            device: default::device(),
            prefetch: default::prefetch(),
            partitions_ahead: None,
            buckets_ahead: None,
            batches_ahead: None,
            slice_bytes: None,
            precision: Precision::default(),
            update: Update::default(),
        }
    }
}
