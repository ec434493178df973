//! The parts from which the stages of a core are built.

use pbg_core::batch_graph::{CompareStage, GatherStage, ScatterStage};
use pbg_core::graph::Side;
use pbg_rows::regularizer::RowPenalty;
use pbg_rows::table::LookUp;

use crate::operators;
use crate::score_function::ScoreFunction;
use crate::step::common_products::SharingOrder;
use crate::step::executor::{SliceStages, side_and_other};
use crate::step::gather::{ChunkLayout, Gatherer, RowSource, RowTransform, SideOfSlice};
use crate::step::plan::Slice;
use crate::step::prepared_rows::PreparedRows;
use crate::step::scatter::{RowSums, Scatterer};
use crate::step::scores::SliceComparison;

use super::{CoreStep, WorkerSums};
impl<'b> CoreStep<'b> {
    pub(super) fn relation(&self) -> usize {
        self.job.batch.spec_index()
    }

    /// Returns the penalty on rows of embeddings.
    pub(super) fn penalty(&self) -> RowPenalty {
        RowPenalty::on_embeddings(
            self.spec.regularizer,
            self.spec.regularization_coef,
            self.plan.operator.is_complex(),
        )
    }

    /// Returns the penalty on the operator's parameters.
    pub(super) fn penalty_on_parameters(&self) -> RowPenalty {
        let width = operators::packed_width(self.plan.operator, self.plan.dimension);
        self.penalty().on_parameters(width == self.plan.dimension)
    }

    /// Returns the entities of one side of a slice, and the layout of their rows.
    pub(super) fn side<'s>(
        &self,
        stage: &GatherStage,
        slice: &'s Slice,
        side: Side,
    ) -> SideOfSlice<'s>
    where
        'b: 's,
    {
        let (job, uniform) = (self.job, stage.uniform);
        let first = slice.first_chunk * uniform;
        SideOfSlice {
            slice,
            layout: ChunkLayout {
                chunk: slice.chunk,
                uniform,
            },
            positives: &job.batch.side(side)[slice.rows.clone()],
            draws: &job.draws.side(side)[first..first + slice.chunks * uniform],
        }
    }

    pub(super) fn direction<'s>(
        &self,
        at: SliceStages<'s>,
        stage: &CompareStage,
    ) -> SliceComparison<'s>
    where
        'b: 's,
    {
        let slice = at.slice;
        SliceComparison {
            plan: self.plan,
            slice,
            side: stage.side,
            layouts: at.stages.gather.map(|gather| ChunkLayout {
                chunk: slice.chunk,
                uniform: gather.uniform,
            }),
            comparison: ScoreFunction::of(self.spec),
            rounded: stage.rounded,
            sharing: at.stages.shares_products.then(|| {
                match at.stages.compare.first() == Some(stage) {
                    true => SharingOrder::First,
                    false => SharingOrder::Second,
                }
            }),
            pairs: stage.pairwise_positives,
            draw_counts: self
                .job
                .draws
                .counts(stage.side)
                .map(|counts| &counts[slice.rows.clone()]),
            positive_entities: &self.job.batch.side(stage.side)[slice.rows.clone()],
            entities: self.share.of(self.job.tables.side(stage.side).entities()),
        }
    }

    /// Returns the gatherer of one side's rows.
    pub(super) fn gatherer<'g>(
        &'g mut self,
        stage: &GatherStage,
        side: Side,
        rows: &'g mut PreparedRows,
    ) -> Gatherer<'g> {
        let (tables, relation) = (self.job.tables, self.relation());
        let WorkerSums {
            values,
            scratch,
            evaluators,
            products,
            ..
        } = &mut *self.sums;
        Gatherer {
            rows,
            source: RowSource {
                table: tables.side(side),
                other: tables.other(self.spec, relation, side),
            },
            look_up: LookUp {
                max_norm: self.spec.max_norm,
                in_place: true,
            },
            transform: RowTransform {
                dimension: self.plan.dimension,
                comparison: ScoreFunction::of(self.spec),
                global: match stage.global {
                    true => &values.globals[side as usize],
                    false => &[],
                },
                operator: stage.operator,
                parameters: values.view(
                    self.job.params.operator(relation, stage.operator_side),
                    self.job.relations(),
                ),
                regularizer: None,
            },
            scratch,
            evaluators,
            products,
        }
    }

    /// Returns the scatterer of one side's gradients.
    pub(super) fn scatterer<'s>(&'s mut self, stage: &ScatterStage, side: Side) -> Scatterer<'s> {
        let (tables, relation, index) = (self.job.tables, self.relation(), side as usize);
        // Only the first worker regularizes the positives, which all workers share.
        let regularizer = stage.regularized.filter(|_| self.share.is_first());
        let regularizer = regularizer.map(|rows| (self.penalty(), rows));
        let WorkerSums {
            values,
            gradients,
            rows,
            evaluators,
            products,
            ..
        } = &mut *self.sums;
        let (own, other) = side_and_other(rows, side);
        let (rows, other) = match (tables.shared(), side) {
            (true, Side::Rhs) => (other, None),
            (true, Side::Lhs) => (own, None),
            (false, _) => (own, Some(other)),
        };
        Scatterer {
            transform: RowTransform {
                dimension: self.plan.dimension,
                comparison: ScoreFunction::of(self.spec),
                global: &[],
                operator: stage.operator,
                parameters: values.view(
                    self.job.params.operator(relation, stage.operator_side),
                    self.job.relations(),
                ),
                regularizer,
            },
            sums: RowSums {
                table: tables.side(side),
                rows,
                other,
            },
            global: &mut gradients.globals[index],
            operator: &mut gradients.operators[stage.operator_side as usize],
            evaluators,
            products,
        }
    }
}
