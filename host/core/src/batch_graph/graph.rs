//! Nodes, the tensors between them, and the clusters they form.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::dimension::{Dim, Element, Shape};
use super::step_spec::StepSpec;
use crate::graph::Side;
use crate::model::Operator;

/// What a node or a buffer is called: what it is, and the side that it belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    /// What it is.
    pub what: &'static str,
    /// Its side.
    pub side: Option<Side>,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.side {
            None => f.write_str(self.what),
            Some(Side::Lhs) => write!(f, "{}.lhs", self.what),
            Some(Side::Rhs) => write!(f, "{}.rhs", self.what),
        }
    }
}

/// Where the negatives of one side come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Negatives {
    /// None replace this side.
    None,
    /// The chunk's own positives if `own`, then `uniform` draws.
    Sampled {
        /// Whether a chunk's positives are each other's negatives.
        in_batch: bool,
        /// Uniform draws per chunk.
        uniform: usize,
    },
    /// Every entity of the partition.
    All,
}

/// One pass over the batch: the sides are compared after an operator was applied to one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchPass {
    /// The side that goes through the operator.
    pub operator_side: Side,
    /// The sides that negatives replace.
    pub replaced: &'static [Side],
}

impl BatchPass {
    /// Static relations: one comparison serves both sides.
    pub const STATIC: &'static [Self] = &[Self {
        operator_side: Side::Rhs,
        replaced: &Side::BOTH,
    }];
    /// Dynamic relations: the side that is replaced is compared as it is, the other one transformed.
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

/// What a node computes. Operands are in the order in which they are listed.
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
    /// Transforms rows: rows, parameters, the relations of edges if these differ.
    Operator(Operator),
    /// Makes rows ready for inner products, with or without a bias: rows.
    Prepare {
        /// Whether the first coordinate is a bias.
        bias: bool,
    },
    /// Rounds to bf16: floats.
    Round,
    /// Scores of positives and negatives: queries, candidates.
    Score {
        /// Candidates per positive.
        columns: Dim,
    },
    /// The loss and the gradients of scores: scores, scores of positives.
    Loss,
    /// Gradients of queries: gradients of scores, candidates.
    QueryGradients,
    /// Gradients of candidates: gradients of scores, queries, candidates.
    CandidateGradients,
    /// Gradients through the positives' scores: their gradients, candidates, queries.
    PositiveGradients,
    /// Scores of all relations, their loss and all its gradients: rows before the operator, rows that they are compared
    /// with, parameters, the relations of edges.
    PredictRelations,
    /// N3 of positives: gradients, rows, biases where rows are compared.
    Regularize(RegularizedRows),
    /// N3 of an operator's parameters: parameters, gradients.
    RegularizeParameters,
    /// Positives that were candidates have two gradients: positives', candidates'.
    Join,
    /// Back through comparison and operator: gradients, rows, then as for the operator.
    Back(Operator),
    /// Sums gradients by table row: gradients, table.
    Sum,
    /// Applies sums to a table: sums, table.
    UpdateRows,
    /// Applies gradients to parameters: gradients, parameters.
    UpdateParameters,
}

/// Nodes that run one after the other on one device, and whose time is measured together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cluster {
    /// Rows are looked up, transformed and prepared.
    Gather,
    /// Scores: a matrix product, and masks.
    Score,
    /// Scores become gradients.
    Loss,
    /// Gradients of rows: two matrix products.
    Differentiate,
    /// Gradients go back through operators and are summed by table row.
    Scatter,
    /// Sums are applied to tables and parameters.
    Update,
}

impl Cluster {
    /// All clusters, in order.
    pub const ALL: [Self; 6] = [
        Self::Gather,
        Self::Score,
        Self::Loss,
        Self::Differentiate,
        Self::Scatter,
        Self::Update,
    ];

    /// Its name.
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

impl Operation {
    /// The cluster that nodes of this operation belong to; rounding belongs to what it rounds for.
    #[must_use]
    pub const fn cluster(self) -> Option<Cluster> {
        match self {
            Self::Read
            | Self::Gather
            | Self::GatherAll
            | Self::Global
            | Self::Operator(_)
            | Self::Prepare { .. } => Some(Cluster::Gather),
            Self::Round => None,
            Self::Score { .. } => Some(Cluster::Score),
            Self::Loss => Some(Cluster::Loss),
            Self::QueryGradients
            | Self::CandidateGradients
            | Self::PositiveGradients
            | Self::PredictRelations => Some(Cluster::Differentiate),
            Self::Regularize(_)
            | Self::RegularizeParameters
            | Self::Join
            | Self::Back(_)
            | Self::Sum => Some(Cluster::Scatter),
            Self::UpdateRows | Self::UpdateParameters => Some(Cluster::Update),
        }
    }
}

/// Where on the way from the table to the comparison positives are regularised.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegularizedRows {
    /// Transformed and prepared.
    Compared,
    /// Before the operator.
    LookedUp,
}

/// How long a tensor lives, and whose it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorLife {
    /// A table or a parameter that all workers share: no buffer of the step.
    Shared,
    /// A column of the batch, there before the step begins.
    Column,
    /// Made by a node.
    Made,
}

/// A tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// The buffer that it asks for: tensors of one name that do not live at the same time share one.
    pub name: Name,
    /// Its shape.
    pub shape: Shape,
    /// What it is made of.
    pub element: Element,
    /// Whose it is.
    pub kind: TensorLife,
    /// The tensor whose place it takes, which is lost.
    pub instead_of: Option<usize>,
}

/// A node: an operation with its operands and results, which are indices of tensors.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Its name.
    pub name: Name,
    /// What it computes.
    pub operation: Operation,
    /// Its cluster.
    pub cluster: Cluster,
    /// The pass that it belongs to, an index into [`Graph::passes`]; none for the end of the batch.
    pub pass: Option<usize>,
    /// The side that is replaced, where the node belongs to one comparison.
    pub direction: Option<Side>,
    /// Operands.
    pub inputs: Vec<usize>,
    /// Results, those included that nothing reads but the node itself.
    pub outputs: Vec<usize>,
}

/// The training step of one relation; nodes in the order in which they run.
#[derive(Clone, Debug, PartialEq)]
pub struct Graph {
    /// What it was built from.
    pub step_spec: StepSpec,
    /// Passes over the batch.
    pub passes: &'static [BatchPass],
    /// All tensors.
    pub tensors: Vec<Tensor>,
    /// All nodes.
    pub nodes: Vec<Node>,
}
