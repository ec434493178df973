//! Dimensions that have a meaning before they have a size.

use std::fmt;

use crate::graph::Side;

/// A dimension of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dim {
    /// The batch: its chunks of positives that share negatives.
    Chunks,
    /// Positives per chunk.
    Positives,
    /// Uniform draws per chunk that replace a side.
    Draws(Side, usize),
    /// Positives of a chunk, then its draws.
    Rows(Side, usize),
    /// Sampled negatives per chunk that replace a side: the chunk's own positives if so, then draws.
    Candidates {
        /// The side that is replaced.
        side: Side,
        /// Whether the chunk's own positives are candidates.
        in_batch: bool,
        /// Uniform draws.
        uniform: usize,
    },
    /// All entities of a side's partition.
    Entities(Side),
    /// Rows of a side's table: entities, or features.
    TableRows(Side),
    /// Rows of a side's table that a batch touches, at most.
    Touched(Side),
    /// Relations that share a template.
    Relations(usize),
    /// Those relations in both directions, which dynamic relations have operators for.
    RelationsBothWays(usize),
    /// Those relations that occur in a batch, at most.
    RelationsTouched(usize),
    /// Floats per embedding.
    Embedding(usize),
    /// Floats of an operator's packed parameters.
    Parameters(usize),
    /// So many.
    Count(usize),
}

/// Dimensions of a tensor, the batch first where it has one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Shape(pub Vec<Dim>);

/// What a tensor is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element {
    /// A 32-bit float.
    F32,
    /// A bfloat16.
    Bf16,
    /// An offset or an index.
    U32,
}

/// Sizes of what the specification of a step leaves open: those of one batch between two partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Edges in the batch.
    pub edges: usize,
    /// Positives per chunk.
    pub chunk: usize,
    /// Entities that may replace each side.
    pub entities: [usize; 2],
    /// Rows of each side's table.
    pub table_rows: [usize; 2],
    /// Rows of each side's table that the batch touches, at most.
    pub touched: [usize; 2],
}

impl Sizes {
    /// Chunks in the batch, the last one possibly not full.
    #[must_use]
    pub fn chunks(&self) -> usize {
        self.edges.div_ceil(self.chunk.max(1))
    }

    /// The size of `dim`.
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

    /// Elements of a tensor of the dimensions `dims`.
    #[must_use]
    pub fn elements(&self, dims: &[Dim]) -> usize {
        dims.iter()
            .fold(1, |product, &dim| product.saturating_mul(self.of(dim)))
    }
}

impl Shape {
    /// Whether the first dimension is the batch.
    #[must_use]
    pub fn is_batched(&self) -> bool {
        self.0.first() == Some(&Dim::Chunks)
    }

    /// The dimensions of one chunk: all but the batch.
    #[must_use]
    pub fn per_chunk(&self) -> &[Dim] {
        &self.0[usize::from(self.is_batched())..]
    }

    /// Floats per row.
    #[must_use]
    pub fn width(&self) -> Option<usize> {
        match self.0.last() {
            Some(&(Dim::Embedding(n) | Dim::Parameters(n))) => Some(n),
            _ => None,
        }
    }

    /// The same with rows of `width` floats.
    #[must_use]
    pub fn with_width(&self, width: usize) -> Self {
        let mut dims = self.0.clone();
        if let Some(last) = dims.last_mut() {
            *last = Dim::Embedding(width);
        }
        Self(dims)
    }
}

impl Element {
    /// Bytes of one.
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

impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, dim) in self.0.iter().enumerate() {
            write!(f, "{}{dim}", if i > 0 { ", " } else { "" })?;
        }
        f.write_str("]")
    }
}
