//! The stages of a step on a core, on buffers that a worker reuses.

mod apply;
mod relations;
mod stage_parts;

use std::borrow::Cow;

use pbg_core::batch_graph::{CompareStage, GatherStage, PassStages, ScatterStage, StepPlan};
use pbg_core::graph::Side;
use pbg_core::strategy::LossWorker;
use pbg_rows::gradient_rows::GradientRows;
use pbg_rows::spec::ModelSpec;

use crate::error::StepError;
use crate::operators::formula::Evaluators;
use crate::step::BatchStats;
use crate::step::buffers::{EntityBuffers, SliceBuffers};
use crate::step::executor::{SliceStages, StepExecutor, side_and_other};
use crate::step::job::BatchJob;
use crate::step::parameters::{ParameterGradients, ParameterValues, RegularizedOperator};
use crate::step::plan::BatchPlan;
use crate::step::predict_relations::RelationBuffers;
use crate::step::relation_products::RelationProducts;
use crate::step::score_buffers::Weights;
use crate::step::scores::ComparisonBuffers;
use crate::step::share::BatchShare;

/// A worker's data besides the buffers of passes and slices: copies of parameters, and sums of gradients.
#[derive(Debug, Default)]
pub(crate) struct WorkerSums {
    pub(crate) values: ParameterValues,
    pub(crate) gradients: ParameterGradients,
    /// Gradients of each side's table; those of a table on both sides are in the first one.
    pub(crate) rows: [GradientRows; 2],
    pub(crate) scratch: Vec<f32>,
    /// Buffers for relation prediction.
    pub(crate) relations: RelationBuffers,
    /// A row and its accumulators during an update.
    pub(crate) row: Vec<f32>,
    pub(crate) evaluators: Evaluators,
    pub(crate) products: RelationProducts,
}

impl WorkerSums {
    pub(crate) fn bytes(&self) -> usize {
        let rows: usize = self.rows.iter().map(GradientRows::bytes).sum();
        let buffers = self.relations.bytes() + self.evaluators.bytes() + self.products.bytes();
        rows + self.gradients.bytes() + buffers
    }
}

/// The work on one batch on a core.
pub(crate) struct CoreStep<'b> {
    spec: &'b ModelSpec,
    plan: &'b BatchPlan,
    job: &'b BatchJob<'b>,
    loss_worker: &'b mut dyn LossWorker,
    sums: &'b mut WorkerSums,
    share: BatchShare<'b>,
    stats: BatchStats,
    /// Sum of the losses in the order in which they were computed, for evaluation.
    loss: f64,
}

/// Both sides of a slice, gathered.
pub(crate) struct GatheredRows<'m>(&'m mut SliceBuffers);

/// Scores of a comparison, with the rows that were compared.
pub(crate) struct CoreScores<'m>(ComparisonBuffers<'m>);

/// Gradients of the scores, stored in the scores' place.
pub(crate) struct CoreScoreGradients<'m>(ComparisonBuffers<'m>);

