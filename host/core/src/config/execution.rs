//! `[execution]`: how the work is laid out on the machine.

use std::fmt;

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

/// Where batches are trained.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Device {
    /// On the cores, by Hogwild workers.
    #[default]
    Cpu,
    /// On a GPU, counted from 0.
    Cuda(u32),
}

impl Device {
    /// The device that a configuration calls `text`.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let index = match text {
            "cpu" => return Some(Self::Cpu),
            _ => text.strip_prefix("cuda:")?,
        };
        let plain = index.bytes().all(|digit| digit.is_ascii_digit());
        index.parse().ok().filter(|_| plain).map(Self::Cuda)
    }
}

impl fmt::Display for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(index) => write!(f, "cuda:{index}"),
        }
    }
}

/// Precision of the factors of matrix products.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Precision {
    /// 32 bits.
    #[default]
    Fp32,
    /// bfloat16: several times faster where the processor multiplies it, and refused elsewhere.
    Bf16,
}

/// When the gradients of a batch are applied to embeddings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Update {
    /// Once per batch, summed, as PBG does.
    #[default]
    Batch,
    /// At the end of each slice of a batch, while its rows are in the cache.
    Slice,
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
