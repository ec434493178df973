//! Division of a batch into chunks, which share negatives, and slices of chunks, which share buffers.

use std::ops::Range;
use std::sync::Arc;

use pbg_core::batch_graph::{BatchSizes, Negatives, StepPlan};
use pbg_core::graph::Side;
use pbg_core::model::{Operator, Precision};

/// Returns the default target size of a slice's buffers in bytes: half of the second-level cache, or all of it with
/// bf16, since libtorch's products have a higher cost per call. A slice is never smaller than one chunk.
pub(super) fn default_slice_bytes(precision: Precision) -> usize {
    let cache = crate::cache::second_level_bytes();
    match precision {
        Precision::Fp32 => cache / 2,
        Precision::Bf16 => cache,
    }
}

/// Plan of the work on one batch: the step of its relation, and sizes.
#[derive(Clone, Debug)]
pub struct BatchPlan {
    /// The relation's step.
    pub step: Arc<StepPlan>,
    /// Sizes of the graph's tensors for this batch.
    pub sizes: BatchSizes,
    /// Number of edges in the batch.
    pub edges: usize,
    /// Floats per embedding.
    pub dimension: usize,
    /// The relation's operator.
    pub operator: Operator,
    /// Positives per chunk; with all negatives, positives per slice.
    pub chunk: usize,
    /// Factor of N3 of a static relation's parameters: the number of chunks that share negatives. PBG's formula says
    /// once per edge, but its code does this, and its results are the reference.
    pub parameter_weight: usize,
    /// Chunks per slice.
    pub chunks_per_slice: usize,
    /// Negatives that replace each side.
    pub negatives: [Negatives; 2],
}

impl BatchPlan {
    /// Divides a batch into slices with a target size of buffers of `slice_bytes`.
    #[must_use]
    pub fn new(step: Arc<StepPlan>, sizes: BatchSizes, slice_bytes: usize) -> Self {
        let step_spec = &step.step_spec;
        let negatives = step_spec.negatives;
        let (dimension, operator) = (step_spec.dimension[Side::Rhs as usize], step_spec.operator);
        let fit = step.chunks_per_slice(&sizes, slice_bytes);
        // With all negatives a slice is one matrix product, since all its positives share them.
        let all = negatives.contains(&Negatives::All);
        let (chunk, chunks_per_slice, parameter_weight) = match all {
            true => (fit, 1, 1),
            false => (sizes.chunk, fit, sizes.chunks()),
        };
        Self {
            step,
            edges: sizes.edges,
            sizes,
            dimension,
            operator,
            chunk,
            parameter_weight,
            chunks_per_slice,
            negatives,
        }
    }

    /// Returns the number of columns of sampled negatives that replace `side`.
    pub fn columns(&self, side: Side) -> usize {
        match self.negatives[side as usize] {
            Negatives::Sampled { in_batch, uniform } => {
                if in_batch {
                    self.chunk + uniform
                } else {
                    uniform
                }
            }
            Negatives::None | Negatives::All => 0,
        }
    }

    /// Returns whether the positives of a chunk are among the negatives that replace `side`.
    pub fn in_batch(&self, side: Side) -> bool {
        matches!(
            self.negatives[side as usize],
            Negatives::Sampled { in_batch: true, .. }
        )
    }

    /// Returns the number of chunks in the batch.
    pub fn chunks(&self) -> usize {
        self.edges.div_ceil(self.chunk)
    }

    /// Returns the slices of the batch.
    pub fn slices(&self) -> impl Iterator<Item = Slice> + use<> {
        let (edges, chunk, step) = (self.edges, self.chunk, self.chunk * self.chunks_per_slice);
        (0..edges).step_by(step).map(move |first| {
            let rows = first..(first + step).min(edges);
            Slice {
                first_chunk: first / chunk,
                chunks: rows.len().div_ceil(chunk),
                chunk,
                rows,
            }
        })
    }
}

/// Consecutive chunks of a batch; the last chunk may be padded.
#[derive(Clone, Debug)]
pub struct Slice {
    /// Edges of the slice.
    pub rows: Range<usize>,
    /// Index of the slice's first chunk in the batch.
    pub first_chunk: usize,
    /// Number of chunks.
    pub chunks: usize,
    /// Positives per chunk, padding included.
    pub chunk: usize,
}

impl Slice {
    /// Returns the number of positives including padding.
    pub fn padded(&self) -> usize {
        self.chunks * self.chunk
    }

    /// Returns the number of positives of chunk `chunk` of this slice, without padding.
    pub fn filled(&self, chunk: usize) -> usize {
        (self.rows.len() - chunk * self.chunk).min(self.chunk)
    }
}
