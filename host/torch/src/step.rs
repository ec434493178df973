//! Stages of a training step on a device: each is a few operations of libtorch.

mod ask;
mod at_once;
mod selection;

use std::borrow::Cow;
use std::sync::MutexGuard;

use pbg_core::batch_graph::{CompareStage, Negatives, PassStages, RegularizedRows, StepPlan};
use pbg_core::graph::Side;
use pbg_core::strategy::{LossFormula, LossWorker};
use pbg_kernels::device::{
    BatchPlan, NO_ROUNDED_DISTANCES, ScoreFunction, Slice, SliceStages, StepExecutor,
    side_and_other,
};
use pbg_kernels::step::{BatchJob, BatchStats, StepError};
use pbg_rows::regularizer::RowPenalty;
use pbg_rows::spec::ModelSpec;
use tch::{Kind, TchError, Tensor};

use self::ask::evaluate_on_host;
use super::device::TorchDevice;
use super::error::DeviceError;
use super::formula::{self, LossTensors};
use super::fused::CudaKernels;
use super::parameters::{BatchParameters, DeviceParameters};
use super::pending_sums::PendingSums;
use super::rows::{DeviceGradients, DeviceRows, penalties};
use super::score_tensors::ScoreTensors;
use super::scores::{ComparedRows, SliceDirection};
use super::sums::{BatchSums, POSITIVE_GRADIENTS, REGULARIZER, all_finite};
use super::tables::TableRows;
use super::touched::{TouchedRows, part};
use super::transfer;
use super::working_set::WorkingSet;

const NO_FEATURES: &str =
    "featurized entity types are trained on the CPU only; use execution.device = \"cpu\"";

const NO_FORMULAS: &str = "this comparator is a formula of each pair of embeddings, which is computed on the CPU only; use \
     execution.device = \"cpu\"";

const NO_RELATIONS: &str =
    "relations are predicted on the CPU only; use execution.device = \"cpu\"";

/// A batch on a device.
pub(super) struct DeviceStep<'b> {
    pub(super) spec: &'b ModelSpec,
    pub(super) plan: &'b BatchPlan,
    pub(super) job: &'b BatchJob<'b>,
    pub(super) place: TorchDevice,
    pub(super) loss: &'b mut dyn LossWorker,
    /// Formula of the loss at the start of the batch; `None` for a computed loss.
    pub(super) formula: Option<LossFormula>,
    pub(super) touched: TouchedRows,
    pub(super) set: WorkingSet,
    pub(super) read: BatchParameters,
    /// Factors of the edges' losses, `[edges]`; `None` if all are 1.
    pub(super) weights: Option<Tensor>,
    pub(super) sums: BatchSums,
    /// Tables to which the rows are written back; `None` for the right side if both are the same table.
    pub(super) tables: [Option<MutexGuard<'b, TableRows>>; 2],
    pub(super) parameters: &'b mut DeviceParameters,
    /// Kernels; `None` without a GPU.
    pub(super) kernels: Option<&'b CudaKernels>,
    /// Receives the result of the batch if the GPU may continue before it is known.
    pub(super) later: Option<&'b mut Option<PendingSums>>,
}

/// All entities of a side, prepared, and their gradients.
pub(super) struct AllEntities {
    rows: DeviceRows,
    gradients: DeviceGradients,
}

/// Prepared rows of both sides of a slice, and their gradients.
pub(super) struct SliceRows {
    rows: [DeviceRows; 2],
    gradients: [DeviceGradients; 2],
}

/// Scores, and the rows that were compared.
pub(super) struct DeviceScores<'m> {
    scores: ScoreTensors,
    rows: &'m mut SliceRows,
    /// All entities, if all are negatives.
    entities: Option<&'m mut AllEntities>,
}

/// Gradients of scores, and the rows that were compared.
pub(super) struct DeviceScoreGradients<'m>(DeviceScores<'m>);

impl<'b> DeviceStep<'b> {
    fn comparison(&self) -> ScoreFunction {
        ScoreFunction::of(self.spec)
    }

    fn penalty(&self) -> RowPenalty {
        RowPenalty::on_embeddings(
            self.spec.regularizer,
            self.spec.regularization_coef,
            self.plan.operator.is_complex(),
        )
    }