impl<'b> CoreStep<'b> {
    /// Creates the work on a batch for evaluation.
    pub(crate) fn new(
        spec: &'b ModelSpec,
        plan: &'b BatchPlan,
        (job, loss_worker): (&'b BatchJob<'b>, &'b mut dyn LossWorker),
        sums: &'b mut WorkerSums,
    ) -> Self {
        Self {
            spec,
            plan,
            job,
            loss_worker,
            sums,
            share: BatchShare::WHOLE,
            stats: BatchStats {
                count: job.batch.len(),
                ..BatchStats::default()
            },
            loss: 0.0,
        }
    }

    /// Creates the work on a share of a batch for training: sums of gradients start at zero.
    pub(crate) fn trained(
        spec: &'b ModelSpec,
        plan: &'b BatchPlan,
        (job, loss): (&'b BatchJob<'b>, &'b mut dyn LossWorker),
        sums: &'b mut WorkerSums,
        share: BatchShare<'b>,
    ) -> Self {
        let relation = job.batch.spec_index();
        sums.gradients
            .reset(spec, relation, job.params, job.batch.len());
        for side in Side::BOTH {
            let embeddings = &job.tables.side(side).embeddings;
            // A table on both sides has a single sum per row.
            let rows = match job.tables.shared() && side == Side::Rhs {
                true => 0,
                false => embeddings.rows(),
            };
            let expected = plan.sizes.touched[side as usize];
            sums.rows[side as usize].reset(rows, embeddings.width(), expected);
        }
        let mut step = Self::new(spec, plan, (job, loss), sums);
        step.share = share;
        if !share.is_first() {
            step.stats.count = 0;
        }
        step
    }
}

/// Returns the sides on which every entity is a negative, with their stages.
fn all_negative_sides(
    stages: &PassStages,
) -> impl Iterator<Item = (Side, &GatherStage, &ScatterStage)> {
    Side::BOTH
        .into_iter()
        .zip(&stages.entities)
        .filter_map(|(side, stages)| {
            let (gather, scatter) = stages.as_ref()?;
            Some((side, gather, scatter))
        })
}

fn finite(finite: bool, what: &'static str) -> Result<(), StepError> {
    match finite {
        true => Ok(()),
        false => Err(StepError::NonFinite(what)),
    }
}

impl StepExecutor for CoreStep<'_> {
    type Error = StepError;
    type PassMemory = [EntityBuffers; 2];
    type SliceMemory = SliceBuffers;
    type Entities<'m> = &'m mut [EntityBuffers; 2];
    type Gathered<'m> = GatheredRows<'m>;
    type Scored<'m> = CoreScores<'m>;
    type ScoreGradients<'m> = CoreScoreGradients<'m>;

    fn unsupported(step: &StepPlan) -> Option<&'static str> {
        let step_spec = &step.step_spec;
        match step_spec.half {
            true if step_spec.is_distance() => Some(super::execution::NO_ROUNDED_DISTANCES),
            true if step_spec.comparator.formula().is_some() => {
                Some(super::execution::NO_ROUNDED_FORMULAS)
            }
            _ => None,
        }
    }

