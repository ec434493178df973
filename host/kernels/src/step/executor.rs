//! The interface of an executor, which computes the stages of a step, and the loops that call the stages.
//!
//! Each stage has a function, whose arguments are the results of earlier stages. So the compiler guarantees that only
//! gathered rows are scored, and only scores with a loss are differentiated. Cores and devices are the two
//! implementations.

use std::borrow::Cow;

use pbg_core::batch_graph::{CompareStage, PassStages, Stage, StepPlan};
use pbg_core::graph::Side;

use crate::step::plan::{BatchPlan, Slice};
use crate::step::{BatchStats, StageTimes};

/// Receives the scores of part of a batch: the side that is replaced, the first edge, the
/// positives' scores, and the negatives' scores `[edges, columns]`, of which masked ones are
/// [`MASKED`](pbg_core::strategy::MASKED).
pub type ScoreObserver<'a> = dyn FnMut(Side, usize, &[f32], &[f32]) + 'a;

/// The computation of one batch. It is created when the batch starts and consumed by [`StepExecutor::update`].
pub trait StepExecutor: Sized {
    /// Reason why a stage failed.
    type Error;
    /// Buffers of a pass, which are reused from batch to batch.
    type PassMemory;
    /// Buffers of a slice, which are reused from batch to batch.
    type SliceMemory;
    /// With all negatives: every entity that replaces a side, prepared, and the gradients of the entities.
    type Entities<'m>;
    /// Both sides of a slice, prepared, and their gradients.
    type Gathered<'m>;
    /// Scores of one comparison, with the rows that were compared.
    type Scored<'m>;
    /// Gradients of the scores of one comparison, with the rows that were compared.
    type ScoreGradients<'m>;

    /// Returns the reason why there is no kernel for a stage of the step, if so. Called once per step, before its first
    /// batch.
    fn unsupported(step: &StepPlan) -> Option<&'static str>;

    /// Starts a pass: copies parameters, and prepares every entity of a side on which all are negatives.
    fn begin<'m>(
        &mut self,
        stages: &PassStages,
        memory: &'m mut Self::PassMemory,
    ) -> Result<Self::Entities<'m>, Self::Error>;

    /// Looks up, transforms and prepares the rows of both sides of a slice.
    fn gather<'m>(
        &mut self,
        at: SliceStages<'_>,
        memory: &'m mut Self::SliceMemory,
    ) -> Result<Self::Gathered<'m>, Self::Error>;

    /// Computes and masks the scores of positives and negatives.
    fn score<'m>(
        &mut self,
        at: SliceStages<'_>,
        stage: &CompareStage,
        entities: &'m mut Self::Entities<'_>,
        rows: &'m mut Self::Gathered<'_>,
    ) -> Result<Self::Scored<'m>, Self::Error>;

    /// Returns the scores of the positives, `[edges]`, and of the negatives, `[edges, columns]`, without padding.
    fn scores<'s>(
        &self,
        at: SliceStages<'_>,
        scored: &'s Self::Scored<'_>,
    ) -> Result<[Cow<'s, [f32]>; 2], Self::Error>;

    /// Evaluates the loss, which replaces scores by weighted gradients.
    fn loss<'m>(
        &mut self,
        at: SliceStages<'_>,
        stage: &CompareStage,
        scored: Self::Scored<'m>,
    ) -> Result<Self::ScoreGradients<'m>, Self::Error>;

    /// Computes the gradients of both sides' rows.
    fn differentiate(
        &mut self,
        at: SliceStages<'_>,
        stage: &CompareStage,
        gradients: Self::ScoreGradients<'_>,
    ) -> Result<(), Self::Error>;

    /// Predicts the relation type of each edge among all relation types: computes the loss, and the gradients of both
    /// sides' rows and of parameters.
    fn predict_relations(
        &mut self,
        at: SliceStages<'_>,
        rows: &mut Self::Gathered<'_>,
    ) -> Result<(), Self::Error>;

    /// Propagates the gradients of a slice's rows back through operators, and sums them by table row.
    fn scatter(&mut self, at: SliceStages<'_>, rows: Self::Gathered<'_>)
    -> Result<(), Self::Error>;

    /// Applies the sums of table rows after a slice.
    fn update_rows(&mut self) -> Result<(), Self::Error>;

    /// Ends a pass: propagates the gradients of all entities back, and regularizes parameters.
    fn finish(
        &mut self,
        stages: &PassStages,
        entities: Self::Entities<'_>,
    ) -> Result<(), Self::Error>;

    /// Returns the sum of the losses so far. Waits for a device.
    fn total_loss(&self) -> Result<f64, Self::Error>;

    /// Ends the batch: applies all sums of gradients. Nothing is applied before the loss is known to be finite.
    fn update(self) -> Result<BatchStats, Self::Error>;
}