    fn direction<'s>(
        &self,
        at: SliceStages<'s>,
        stage: &CompareStage,
    ) -> Result<SliceDirection<'s>, TchError>
    where
        'b: 's,
    {
        let negatives = self.plan.negatives[stage.side as usize];
        let positive_entities = &self.touched.positive_entities[stage.side as usize];
        Ok(SliceDirection {
            kernels: self.kernels,
            slice: at.slice,
            negatives,
            comparison: self.comparison(),
            half: stage.rounded,
            positive_entities: match negatives {
                Negatives::All => part(positive_entities, at.slice)?,
                Negatives::None | Negatives::Sampled { .. } => positive_entities.shallow_clone(),
            },
        })
    }

    /// Returns which draws are no negatives of an edge, `[edges, draws]`; `None` if all are negatives of every edge.
    fn undrawn(&self, slice: &Slice, side: Side) -> Result<Option<Tensor>, TchError> {
        let Negatives::Sampled { uniform, .. } = self.plan.negatives[side as usize] else {
            return Ok(None);
        };
        let Some(counts) = self.job.draws.counts(side) else {
            return Ok(None);
        };
        let counts: Vec<f32> = counts[slice.rows.clone()]
            .iter()
            .map(|&n| n as f32)
            .collect();
        // Halfway between two counts, so that no position equals one.
        let positions: Vec<f32> = (0..uniform).map(|at| at as f32 + 0.5).collect();
        let counts = transfer::floats(&counts, self.place)?.f_unsqueeze(1)?;
        let positions = transfer::floats(&positions, self.place)?.f_unsqueeze(0)?;
        positions.f_gt_tensor(&counts).map(Some)
    }

    /// Adds the penalty on the operator's parameters; those of each relation count by its number of edges.
    fn regularize_parameters(&mut self, side: Side) -> Result<(), TchError> {
        let penalty = self.penalty();
        let parameters = self.read.operator(side);
        let width: i64 = parameters.iter().map(|p| p.values.size()[1]).sum();
        let penalty = penalty.on_parameters(width == self.plan.dimension as i64);
        let counts = transfer::floats(&self.touched.relation_counts, self.place)?;
        let packed: Vec<&Tensor> = parameters.iter().map(|p| &p.values).collect();
        let (values, gradients) = penalties(penalty, &Tensor::f_cat(&packed, 1)?)?;
        let gradients = gradients.f_mul(&counts.f_unsqueeze(1)?)?;
        let mut first = 0;
        for parameter in parameters {
            let width = parameter.values.size()[1];
            let share = gradients.f_narrow(1, first, width)?;
            let _same = parameter.gradients.f_add_(&share)?;
            first += width;
        }
        let value = values.f_mul(&counts)?.f_sum(Kind::Double)?;
        self.sums.add(REGULARIZER, &value)
    }

    /// Evaluates the loss on scores, with all weights.
    fn losses(&mut self, slice: &Slice, scores: &ScoreTensors) -> Result<LossTensors, DeviceError> {
        let losses = match &self.formula {
            Some(formula) => formula::evaluate(formula, &scores.positive, &scores.negative)?,
            None => evaluate_on_host(self.loss, scores, self.place)?,
        };
        let Some(weights) = &self.weights else {
            return Ok(losses);
        };
        let weights = part(weights, slice)?;
        Ok(LossTensors {
            loss: losses.loss.f_mul(&weights)?,
            positive: losses.positive.f_mul(&weights)?,
            negative: losses.negative.f_mul(&weights.f_unsqueeze(1)?)?,
        })
    }
}