    fn begin<'m>(
        &mut self,
        stages: &PassStages,
        memory: &'m mut [EntityBuffers; 2],
    ) -> Result<Self::Entities<'m>, StepError> {
        if stages.reads_parameters {
            let (spec, job) = (self.spec, self.job);
            self.sums.values.read(spec, self.relation(), job.params);
        }
        if stages.predict_relations {
            let side = stages.pass.operator_side;
            let directions =
                [side, side.other()].map(|side| self.job.params.operator(self.relation(), side));
            let relations = self.spec.relation_count();
            self.sums.relations.begin(directions, relations);
        }
        let dimension = self.plan.dimension;
        for (side, gather, _) in all_negative_sides(stages) {
            let entities = self.share.of(self.job.tables.side(side).entities());
            let buffers = &mut memory[side as usize];
            self.gatherer(gather, side, &mut buffers.rows)
                .entities(entities.clone())?;
            if gather.rounded {
                buffers.rows.round(entities.len() * dimension);
            }
            buffers.gradients.start(entities.len(), dimension);
        }
        Ok(memory)
    }

    fn gather<'m>(
        &mut self,
        at: SliceStages<'_>,
        memory: &'m mut SliceBuffers,
    ) -> Result<GatheredRows<'m>, StepError> {
        let (dimension, slice) = (self.plan.dimension, at.slice);
        for (side, gather) in Side::BOTH.into_iter().zip(&at.stages.gather) {
            let buffers = &mut memory.sides[side as usize];
            let entities = self.side(gather, slice, side);
            self.gatherer(gather, side, &mut buffers.rows)
                .slice(&entities)?;
            if gather.rounded {
                let rows = slice.chunks * entities.layout.rows();
                buffers.rows.round(rows * dimension);
            }
            buffers.positives.start(slice.padded(), dimension);
            let columns = match at.stages.pass.replaced.contains(&side) {
                true => self.plan.columns(side),
                false => 0,
            };
            buffers.candidates.start(slice.chunks * columns, dimension);
        }
        Ok(GatheredRows(memory))
    }

    fn score<'m>(
        &mut self,
        at: SliceStages<'_>,
        stage: &CompareStage,
        entities: &'m mut Self::Entities<'_>,
        rows: &'m mut GatheredRows<'_>,
    ) -> Result<CoreScores<'m>, StepError> {
        let SliceBuffers { sides, scores } = &mut *rows.0;
        let (candidates, queries) = side_and_other(sides, stage.side);
        let mut compared = ComparisonBuffers {
            candidates,
            entities: &mut entities[stage.side as usize],
            queries,
            scores,
        };
        self.direction(at, stage)
            .score(&mut compared, &mut self.sums.evaluators)?;
        Ok(CoreScores(compared))
    }

    fn scores<'s>(
        &self,
        at: SliceStages<'_>,
        scored: &'s CoreScores<'_>,
    ) -> Result<[Cow<'s, [f32]>; 2], StepError> {
        let (positive, negative) = scored.0.scores.of(at.slice);
        Ok([positive.into(), negative.into()])
    }

    fn loss<'m>(
        &mut self,
        at: SliceStages<'_>,
        stage: &CompareStage,
        scored: Self::Scored<'m>,
    ) -> Result<Self::ScoreGradients<'m>, StepError> {
        let CoreScores(compared) = scored;
        let weights = Weights {
            relation: self.spec.relations[self.relation()].weight,
            edges: self.job.batch.weight.map(|w| &w[at.slice.rows.clone()]),
        };
        let (scores, loss) = (&mut *compared.scores, &mut *self.loss_worker);
        let sums = match self.share.exchange() {
            None => scores.loss(at.slice, loss, weights)?,
            Some(place) => {
                let entities = self.job.tables.side(stage.side).entities();
                scores.loss_of_share(at.slice, loss, weights, place, entities)?
            }
        };
        self.stats.add(stage.side, sums.loss, sums.violators);
        self.loss += sums.loss;
        Ok(CoreScoreGradients(compared))
    }

    fn differentiate(
        &mut self,
        at: SliceStages<'_>,
        stage: &CompareStage,
        gradients: CoreScoreGradients<'_>,
    ) -> Result<(), StepError> {
        let CoreScoreGradients(mut compared) = gradients;
        self.direction(at, stage)
            .differentiate(&mut compared, &mut self.sums.evaluators)
    }

    fn predict_relations(
        &mut self,
        at: SliceStages<'_>,
        rows: &mut GatheredRows<'_>,
    ) -> Result<(), StepError> {
        self.predict(at, rows.0)
    }

    fn scatter(&mut self, at: SliceStages<'_>, rows: GatheredRows<'_>) -> Result<(), StepError> {
        for side in Side::BOTH {
            let gather = &at.stages.gather[side as usize];
            let scatter = &at.stages.scatter[side as usize];
            let entities = self.side(gather, at.slice, side);
            let buffers = &mut rows.0.sides[side as usize];
            let mut scatterer = self.scatterer(scatter, side);
            let regularizer =
                scatterer.slice(buffers, &entities, scatter.positives_are_negatives)?;
            self.stats.reg += regularizer;
        }
        Ok(())
    }

    fn update_rows(&mut self) -> Result<(), StepError> {
        finite(self.apply(false)?, "gradient")
    }

    fn finish(
        &mut self,
        stages: &PassStages,
        entities: Self::Entities<'_>,
    ) -> Result<(), StepError> {
        for (side, _, scatter) in all_negative_sides(stages) {
            let buffers = &mut entities[side as usize];
            let entities = self.share.of(self.job.tables.side(side).entities());
            self.scatterer(scatter, side).entities(buffers, entities)?;
        }
        if stages.predict_relations {
            let sums = &mut *self.sums;
            let [lhs, rhs] = &mut sums.gradients.operators;
            sums.relations.finish(match stages.pass.operator_side {
                Side::Lhs => [lhs, rhs],
                Side::Rhs => [rhs, lhs],
            });
        }
        if stages.regularize_parameters && self.share.is_first() {
            let side = stages.pass.operator_side;
            let operator = RegularizedOperator {
                penalty: self.penalty_on_parameters(),
                side,
                tensors: self.job.params.operator(self.relation(), side),
                relations: self.job.relations(),
                weight: self.plan.parameter_weight,
            };
            let WorkerSums {
                values, gradients, ..
            } = &mut *self.sums;
            self.stats.reg += gradients.regularize(values, operator);
        }
        Ok(())
    }

    fn total_loss(&self) -> Result<f64, StepError> {
        Ok(self.loss)
    }

    fn update(mut self) -> Result<BatchStats, StepError> {
        let stats = self.stats;
        let total = stats.loss() + stats.loss_relations + stats.reg;
        finite(total.is_finite(), "loss")?;
        finite(self.apply(true)?, "gradient")?;
        Ok(stats)
    }
}
