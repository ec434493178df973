//! How a batch is cut: chunks that share negatives, slices of chunks that share buffers.

use std::ops::Range;
use std::sync::Arc;

use pbg_core::batch_graph::{Negatives, Sizes, Sliced, StepSpec};
use pbg_core::graph::Side;
use pbg_core::model::{Operator, Precision};

/// Bytes of buffers that a slice aims at unless told otherwise: half of the second-level cache, all of it with
/// bf16, whose products cost libtorch more per call. A slice is never less than one chunk.
pub(super) fn default_slice_bytes(precision: Precision) -> usize {
    let cache = crate::cache::second_level_bytes();
    match precision {
        Precision::Fp32 => cache / 2,
        Precision::Bf16 => cache,
    }
}

/// The work on one batch: the graph of its relation, and sizes.
#[derive(Clone, Debug)]
pub struct BatchPlan {
    /// The sliced graph of the relation's step.
    pub graph: Arc<Sliced>,
    /// How large its tensors are for this batch.
    pub sizes: Sizes,
    /// Edges in the batch.
    pub edges: usize,
    /// Floats per embedding.
    pub dimension: usize,
    /// The relation's operator.
    pub operator: Operator,
    /// Positives per chunk; with all negatives, per slice.
    pub chunk: usize,
    /// How often N3 counts the parameters of a static relation: once per chunk that shares negatives.
    /// PBG's formula says once per edge, its code does this, and its results are the reference.
    pub parameter_weight: usize,
    /// Chunks per slice.
    pub chunks_per_slice: usize,
    /// Per side.
    pub negatives: [Negatives; 2],
}

impl BatchPlan {
    /// Cuts a batch of `sizes` into slices whose buffers aim at `slice_bytes`.
    #[must_use]
    pub fn new(graph: Arc<Sliced>, sizes: Sizes, slice_bytes: usize) -> Self {
        let step_spec: &StepSpec = graph.step_spec();
        let negatives = step_spec.negatives;
        let (dimension, operator) = (step_spec.dimension[Side::Rhs as usize], step_spec.operator);
        let fit = graph.chunks_per_slice(&sizes, slice_bytes);
        // With all negatives a slice is one matrix product: its positives share them.
        let all = negatives.contains(&Negatives::All);
        let (chunk, chunks_per_slice, parameter_weight) = match all {
            true => (fit, 1, 1),
            false => (sizes.chunk, fit, sizes.chunks()),
        };
        Self {
            graph,
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

    /// Columns of sampled negatives that replace `side`.
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

    /// Whether a chunk's own positives are negatives that replace `side`.
    pub fn in_batch(&self, side: Side) -> bool {
        matches!(
            self.negatives[side as usize],
            Negatives::Sampled { in_batch: true, .. }
        )
    }

    /// Chunks in the batch.
    pub fn chunks(&self) -> usize {
        self.edges.div_ceil(self.chunk)
    }

    /// The slices of the batch.
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

/// Consecutive chunks of a batch; the last one may be padded.
#[derive(Clone, Debug)]
pub struct Slice {
    /// Its edges.
    pub rows: Range<usize>,
    /// Index of its first chunk in the batch.
    pub first_chunk: usize,
    /// How many chunks.
    pub chunks: usize,
    /// Positives per chunk, padding included.
    pub chunk: usize,
}

impl Slice {
    /// Positives including padding.
    pub fn padded(&self) -> usize {
        self.chunks * self.chunk
    }

    /// Positives of chunk `chunk` of this slice, without padding.
    pub fn filled(&self, chunk: usize) -> usize {
        (self.rows.len() - chunk * self.chunk).min(self.chunk)
    }
}
