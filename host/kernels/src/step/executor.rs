//! What computes the stages of a step, and the walk over them.
//!
//! Each stage has a function, whose arguments are what earlier stages made. So the compiler sees to it that nothing
//! is scored that was not gathered, and nothing differentiated that has no loss. Cores and devices are the two
//! implementations.

use std::borrow::Cow;

use pbg_core::batch_graph::{Cluster, Operation, StepSpec};
use pbg_core::graph::Side;

use crate::step::plan::{BatchPlan, Slice};
use crate::step::program::{Compare, PassStages, Program};
use crate::step::{BatchStats, ClusterTimes, ScoreObserver};

/// One batch in the hands of what computes it. Made when the batch begins, used up by [`StepExecutor::update`].
pub trait StepExecutor: Sized {
    /// Why a stage fails.
    type Error;
    /// Buffers that are kept from batch to batch, of a pass and of a slice.
    type PassMemory;
    /// See above.
    type SliceMemory;
    /// With all negatives: every entity that replaces a side, prepared, and its gradients.
    type Entities<'m>;
    /// Both sides of a slice, prepared, and their gradients.
    type Gathered<'m>;
    /// Scores of one comparison, with the rows that were compared.
    type Scored<'m>;
    /// The same after the loss.
    type ScoreGradients<'m>;

    /// Why there is no kernel for an operation on the rows of `side`, if so. Asked once, when a graph is compiled.
    fn lacks(
        operation: Operation,
        side: Option<Side>,
        step_spec: &StepSpec,
    ) -> Option<&'static str>;

    /// Before the slices of a pass: copies parameters, prepares every entity where all are negatives.
    fn begin<'m>(
        &mut self,
        stages: &PassStages,
        memory: &'m mut Self::PassMemory,
    ) -> Result<Self::Entities<'m>, Self::Error>;

    /// Looks up, transforms and prepares both sides of a slice.
    fn gather<'m>(
        &mut self,
        at: SliceStages<'_>,
        memory: &'m mut Self::SliceMemory,
    ) -> Result<Self::Gathered<'m>, Self::Error>;

    /// Scores of positives and negatives, masks included.
    fn score<'m>(
        &mut self,
        at: SliceStages<'_>,
        stage: &Compare,
        entities: &'m mut Self::Entities<'_>,
        rows: &'m mut Self::Gathered<'_>,
    ) -> Result<Self::Scored<'m>, Self::Error>;

    /// The scores of the positives, `[edges]`, and of the negatives, `[edges, columns]`, without padding.
    fn scores<'s>(
        &self,
        at: SliceStages<'_>,
        scored: &'s Self::Scored<'_>,
    ) -> Result<[Cow<'s, [f32]>; 2], Self::Error>;

    /// Evaluates the loss: scores become gradients, weighted.
    fn loss<'m>(
        &mut self,
        at: SliceStages<'_>,
        stage: &Compare,
        scored: Self::Scored<'m>,
    ) -> Result<Self::ScoreGradients<'m>, Self::Error>;

    /// Gradients of both sides' rows.
    fn differentiate(
        &mut self,
        at: SliceStages<'_>,
        stage: &Compare,
        gradients: Self::ScoreGradients<'_>,
    ) -> Result<(), Self::Error>;

    /// The relation of each edge among all: its loss, and gradients of both sides' rows and of parameters.
    fn predict_relations(
        &mut self,
        at: SliceStages<'_>,
        rows: &mut Self::Gathered<'_>,
    ) -> Result<(), Self::Error>;

    /// Gradients of a slice's rows go back through operators and are summed by table row.
    fn scatter(&mut self, at: SliceStages<'_>, rows: Self::Gathered<'_>)
    -> Result<(), Self::Error>;

    /// Applies the sums of table rows after a slice.
    fn update_rows(&mut self) -> Result<(), Self::Error>;

    /// After the slices of a pass: gradients of all entities go back, parameters are regularised.
    fn finish(
        &mut self,
        stages: &PassStages,
        entities: Self::Entities<'_>,
    ) -> Result<(), Self::Error>;

    /// The losses so far, added up. Waits for a device.
    fn total_loss(&self) -> Result<f64, Self::Error>;

    /// The end of the batch: applies what was summed. Nothing is applied before the loss is known to be finite.
    fn update(self) -> Result<BatchStats, Self::Error>;
}

