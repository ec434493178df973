//! The batch graph: nodes, the tensors between them, and the stages that nodes form.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::dimension::{Dim, ElementType, TensorShape};
use crate::graph::Side;
use crate::model::Operator;

/// Name of a node or a buffer: its kind, and the side that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorName {
    /// Kind.
    pub what: &'static str,
    /// Side, if it belongs to one.
    pub side: Option<Side>,
}

impl TensorName {
    pub(super) const fn of(what: &'static str, side: Side) -> Self {
        let side = Some(side);
        Self { what, side }
    }
}

impl fmt::Display for TensorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.side {
            None => f.write_str(self.what),
            Some(Side::Lhs) => write!(f, "{}.lhs", self.what),
            Some(Side::Rhs) => write!(f, "{}.rhs", self.what),
        }
    }
}

/// Source of the negatives that replace one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Negatives {
    /// No negatives replace this side.
    None,
    /// The chunk's own positives if `in_batch`, followed by `uniform` draws.
    Sampled {
        /// Whether a chunk's positives are each other's negatives.
        in_batch: bool,
        /// Number of uniform draws per chunk.
        uniform: usize,
    },
    /// Every entity of the partition.
    All,
}

/// One pass over the batch, in which the sides are compared after an operator was applied to one of them, or to both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchPass {
    /// The side that goes through the operator, and whose parameters it has on both sides.
    pub operator_side: Side,
    /// The sides that negatives replace.
    pub replaced: &'static [Side],
}

impl BatchPass {
    /// Static relations: one comparison is used for both sides.
    pub const STATIC: &'static [Self] = &[Self {
        operator_side: Side::Rhs,
        replaced: &Side::BOTH,
    }];
    /// Dynamic relations: the replaced side is compared unchanged, the other one transformed.
    pub const DYNAMIC: &'static [Self] = &[
        Self {
            operator_side: Side::Rhs,
            replaced: &[Side::Lhs],
        },
        Self {
            operator_side: Side::Lhs,
            replaced: &[Side::Rhs],
        },
    ];
}

/// Operation of a node. The comments list its operands in their order after the colon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Copies shared parameters: parameters.
    Read,
    /// Looks up rows: table, edges, draws if there are any.
    Gather,
    /// Looks up every row: table.
    GatherAll,
    /// Adds the global embedding: rows, global embedding.
    Global,
    /// Transforms rows: rows, parameters, the relations of the edges if edges have different ones.
    Operator(Operator),
    /// Prepares rows for inner products, with or without a bias: rows.
    Prepare {
        /// Whether the first coordinate is a bias.
        bias: bool,
    },
    /// Rounds to bf16: floats.
    Round,
    /// Computes the scores of positives and negatives: queries, candidates.
    Score {
        /// Candidates per positive.
        columns: Dim,
    },
    /// Computes the loss and the gradients of scores: scores, scores of positives.
    Loss,
    /// Computes the gradients of queries: gradients of scores, candidates.
    QueryGradients,
    /// Computes the gradients of candidates: gradients of scores, queries, candidates.
    CandidateGradients,
    /// Computes the gradients through the positives' own scores: their gradients, candidates, queries.
    PositiveGradients,
    /// Computes the scores of all relations, their loss and all its gradients: rows before the operator, rows that they
    /// are compared with, parameters, the relations of the edges.
    PredictRelations,
    /// Adds the gradients of the N3 penalty of positives: gradients, rows, biases if the rows are the compared ones.
    Regularize(RegularizedRows),
    /// Adds the gradients of the N3 penalty of an operator's parameters: parameters, gradients.
    RegularizeParameters,
    /// Adds the two gradients of positives that were also candidates: those of positives, those of candidates.
    Join,
    /// Passes gradients back through comparator and operator: gradients, rows, then the operands of the operator.
    Back(Operator),
    /// Sums gradients by table row: gradients, table.
    Sum,
    /// Applies sums to a table: sums, table.
    UpdateRows,
    /// Applies gradients to parameters: gradients, parameters.
    UpdateParameters,
}

/// Group of nodes that run one after the other on one device, and whose time is measured together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Stage {
    /// Looks up, transforms and prepares rows.
    Gather,
    /// Computes scores: a matrix product, and masks.
    Score,
    /// Turns scores into gradients.
    Loss,
    /// Computes gradients of rows: two matrix products.
    Differentiate,
    /// Passes gradients back through operators, and sums them by table row.
    Scatter,
    /// Applies sums to tables and parameters.
    Update,
}

impl Stage {
    /// All stages, in order.
    pub const ALL: [Self; 6] = [
        Self::Gather,
        Self::Score,
        Self::Loss,
        Self::Differentiate,
        Self::Scatter,
        Self::Update,
    ];

    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gather => "gather",
            Self::Score => "score",
            Self::Loss => "loss",
            Self::Differentiate => "differentiate",
            Self::Scatter => "scatter",
            Self::Update => "update",
        }
    }
}

/// Rows of positives that the regularizer penalizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegularizedRows {
    /// The rows that are compared, transformed and prepared.
    Compared,
    /// The looked-up rows, before the operator.
    LookedUp,
}

/// Lifetime and owner of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorLife {
    /// A table or a parameter that all workers share, not a buffer of the step.
    Shared,
    /// A column of the batch, available before the step begins.
    Column,
    /// Result of a node.
    Made,
}

/// Tensor of a batch graph.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphTensor {
    /// Name of its buffer: tensors of the same name that do not live at the same time share one.
    pub name: TensorName,
    /// Shape.
    pub shape: TensorShape,
    /// Element type.
    pub element: ElementType,
    /// Lifetime and owner.
    pub life: TensorLife,
    /// Tensor that it replaces in its buffer, and whose values are lost.
    pub replaces: Option<usize>,
}

/// Node of a batch graph: an operation with its operands and results, which are indices of tensors.
#[derive(Clone, Debug, PartialEq)]
pub struct GraphNode {
    /// Name.
    pub name: TensorName,
    /// Operation.
    pub operation: Operation,
    /// Stage.
    pub cluster: Stage,
    /// Index of the pass that it belongs to; none at the end of the batch.
    pub pass: Option<usize>,
    /// Operands, as indices into [`BatchGraph::tensors`].
    pub inputs: Vec<usize>,
    /// Results, as indices into [`BatchGraph::tensors`], including those that only the node itself reads.
    pub outputs: Vec<usize>,
}

/// Graph of the training step of one relation; its nodes are in the order in which they run. The nodes of a pass that
/// touch a tensor of the batch follow each other: they run once per slice, all others once per batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BatchGraph {
    /// Tensors.
    pub tensors: Vec<GraphTensor>,
    /// Nodes.
    pub nodes: Vec<GraphNode>,
}