impl StepExecutor for DeviceStep<'_> {
    type Error = DeviceError;
    type PassMemory = ();
    type SliceMemory = ();
    type Entities<'m> = [Option<AllEntities>; 2];
    type Gathered<'m> = SliceRows;
    type Scored<'m> = DeviceScores<'m>;
    type ScoreGradients<'m> = DeviceScoreGradients<'m>;

    fn unsupported(step: &StepPlan) -> Option<&'static str> {
        let spec = &step.step_spec;
        if spec.featurized.contains(&true) {
            Some(NO_FEATURES)
        } else if spec.comparator.formula().is_some() {
            Some(NO_FORMULAS)
        } else if spec.half && spec.is_distance() {
            Some(NO_ROUNDED_DISTANCES)
        } else if step.passes.iter().any(|pass| pass.predict_relations) {
            Some(NO_RELATIONS)
        } else {
            None
        }
    }

    fn predict_relations(
        &mut self,
        _: SliceStages<'_>,
        _: &mut SliceRows,
    ) -> Result<(), DeviceError> {
        // Steps with this operation are rejected when they are planned.
        Err(StepError::Batch(NO_RELATIONS.to_owned()).into())
    }

    fn begin<'m>(
        &mut self,
        stages: &PassStages,
        (): &'m mut (),
    ) -> Result<Self::Entities<'m>, DeviceError> {
        let mut side = |side: Side| match &stages.entities[side as usize] {
            Some((gather, _)) => {
                let all = self.all(side, gather, stages.update_rows)?;
                let rows = self.prepare(&all)?;
                let gradients = rows.gradients(self.comparison())?;
                Ok(Some(AllEntities { rows, gradients }))
            }
            None => Ok::<_, TchError>(None),
        };
        Ok([side(Side::Lhs)?, side(Side::Rhs)?])
    }

    fn gather(&mut self, at: SliceStages<'_>, (): &mut ()) -> Result<SliceRows, DeviceError> {
        let relations = self.relations(at.slice)?;
        let mut side = |side| {
            let selection = self.of_slice(at, side, relations.as_ref())?;
            self.prepare(&selection)
        };
        let rows = [side(Side::Lhs)?, side(Side::Rhs)?];
        let gradients = DeviceRows::gradients_of(&rows, self.comparison())?;
        Ok(SliceRows { rows, gradients })
    }

    fn score<'m>(
        &mut self,
        at: SliceStages<'_>,
        stage: &CompareStage,
        entities: &'m mut Self::Entities<'_>,
        rows: &'m mut SliceRows,
    ) -> Result<DeviceScores<'m>, DeviceError> {
        let direction = self.direction(at, stage)?;
        let undrawn = self.undrawn(at.slice, stage.side)?;
        let mut entities = entities[stage.side as usize].as_mut();
        let (candidates, queries) = side_and_other(&mut rows.rows, stage.side);
        let compared = ComparedRows {
            candidates,
            all: entities.as_mut().map(|entities| &mut entities.rows),
            queries,
        };
        let scores = direction.score(&compared, undrawn.as_ref())?;
        Ok(DeviceScores {
            scores,
            rows,
            entities,
        })
    }

    fn scores<'s>(
        &self,
        _: SliceStages<'_>,
        scored: &'s DeviceScores<'_>,
    ) -> Result<[Cow<'s, [f32]>; 2], DeviceError> {
        let ScoreTensors {
            positive, negative, ..
        } = &scored.scores;
        Ok([
            transfer::to_host(positive)?.into(),
            transfer::to_host(negative)?.into(),
        ])
    }

    fn loss<'m>(
        &mut self,
        at: SliceStages<'_>,
        stage: &CompareStage,
        mut scored: Self::Scored<'m>,
    ) -> Result<Self::ScoreGradients<'m>, DeviceError> {
        let (scores, side) = (&mut scored.scores, stage.side as usize);
        if let (Some(kernels), Some(formula)) = (self.kernels, &self.formula) {
            let weights = self.weights.as_ref().map(|weights| part(weights, at.slice));
            let weights = weights.transpose()?;
            kernels.loss(formula, scores, weights.as_ref(), &self.sums, side)?;
            return Ok(DeviceScoreGradients(scored));
        }
        let above = scores
            .negative
            .f_gt_tensor(&scores.positive.f_unsqueeze(1)?)?;
        let violators = above.f_sum(Kind::Int64)?;
        let LossTensors {
            loss,
            positive,
            negative,
        } = self.losses(at.slice, scores)?;
        self.sums.add(side, &loss.f_sum(Kind::Double)?)?;
        self.sums.add(2 + side, &violators)?;
        self.sums
            .add(POSITIVE_GRADIENTS, &positive.f_sum(Kind::Float)?)?;
        (scores.positive, scores.negative) = (positive, negative);
        Ok(DeviceScoreGradients(scored))
    }

    fn differentiate(
        &mut self,
        at: SliceStages<'_>,
        stage: &CompareStage,
        gradients: DeviceScoreGradients<'_>,
    ) -> Result<(), DeviceError> {
        let direction = self.direction(at, stage)?;
        let DeviceScoreGradients(DeviceScores {
            scores,
            rows,
            entities,
        }) = gradients;
        let (all, all_gradients) = match entities {
            Some(AllEntities { rows, gradients }) => (Some(rows), Some(gradients)),
            None => (None, None),
        };
        let (candidates, queries) = side_and_other(&mut rows.rows, stage.side);
        let compared = ComparedRows {
            candidates,
            all,
            queries,
        };
        let (candidates, queries) = side_and_other(&mut rows.gradients, stage.side);
        let mut sums = ComparedRows {
            candidates,
            all: all_gradients,
            queries,
        };
        Ok(direction.differentiate(&scores, &compared, &mut sums)?)
    }

    fn scatter(&mut self, at: SliceStages<'_>, slice: SliceRows) -> Result<(), DeviceError> {
        let SliceRows { rows, gradients } = slice;
        let relations = self.relations(at.slice)?;
        for ((side, rows), mut gradients) in Side::BOTH.into_iter().zip(rows).zip(gradients) {
            let edges = at.slice.rows.len() as i64;
            let regularized = at.stages.scatter[side as usize].regularized;
            if regularized == Some(RegularizedRows::Compared) {
                let value = rows.regularize(self.penalty(), edges, &mut gradients)?;
                self.sums.add(REGULARIZER, &value)?;
            }
            let selection = self.of_slice(at, side, relations.as_ref())?;
            let gradients = self.back(&selection, &rows, gradients)?;
            if regularized == Some(RegularizedRows::LookedUp)
                && let Some(value) = rows.regularize_input(self.penalty(), edges, &gradients)?
            {
                self.sums.add(REGULARIZER, &value)?;
            }
            self.sum(&selection, &gradients)?;
        }
        Ok(())
    }

    fn update_rows(&mut self) -> Result<(), DeviceError> {
        if let Some(kernels) = self.kernels {
            self.set.apply(kernels, self.spec.lr, &self.sums)?;
            self.sums.stats(0)?;
            return Ok(());
        }
        // Nothing that is not finite is applied.
        self.sums.stats(0)?;
        let finite = self.set.update(self.spec.lr)?;
        all_finite(&[finite])
    }

    fn finish(
        &mut self,
        stages: &PassStages,
        entities: [Option<AllEntities>; 2],
    ) -> Result<(), DeviceError> {
        let changes = stages.update_rows;
        for ((side, entities), stages) in Side::BOTH.into_iter().zip(entities).zip(&stages.entities)
        {
            if let (Some(AllEntities { rows, gradients }), Some((gather, _))) = (entities, stages) {
                let all = self.all(side, gather, changes)?;
                let gradients = self.back(&all, &rows, gradients)?;
                self.sum(&all, &gradients)?;
            }
        }
        if stages.regularize_parameters {
            self.regularize_parameters(stages.pass.operator_side)?;
        }
        Ok(())
    }

    fn total_loss(&self) -> Result<f64, DeviceError> {
        Ok(self.sums.stats(0)?.loss())
    }

    fn update(mut self) -> Result<BatchStats, DeviceError> {
        if let Some(kernels) = self.kernels {
            return self.fused_update(kernels);
        }
        let stats = self.sums.stats(self.job.batch.len())?;
        let lr = self.spec.relation_lr;
        let mut finite = self.parameters.update(self.read, &self.touched, lr)?;
        finite.push(self.set.update(self.spec.lr)?);
        let [lhs, rhs] = &mut self.tables;
        self.set
            .store([lhs.as_deref_mut(), rhs.as_deref_mut()], &self.touched)?;
        all_finite(&finite)?;
        Ok(stats)
    }
}
