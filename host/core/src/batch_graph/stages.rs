//! The stages of a step: the units of an executor's work, in the order in which they run.

use super::graph::{BatchPass, RegularizedRows};
use super::step_spec::StepSpec;
use crate::graph::Side;
use crate::model::{Operator, Regularizer, Update};

/// Stage that looks up and prepares the rows of one side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatherStage {
    /// Whether a global embedding is added.
    pub global: bool,
    /// Operator; `Operator::None` where the side is not transformed.
    pub operator: Operator,
    /// Side whose parameters the operator has.
    pub operator_side: Side,
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
    /// Side whose parameters the operator has.
    pub operator_side: Side,
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
    /// Whether there are two comparisons, in both of which positives of a chunk are compared with positives by inner
    /// products in single precision. One product serves both, since one comparison's is the transpose of the other's.
    pub shares_products: bool,
    /// Whether the relation types of each slice's edges are predicted.
    pub predict_relations: bool,
    /// Stages that scatter the gradients of each slice, by side.
    pub scatter: [ScatterStage; 2],
    /// Whether the table's rows are updated after each slice.
    pub update_rows: bool,
    /// Whether N3 of the operator's parameters is added at the end.
    pub regularize_parameters: bool,
}

impl PassStages {
    /// Returns the stages of one pass of a step.
    pub(super) fn new(spec: &StepSpec, pass: BatchPass, update: Update) -> Self {
        let transforms = spec.operator != Operator::None;
        let gather = |side: Side| {
            let operator = match side == pass.operator_side {
                true => spec.operator,
                false => spec.operator.on_lhs(),
            };
            GatherStage {
                global: spec.global,
                operator,
                operator_side: match operator {
                    Operator::None => side,
                    _ => pass.operator_side,
                },
                uniform: 0,
                rounded: spec.half,
            }
        };
        let scatter = |side: Side| ScatterStage {
            operator: gather(side).operator,
            operator_side: gather(side).operator_side,
            regularized: None,
            positives_are_negatives: false,
        };
        // Without an operator, the compared rows are the looked-up ones.
        let regularized = |operator| match spec.regularizer? {
            Regularizer::N3Embeddings if operator != Operator::None => {
                Some(RegularizedRows::LookedUp)
            }
            Regularizer::N3 | Regularizer::N3Embeddings | Regularizer::Dura => {
                Some(RegularizedRows::Compared)
            }
        };
        let replaced = |side: Side| pass.replaced.contains(&side);
        let compare = |&side: &Side| CompareStage {
            side,
            // Distances of positives are computed separately, because small ones would lose all digits in the
            // difference.
            pairwise_positives: !spec.in_batch(side) || spec.is_distance(),
            rounded: spec.half,
        };
        Self {
            pass,
            reads_parameters: spec.relations.is_none() && (transforms || spec.global),
            entities: Side::BOTH.map(|side| {
                (replaced(side) && spec.all(side)).then(|| (gather(side), scatter(side)))
            }),
            gather: Side::BOTH.map(|side| GatherStage {
                uniform: if replaced(side) {
                    spec.uniform(side)
                } else {
                    0
                },
                ..gather(side)
            }),
            compare: pass.replaced.iter().map(compare).collect(),
            shares_products: Side::BOTH
                .iter()
                .all(|&side| replaced(side) && spec.in_batch(side))
                && spec.comparator.formula().is_none()
                && !spec.half,
            predict_relations: spec.predicts_relations && spec.relations.is_some() && transforms,
            scatter: Side::BOTH.map(|side| ScatterStage {
                regularized: regularized(gather(side).operator),
                positives_are_negatives: replaced(side) && spec.in_batch(side),
                ..scatter(side)
            }),
            update_rows: update == Update::Slice,
            regularize_parameters: transforms && spec.regularizes_parameters(),
        }
    }
}