/// A slice, and the stages of its pass.
#[derive(Clone, Copy)]
pub struct SliceStages<'s> {
    /// Stages of the pass.
    pub stages: &'s PassStages,
    /// The slice.
    pub slice: &'s Slice,
}

/// A worker's buffers, borrowed for a batch.
pub struct StepBuffers<'w, E: StepExecutor> {
    /// Buffers of a pass.
    pub pass: &'w mut E::PassMemory,
    /// Buffers of a slice.
    pub slice: &'w mut E::SliceMemory,
}

/// Trains one batch; `observer` receives the scores before they become gradients.
pub fn train<E: StepExecutor>(
    mut executor: E,
    plan: &BatchPlan,
    memory: StepBuffers<'_, E>,
    times: &mut StageTimes,
    mut observer: Option<&mut ScoreObserver<'_>>,
) -> Result<BatchStats, E::Error> {
    for stages in &plan.step.passes {
        let mut entities = executor.begin(stages, memory.pass)?;
        times.record(Stage::Gather);
        for slice in plan.slices() {
            let at = SliceStages {
                stages,
                slice: &slice,
            };
            let mut rows = executor.gather(at, memory.slice)?;
            times.record(Stage::Gather);
            for stage in &stages.compare {
                let scored = executor.score(at, stage, &mut entities, &mut rows)?;
                if let Some(observer) = &mut observer {
                    let [positive, negative] = executor.scores(at, &scored)?;
                    observer(stage.side, slice.rows.start, &positive, &negative);
                }
                times.record(Stage::Score);
                let gradients = executor.loss(at, stage, scored)?;
                times.record(Stage::Loss);
                executor.differentiate(at, stage, gradients)?;
                times.record(Stage::Differentiate);
            }
            if stages.predict_relations {
                executor.predict_relations(at, &mut rows)?;
                times.record(Stage::Differentiate);
            }
            executor.scatter(at, rows)?;
            times.record(Stage::Scatter);
            if stages.update_rows {
                executor.update_rows()?;
                times.record(Stage::Update);
            }
        }
        executor.finish(stages, entities)?;
        times.record(Stage::Scatter);
    }
    let stats = executor.update()?;
    times.record(Stage::Update);
    Ok(stats)
}

/// Receives a slice's scores of one comparison: the side that is replaced, the slice, the positives' scores, and the
/// negatives' scores.
pub(crate) type SliceObserver<'a> = dyn FnMut(Side, &Slice, &[f32], &[f32]) + 'a;

/// Scores every comparison of a batch without training; `measure` receives a slice's scores before the loss is
/// evaluated. Returns the sum of the losses.
pub(crate) fn evaluate<E: StepExecutor>(
    mut executor: E,
    plan: &BatchPlan,
    memory: StepBuffers<'_, E>,
    measure: &mut SliceObserver<'_>,
) -> Result<f64, E::Error> {
    for_each_comparison(
        &mut executor,
        plan,
        memory,
        |executor, at, stage, scored| {
            let [positive, negative] = executor.scores(at, &scored)?;
            measure(stage.side, at.slice, &positive, &negative);
            executor.loss(at, stage, scored).map(|_| ())
        },
    )?;
    executor.total_loss()
}

/// Scores every comparison of a batch and does nothing else; `observer` receives the scores.
pub(crate) fn score<E: StepExecutor>(
    mut executor: E,
    plan: &BatchPlan,
    memory: StepBuffers<'_, E>,
    observer: &mut ScoreObserver<'_>,
) -> Result<(), E::Error> {
    for_each_comparison(
        &mut executor,
        plan,
        memory,
        |executor, at, stage, scored| {
            let [positive, negative] = executor.scores(at, &scored)?;
            observer(stage.side, at.slice.rows.start, &positive, &negative);
            Ok(())
        },
    )
}

/// Scores every comparison of a batch, and passes the scores to `consume`.
fn for_each_comparison<E: StepExecutor>(
    executor: &mut E,
    plan: &BatchPlan,
    memory: StepBuffers<'_, E>,
    mut consume: impl FnMut(
        &mut E,
        SliceStages<'_>,
        &CompareStage,
        E::Scored<'_>,
    ) -> Result<(), E::Error>,
) -> Result<(), E::Error> {
    for stages in &plan.step.passes {
        let mut entities = executor.begin(stages, memory.pass)?;
        for slice in plan.slices() {
            let at = SliceStages {
                stages,
                slice: &slice,
            };
            let mut rows = executor.gather(at, memory.slice)?;
            for stage in &stages.compare {
                let scored = executor.score(at, stage, &mut entities, &mut rows)?;
                consume(executor, at, stage, scored)?;
            }
        }
    }
    Ok(())
}

/// Returns the elements of `side` and of the other side, in this order.
pub fn side_and_other<T>(both: &mut [T; 2], side: Side) -> (&mut T, &mut T) {
    let [lhs, rhs] = both;
    match side {
        Side::Lhs => (lhs, rhs),
        Side::Rhs => (rhs, lhs),
    }
}
