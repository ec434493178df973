//! `[execution]`: how training runs on the machine.

use pbg_core::model::{Precision, Update};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Device, prefetching and precision of training.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ExecutionConfig {
    /// Device that trains batches: `cpu`, or `cuda:0` for the first GPU, `cuda:1` for the second.
    #[schemars(extend("x-rule" = "`cpu`, or `cuda:` followed by a number"))]
    pub device: String,
    /// Whether the partitions and edges of the next bucket are read, and evicted partitions written, while the current
    /// bucket trains. Needs memory for two more partitions.
    pub prefetch: bool,
    /// Maximum number of partitions being read or written while a bucket trains: the capacity of the pipe from storage
    /// to training. 0: the training thread itself reads and writes partitions, commits included.
    #[schemars(range(min = 0, max = 2), extend("x-unset" = "2, the most that a bucket needs; 0 with `prefetch = false`"))]
    pub partitions_ahead: Option<u32>,
    /// Maximum number of buckets whose edges are prepared ahead of training: the capacity of the pipe from edges to
    /// training. 0: the training thread itself reads and shuffles edges.
    #[schemars(range(min = 0, max = 64), extend("x-unset" = "1; 0 with `prefetch = false`"))]
    pub buckets_ahead: Option<u32>,
    /// Maximum number of batches whose negatives and offsets are prepared before a GPU trains them: the capacity of the
    /// pipe from planning to training. 0: the training thread itself plans batches. It always does so with static
    /// relations, whose sampler receives the loss of each batch before it draws the next one.
    #[schemars(range(min = 0, max = 64), extend("x-unset" = "1; 0 with `prefetch = false`"))]
    pub batches_ahead: Option<u32>,
    /// Target size in bytes of the buffers of one slice of a batch.
    #[schemars(range(min = 1, max = 1_099_511_627_776_u64), extend("x-unset" = "half of the second-level cache; all of it with `precision = \"bf16\"`; 256 MiB on a GPU"))]
    pub slice_bytes: Option<u64>,
    /// Megabytes (10^6 bytes) of partitions that are read per second at most, to measure how training does with a slower
    /// disk. What a transfer lacks in time is waited.
    #[schemars(range(min = 0.001, max = 1e9), extend("x-unset" = "as fast as the disk is"))]
    pub read_mbps: Option<f64>,
    /// The same for writing partitions, commits included.
    #[schemars(range(min = 0.001, max = 1e9), extend("x-unset" = "as fast as the disk is"))]
    pub write_mbps: Option<f64>,
    /// Precision of the factors of matrix products. Embeddings, sums and accumulators are always f32.
    pub precision: Precision,
    /// Time at which the gradients of a batch are applied to embeddings.
    pub update: Update,
}

impl ExecutionConfig {
    /// Returns the capacity of the pipe from storage to training; 0 if the training thread reads and writes partitions.
    #[must_use]
    pub fn partitions_ahead(&self) -> usize {
        self.partitions_ahead
            .unwrap_or(2 * u32::from(self.prefetch)) as usize
    }

    /// Returns the capacity of the pipe from edges to training; 0 if the training thread reads and shuffles edges.
    #[must_use]
    pub fn buckets_ahead(&self) -> usize {
        self.buckets_ahead.unwrap_or(u32::from(self.prefetch)) as usize
    }

    /// Returns the capacity of the pipe from planning to training on a GPU; 0 if the training thread plans batches.
    #[must_use]
    pub fn batches_ahead(&self) -> usize {
        self.batches_ahead.unwrap_or(u32::from(self.prefetch)) as usize
    }
}

impl Default for ExecutionConfig {
    fn default() -> Self {
        Self {
            device: "cpu".to_owned(),
            prefetch: true,
            partitions_ahead: None,
            buckets_ahead: None,
            batches_ahead: None,
            slice_bytes: None,
            read_mbps: None,
            write_mbps: None,
            precision: Precision::default(),
            update: Update::default(),
        }
    }
}
