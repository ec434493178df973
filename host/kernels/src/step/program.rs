//! The compiled form of a relation's batch graph: the stages of its step, in the order of execution.
//!
//! A stage is a unit of an executor's work, with all properties of the graph's nodes that it includes. [`compile`]
//! creates the stages; [`StepExecutor`](crate::step::executor::StepExecutor) has a function for each type of stage.

mod compile;

use std::sync::Arc;

use pbg_core::batch_graph::{BatchPass, RegularizedRows, SlicedGraph};
use pbg_core::graph::Side;
use pbg_core::model::Operator;

/// Stage that looks up and prepares the rows of one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatherStage {
    /// Whether a global embedding is added.
    pub global: bool,
    /// Operator; `Operator::None` where the side is not transformed.
    pub operator: Operator,
    /// Uniform negatives per chunk, which are looked up after its positives.
    pub uniform: usize,
    /// Whether products also need the rows in bf16.
    pub rounded: bool,
}

/// Comparison of the negatives that replace one side with the other side's positives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompareStage {
    /// The side that is replaced.
    pub side: Side,
    /// Whether the positives' scores are computed pair by pair and have separate gradients; otherwise they are the
    /// diagonal of the in-batch negatives' scores.
    pub pairwise_positives: bool,
    /// Whether products have bf16 factors.
    pub rounded: bool,
}

/// Stage that propagates the gradients of one side's rows back to its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScatterStage {
    /// Operator, the same as the side's [`GatherStage::operator`].
    pub operator: Operator,
    /// Form of the positives whose N3 is added; `None` without regularizer.
    pub regularized: Option<RegularizedRows>,
    /// Whether the positives are also in-batch negatives, whose gradients are added to theirs.
    pub positives_are_negatives: bool,
}

/// The stages of one pass over the batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassStages {
    /// Sides that the negatives of the pass replace.
    pub pass: BatchPass,
    /// Whether parameters are copied first.
    pub reads_parameters: bool,
    /// With all negatives: the sides of which every entity is gathered first and scattered last.
    pub entities: [Option<(GatherStage, ScatterStage)>; 2],
    /// Stages that gather the rows of each slice, by side.
    pub gather: [GatherStage; 2],
    /// Comparisons of each slice, in order.
    pub compare: Vec<CompareStage>,
    /// Whether the relation types of each slice's edges are predicted.
    pub predict_relations: bool,
    /// Stages that scatter the gradients of each slice, by side.
    pub scatter: [ScatterStage; 2],
    /// Whether the table's rows are updated after each slice.
    pub update_rows: bool,
    /// Whether N3 of the operator's parameters is added at the end.
    pub regularize_parameters: bool,
}

/// A compiled step. Its last stage, the update, needs no description.
#[derive(Clone, Debug)]
pub struct StepProgram {
    /// The graph that was compiled.
    pub graph: Arc<SlicedGraph>,
    /// Passes over the batch.
    pub passes: Vec<PassStages>,
}
