//! How a batch is cut: chunks that share negatives, slices of chunks that share buffers.

use std::ops::Range;

use pbg_core::config::Operator;
use pbg_core::graph::Side;

use crate::spec::ModelSpec;

/// Bytes of buffers that a slice aims at unless told otherwise: half of the second-level cache. A slice is
/// never less than one chunk.
#[must_use]
pub fn default_slice_bytes() -> usize {
    crate::cache::second_level_bytes() / 2
}

/// Rows that share all entities as negatives, per slice, at least: fewer would leave the matrix
/// product waiting for memory.
const ALL_NEGATIVES_ROWS: usize = 64;

/// Where the negatives of one side come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Negatives {
    /// None replace this side.
    None,
    /// The chunk's own positives if `own`, then `uniform` draws.
    Sampled { own: bool, uniform: usize },
    /// Every entity of the partition.
    All,
}

/// One pass over the batch: the sides are compared after an operator was applied to one of them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pass {
    /// The side that goes through the operator.
    pub(crate) operator_side: Side,
    /// Whether negatives replace the left side, and the right side.
    pub(crate) replaced: &'static [Side],
}

/// Static relations: one comparison serves both sides.
const STATIC: &[Pass] = &[Pass {
    operator_side: Side::Rhs,
    replaced: &Side::BOTH,
}];
/// Dynamic relations: the side that is replaced is compared as it is, the other one transformed.
const DYNAMIC: &[Pass] = &[
    Pass {
        operator_side: Side::Rhs,
        replaced: &[Side::Lhs],
    },
    Pass {
        operator_side: Side::Lhs,
        replaced: &[Side::Rhs],
    },
];

/// The shape of the work on one batch.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    /// Edges in the batch.
    pub(crate) edges: usize,
    /// Floats per embedding.
    pub(crate) dimension: usize,
    /// The relation's operator.
    pub(crate) operator: Operator,
    /// Positives per chunk; with all negatives, per slice.
    pub(crate) chunk: usize,
    /// How often N3 counts the parameters of a static relation: once per chunk that shares negatives.
    /// PBG's formula says once per edge, its code does this, and its results are the reference.
    pub(crate) parameter_weight: usize,
    /// Chunks per slice.
    pub(crate) chunks_per_slice: usize,
    /// Per side.
    pub(crate) negatives: [Negatives; 2],
    pub(crate) passes: &'static [Pass],
}

impl Plan {
    pub(crate) fn new(
        spec: &ModelSpec,
        relation: usize,
        edges: usize,
        entities: [usize; 2],
        slice_bytes: usize,
    ) -> Self {
        let relation = &spec.relations[relation];
        let negatives = Side::BOTH.map(|side| {
            let uniform = spec.uniform_negatives(relation, side);
            match (spec.disabled(side), relation.all_negs) {
                (true, _) => Negatives::None,
                (false, true) => Negatives::All,
                (false, false) => Negatives::Sampled {
                    own: spec.num_batch_negs > 0,
                    uniform,
                },
            }
        });
        let mut plan = Self {
            edges,
            dimension: spec.entities[relation.rhs].dimension,
            operator: relation.operator,
            chunk: spec.chunk_size(relation, edges),
            parameter_weight: edges.div_ceil(spec.chunk_size(relation, edges)),
            chunks_per_slice: 1,
            negatives,
            passes: if spec.is_dynamic() { DYNAMIC } else { STATIC },
        };
        if relation.all_negs {
            let row_bytes = 4 * entities.into_iter().max().unwrap_or(1).max(1);
            plan.chunk = (slice_bytes / row_bytes)
                .max(ALL_NEGATIVES_ROWS)
                .min(plan.chunk);
        } else {
            let chunks = edges.div_ceil(plan.chunk).max(1);
            plan.chunks_per_slice = (slice_bytes / plan.chunk_bytes()).clamp(1, chunks);
        }
        plan
    }

    /// Bytes that one chunk of sampled negatives occupies in the buffers of a slice.
    fn chunk_bytes(&self) -> usize {
        let rows: usize = Side::BOTH
            .iter()
            .map(|&side| {
                let candidates = self.columns(side);
                // Rows and gradients, of positives and candidates.
                2 * self.chunk + 2 * candidates
            })
            .sum();
        let scores = self.chunk
            * Side::BOTH
                .iter()
                .map(|&side| self.columns(side))
                .max()
                .unwrap_or(0);
        4 * (rows * self.dimension + scores)
    }

    /// Columns of sampled negatives that replace `side`.
    pub(crate) fn columns(&self, side: Side) -> usize {
        match self.negatives[side as usize] {
            Negatives::Sampled { own, uniform } => {
                if own {
                    self.chunk + uniform
                } else {
                    uniform
                }
            }
            Negatives::None | Negatives::All => 0,
        }
    }

    /// Uniform draws per chunk that replace `side`.
    pub(crate) fn uniform(&self, side: Side) -> usize {
        match self.negatives[side as usize] {
            Negatives::Sampled { uniform, .. } => uniform,
            Negatives::None | Negatives::All => 0,
        }
    }

    /// Whether a chunk's own positives are negatives that replace `side`.
    pub(crate) fn own(&self, side: Side) -> bool {
        matches!(
            self.negatives[side as usize],
            Negatives::Sampled { own: true, .. }
        )
    }

    /// Rows that the batch may touch in the table of `side`, or of both sides if they are one; `beyond`:
    /// whether negatives of the other side may come from it.
    pub(crate) fn touched(&self, shared: bool, beyond: bool, side: Side) -> usize {
        let of = |side| match self.negatives[side as usize] {
            Negatives::All => usize::MAX,
            _ => self.edges + self.chunks() * self.uniform(side),
        };
        match (shared, side) {
            (false, side) if beyond => {
                of(side).saturating_add(self.chunks() * self.uniform(side.other()))
            }
            (false, side) => of(side),
            (true, Side::Lhs) => of(Side::Lhs).saturating_add(of(Side::Rhs)),
            (true, Side::Rhs) => 0,
        }
    }

    /// Chunks in the batch.
    pub(crate) fn chunks(&self) -> usize {
        self.edges.div_ceil(self.chunk)
    }

    /// The slices of the batch.
    pub(crate) fn slices(&self) -> impl Iterator<Item = Slice> + use<> {
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
pub(crate) struct Slice {
    /// Its edges.
    pub(crate) rows: Range<usize>,
    /// Index of its first chunk in the batch.
    pub(crate) first_chunk: usize,
    /// How many chunks.
    pub(crate) chunks: usize,
    /// Positives per chunk, padding included.
    pub(crate) chunk: usize,
}

impl Slice {
    /// Positives including padding.
    pub(crate) fn padded(&self) -> usize {
        self.chunks * self.chunk
    }

    /// Positives of chunk `chunk` of this slice, without padding.
    pub(crate) fn filled(&self, chunk: usize) -> usize {
        (self.rows.len() - chunk * self.chunk).min(self.chunk)
    }
}