/// A slice, and the stages of the pass that it belongs to.
#[derive(Clone, Copy)]
pub struct SliceStages<'s> {
    /// The pass.
    pub stages: &'s PassStages,
    /// The slice.
    pub slice: &'s Slice,
}

/// A worker's buffers while it works on a batch.
pub struct Memory<'w, E: StepExecutor> {
    /// Those of a pass.
    pub pass: &'w mut E::PassMemory,
    /// Those of a slice.
    pub slice: &'w mut E::SliceMemory,
}

/// Trains one batch; `observer` sees the scores before they become gradients.
pub fn train<E: StepExecutor>(
    mut executor: E,
    (program, plan): (&Program, &BatchPlan),
    memory: Memory<'_, E>,
    times: &mut ClusterTimes,
    mut observer: Option<&mut ScoreObserver<'_>>,
) -> Result<BatchStats, E::Error> {
    for stages in &program.passes {
        let mut entities = executor.begin(stages, memory.pass)?;
        times.record(Cluster::Gather);
        for slice in plan.slices() {
            let at = SliceStages {
                stages,
                slice: &slice,
            };
            let mut rows = executor.gather(at, memory.slice)?;
            times.record(Cluster::Gather);
            for stage in &stages.compare {
                let scored = executor.score(at, stage, &mut entities, &mut rows)?;
                if let Some(observer) = &mut observer {
                    let [positive, negative] = executor.scores(at, &scored)?;
                    observer(stage.side, slice.rows.start, &positive, &negative);
                }
                times.record(Cluster::Score);
                let gradients = executor.loss(at, stage, scored)?;
                times.record(Cluster::Loss);
                executor.differentiate(at, stage, gradients)?;
                times.record(Cluster::Differentiate);
            }
            if stages.predict_relations {
                executor.predict_relations(at, &mut rows)?;
                times.record(Cluster::Differentiate);
            }
            executor.scatter(at, rows)?;
            times.record(Cluster::Scatter);
            if stages.update_rows {
                executor.update_rows()?;
                times.record(Cluster::Update);
            }
        }
        executor.finish(stages, entities)?;
        times.record(Cluster::Scatter);
    }
    let stats = executor.update()?;
    times.record(Cluster::Update);
    Ok(stats)
}

/// Sees a slice's scores in one comparison: the side that is replaced, the slice, the positives' scores, and the
/// negatives'.
pub(crate) type SliceObserver<'a> = dyn FnMut(Side, &Slice, &[f32], &[f32]) + 'a;

/// Scores every comparison of a batch without training; `measure` sees a slice's scores before the loss is evaluated.
/// Returns the losses, added up.
pub(crate) fn evaluate<E: StepExecutor>(
    mut executor: E,
    (program, plan): (&Program, &BatchPlan),
    memory: Memory<'_, E>,
    measure: &mut SliceObserver<'_>,
) -> Result<f64, E::Error> {
    for stages in &program.passes {
        let mut entities = executor.begin(stages, memory.pass)?;
        for slice in plan.slices() {
            let at = SliceStages {
                stages,
                slice: &slice,
            };
            let mut rows = executor.gather(at, memory.slice)?;
            for stage in &stages.compare {
                let scored = executor.score(at, stage, &mut entities, &mut rows)?;
                let [positive, negative] = executor.scores(at, &scored)?;
                measure(stage.side, &slice, &positive, &negative);
                executor.loss(at, stage, scored)?;
            }
        }
    }
    executor.total_loss()
}
