//! Symbolic dimensions of tensors, and their sizes.

use std::fmt;

use crate::graph::Side;

/// Symbolic dimension of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dim {
    /// The batch: its chunks of positives that share negatives.
    Chunks,
    /// Positives per chunk.
    Positives,
    /// Uniform draws per chunk that replace a side.
    Draws(Side, usize),
    /// Positives of a chunk, followed by its draws.
    Rows(Side, usize),
    /// Sampled negatives per chunk that replace a side: the chunk's own positives if `in_batch`, followed by draws.
    Candidates {
        /// Side that is replaced.
        side: Side,
        /// Whether the chunk's own positives are candidates.
        in_batch: bool,
        /// Number of uniform draws.
        uniform: usize,
    },
    /// All entities of a side's partition.
    Entities(Side),
    /// Rows of a side's table: entities, or features.
    TableRows(Side),
    /// Rows of a side's table that a batch touches: an upper bound.
    Touched(Side),
    /// Relations that share a template.
    Relations(usize),
    /// The same relations in both directions: dynamic relations have an operator for each.
    RelationsBothWays(usize),
    /// Relations of the template that occur in a batch: an upper bound.
    RelationsTouched(usize),
    /// Floats per embedding.
    Embedding(usize),
    /// Floats of an operator's packed parameters.
    Parameters(usize),
    /// Fixed number.
    Count(usize),
}

/// Dimensions of a tensor. If the tensor has a batch dimension, it comes first.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TensorShape(pub Vec<Dim>);

/// Element type of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElementType {
    /// A 32-bit float.
    F32,
    /// A bfloat16.
    Bf16,
    /// An offset or an index, 32 bits.
    U32,
}

/// Sizes that the specification of a step leaves open: those of one batch between two partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSizes {
    /// Number of edges in the batch.
    pub edges: usize,
    /// Positives per chunk.
    pub chunk: usize,
    /// Number of entities that may replace each side.
    pub entities: [usize; 2],
    /// Number of rows of each side's table.
    pub table_rows: [usize; 2],
    /// Number of rows of each side's table that the batch touches: an upper bound.
    pub touched: [usize; 2],
}

impl BatchSizes {
    /// Returns the number of chunks in the batch. The last one may be incomplete.
    #[must_use]
    pub fn chunks(&self) -> usize {
        self.edges.div_ceil(self.chunk.max(1))
    }

    /// Returns the size of `dim`.
    #[must_use]
    pub fn of(&self, dim: Dim) -> usize {
        match dim {
            Dim::Chunks => self.chunks(),
            Dim::Positives => self.chunk,
            Dim::Draws(_, draws) => draws,
            Dim::Rows(_, draws) => self.chunk + draws,
            Dim::Candidates {
                in_batch, uniform, ..
            } => usize::from(in_batch) * self.chunk + uniform,
            Dim::Entities(side) => self.entities[side as usize],
            Dim::TableRows(side) => self.table_rows[side as usize],
            Dim::Touched(side) => self.touched[side as usize],
            Dim::RelationsTouched(relations) => relations.min(self.edges),
            Dim::RelationsBothWays(relations) => 2 * relations,
            Dim::Relations(n) | Dim::Embedding(n) | Dim::Parameters(n) | Dim::Count(n) => n,
        }
    }

    /// Returns the number of elements of a tensor with the dimensions `dims`.
    #[must_use]
    pub fn elements(&self, dims: &[Dim]) -> usize {
        dims.iter()
            .fold(1, |product, &dim| product.saturating_mul(self.of(dim)))
    }
}

impl TensorShape {
    /// Whether the first dimension is the batch.
    #[must_use]
    pub fn is_batched(&self) -> bool {
        self.0.first() == Some(&Dim::Chunks)
    }

    /// Returns the dimensions of one chunk: all but the batch.
    #[must_use]
    pub fn per_chunk(&self) -> &[Dim] {
        &self.0[usize::from(self.is_batched())..]
    }

    /// Returns the number of floats per row, or `None` if the last dimension is not that of rows.
    #[must_use]
    pub fn width(&self) -> Option<usize> {
        match self.0.last() {
            Some(&(Dim::Embedding(n) | Dim::Parameters(n))) => Some(n),
            _ => None,
        }
    }

    /// Returns the same shape with rows of `width` floats.
    #[must_use]
    pub fn with_width(&self, width: usize) -> Self {
        let mut dims = self.0.clone();
        if let Some(last) = dims.last_mut() {
            *last = Dim::Embedding(width);
        }
        Self(dims)
    }
}

impl ElementType {
    /// Returns the bytes of one element.
    #[must_use]
    pub const fn bytes(self) -> usize {
        match self {
            Self::F32 | Self::U32 => 4,
            Self::Bf16 => 2,
        }
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chunks => f.write_str("chunks"),
            Self::Positives => f.write_str("positives"),
            Self::Draws(..) => f.write_str("draws"),
            Self::Rows(_, 0) => f.write_str("positives"),
            Self::Rows(..) => f.write_str("positives + draws"),
            Self::Candidates { .. } => f.write_str("candidates"),
            Self::Entities(_) => f.write_str("entities"),
            Self::TableRows(_) => f.write_str("table rows"),
            Self::Touched(_) => f.write_str("touched rows"),
            Self::Relations(_) => f.write_str("relations"),
            Self::RelationsBothWays(_) => f.write_str("relations of both directions"),
            Self::RelationsTouched(_) => f.write_str("touched relations"),
            Self::Embedding(n) | Self::Parameters(n) | Self::Count(n) => write!(f, "{n}"),
        }
    }
}

impl fmt::Display for TensorShape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, dim) in self.0.iter().enumerate() {
            write!(f, "{}{dim}", if i > 0 { ", " } else { "" })?;
        }
        f.write_str("]")
    }
}
