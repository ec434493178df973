//! The specification of a relation's training step.

use super::dimension::{BatchSizes, Dim};
use super::graph::Negatives;
use crate::graph::Side;
use crate::model::{Comparator, Operator, Regularizer};

/// Specification of the step of one relation, without the sizes of batches and partitions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepSpec {
    /// Floats per embedding of each side's entity type.
    pub dimension: [usize; 2],
    /// Whether both sides have the same entity type.
    pub one_type: bool,
    /// Whether each side's entities are means of features.
    pub featurized: [bool; 2],
    /// Operator, which transforms embeddings.
    pub operator: Operator,
    /// Comparator, which computes the score of two embeddings.
    pub comparator: Comparator,
    /// Whether the first coordinate is a bias.
    pub bias: bool,
    /// Whether every entity type has a global embedding.
    pub global: bool,
    /// Number of dynamic relations that share this template; none for a static relation.
    pub relations: Option<usize>,
    /// Negatives that replace each side.
    pub negatives: [Negatives; 2],
    /// Number of positives that share negatives; 1 with all negatives, where no positives share them.
    pub chunk: usize,
    /// Penalty on rows and parameters.
    pub regularizer: Option<Regularizer>,
    /// Whether the relation of each edge is predicted, too (dynamic relations only).
    pub predicts_relations: bool,
    /// Whether matrix products have bf16 factors.
    pub half: bool,
}

impl StepSpec {
    /// Whether scores are distances that follow from inner products.
    #[must_use]
    pub fn is_distance(&self) -> bool {
        matches!(self.comparator, Comparator::L2 | Comparator::SquaredL2)
    }

    /// Whether the operator's parameters are regularised, which they are if they have a size.
    #[must_use]
    pub fn regularizes_parameters(&self) -> bool {
        let sized = match self.operator {
            Operator::Traced(formula) => formula.has_sized_parameters(),
            _ => true,
        };
        matches!(
            self.regularizer,
            Some(Regularizer::N3 | Regularizer::N3Embeddings)
        ) && sized
    }

    pub(super) fn in_batch(&self, side: Side) -> bool {
        matches!(
            self.negatives[side as usize],
            Negatives::Sampled { in_batch: true, .. }
        )
    }

    /// Returns the number of uniform draws per chunk that replace `side`.
    #[must_use]
    pub fn uniform(&self, side: Side) -> usize {
        match self.negatives[side as usize] {
            Negatives::Sampled { uniform, .. } => uniform,
            Negatives::None | Negatives::All => 0,
        }
    }

    /// Whether `side` is replaced by every entity.
    #[must_use]
    pub fn all(&self, side: Side) -> bool {
        self.negatives[side as usize] == Negatives::All
    }

    pub(super) fn columns(&self, side: Side) -> Dim {
        match self.negatives[side as usize] {
            Negatives::None => Dim::Count(0),
            Negatives::All => Dim::Entities(side),
            Negatives::Sampled { in_batch, uniform } => Dim::Candidates {
                side,
                in_batch,
                uniform,
            },
        }
    }

    /// Returns the sizes of a batch of `edges` edges between partitions of `entities` entities whose tables have `rows`
    /// rows. `shared` says whether both sides are the same partition.
    #[must_use]
    pub fn sizes(
        &self,
        edges: usize,
        entities: [usize; 2],
        rows: [usize; 2],
        shared: bool,
    ) -> BatchSizes {
        let chunk = self.chunk.clamp(1, edges.max(1));
        let chunks = edges.div_ceil(chunk);
        // Number of rows named by edges, draws and, between two partitions of the same type, the other side's draws.
        let of = |side: Side| {
            if self.featurized[side as usize] || self.all(side) {
                return usize::MAX;
            }
            let beyond = match self.one_type && !shared {
                true => self.uniform(side.other()),
                false => 0,
            };
            edges.saturating_add(chunks.saturating_mul(self.uniform(side) + beyond))
        };
        // A table that is used for both sides has one sum per row.
        let (table_rows, touched) = match shared {
            true => (
                [rows[0], 0],
                [of(Side::Lhs).saturating_add(of(Side::Rhs)), 0],
            ),
            false => (rows, [of(Side::Lhs), of(Side::Rhs)]),
        };
        BatchSizes {
            edges,
            chunk,
            entities,
            table_rows,
            touched: [0, 1].map(|side: usize| touched[side].min(table_rows[side])),
        }
    }
}
