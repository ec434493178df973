//! What the batch graph of a relation is compiled to: the stages of its step, in the order in which they run.
//!
//! A stage is what an executor does in one go, with everything that the graph's nodes say about it. [`compile`] makes
//! them; [`StepExecutor`](crate::step::executor::StepExecutor) has a function for each type of stage.

mod compile;

use std::sync::Arc;

use pbg_core::batch_graph::{BatchPass, RegularizedRows, Sliced};
use pbg_core::graph::Side;
use pbg_core::model::Operator;

/// How the rows of one side are looked up and prepared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gather {
    /// Whether a global embedding is added.
    pub global: bool,
    /// `Operator::None` where the side is compared as it is.
    pub operator: Operator,
    /// Uniform negatives per chunk, looked up behind its positives.
    pub uniform: usize,
    /// Whether products want the rows in bf16, too.
    pub rounded: bool,
}

/// The comparison of the negatives that replace one side with the other side's positives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compare {
    /// The side that is replaced.
    pub side: Side,
    /// Whether the positives' scores are computed pair by pair and have gradients of their own; otherwise they are
    /// the diagonal of the in-batch negatives' scores.
    pub pairs: bool,
    /// Whether products have bf16 factors.
    pub rounded: bool,
}

/// How gradients of one side's rows go back to its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scatter {
    /// As the side's [`Gather::operator`].
    pub operator: Operator,
    /// Of which positives N3 is added.
    pub regularized: Option<RegularizedRows>,
    /// Whether positives were in-batch negatives, too, whose gradients are joined.
    pub joined: bool,
}

/// One pass over the batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassStages {
    /// Which sides it replaces.
    pub pass: BatchPass,
    /// Whether parameters are copied first.
    pub read: bool,
    /// With all negatives: the sides of which every entity is prepared first, and scattered last.
    pub entities: [Option<(Gather, Scatter)>; 2],
    /// For every slice.
    pub gather: [Gather; 2],
    /// For every slice, one after the other.
    pub compare: Vec<Compare>,
    /// For every slice: whether the relations of its edges are predicted.
    pub predict_relations: bool,
    /// For every slice.
    pub scatter: [Scatter; 2],
    /// Whether every slice ends with an update of its rows.
    pub update_rows: bool,
    /// Whether N3 of the operator's parameters is added last.
    pub regularize_parameters: bool,
}

/// A compiled step. Its end, the update of all that was summed, needs no parameters.
#[derive(Clone, Debug)]
pub struct Program {
    /// What was compiled.
    pub graph: Arc<Sliced>,
    /// Its passes over the batch.
    pub passes: Vec<PassStages>,
}
