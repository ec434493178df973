//! The training step: one batch, from offsets to updated rows.
//!
//! The stages of a step and the graph of their operations are planned once ([`pbg_core::batch_graph`]). [`executor`]
//! calls the stages in order, in training and in evaluation; [`cores`] and [`device`](crate::device) implement
//! them. A batch is cut into chunks of positives that share negatives, and into slices of chunks that share buffers.
//!
//! Everything is computed by inner products of prepared rows: scores are `Q K'`, and with the loss's derivatives `S` in
//! place of the scores, the gradients are `S K` and `S' Q`. Where a chunk's own positives are negatives, the diagonal
//! of the scores is masked; it then holds the positives' derivatives, so that the same products compute their
//! gradients. Gradients of table rows are summed over the batch and applied once at its end.

mod buffers;
mod common_products;
mod cores;
mod differentiate;
mod evaluate;
pub(crate) mod execution;
pub(crate) mod executor;
mod gather;
pub(crate) mod job;
mod memory;
mod operator_gradients;
mod pairs;
mod parameters;
pub(crate) mod plan;
mod predict_relations;
mod prepared_rows;
mod relation_products;
mod scatter;
mod score_buffers;
mod scores;
mod share;
mod stage_times;
mod stats;

use std::panic::resume_unwind;
use std::sync::Arc;

use buffers::{EntityBuffers, SliceBuffers};
use cores::{CoreStep, WorkerSums};
use executor::StepBuffers;
use job::StepPlans;
use pbg_core::strategy::{LossWorker, ScoreBlock, StrategyError};
use pbg_gemm::buffer::FloatBuffer;
use pbg_rows::spec::ModelSpec;
use plan::Slice;
use share::{BatchShare, FailureGuard, ShareExchange};

use crate::subnormal::SubnormalMode;
pub use evaluate::ranking_bytes;
pub use execution::{Execution, has_fast_bf16};
pub use job::BatchJob;
pub use memory::{TableSizes, max_negatives, scoring_bytes, slice_plan, worker_bytes};
pub use pbg_core::batch_graph::Stage;
pub use stage_times::StageTimes;
pub use stats::{BatchStats, EvalStats};

pub use crate::batch::{Batch, BatchRelations, BatchTables};
pub use crate::error::{StepError, UnsupportedStep, WorkerError};
pub use executor::ScoreObserver;

/// Loss of work that ends with the scores, so that it is never evaluated.
struct NoLoss;

impl LossWorker for NoLoss {
    fn evaluate(&mut self, _: &mut ScoreBlock<'_>) -> Result<(), StrategyError> {
        Ok(())
    }
}

/// A Hogwild worker: the specification of a model and all buffers that a batch needs.
///
/// Buffers grow to the needs of the largest batch so far; after that a batch allocates nothing but the headers of
/// tensor views.
#[derive(Debug)]
pub struct StepWorker {
    spec: Arc<ModelSpec>,
    execution: Execution,
    plans: StepPlans,
    entities: [EntityBuffers; 2],
    slice: SliceBuffers,
    /// Whole rows of scores, if the batch is shared by several workers.
    whole_rows: FloatBuffer,
    sums: WorkerSums,
    times: StageTimes,
}

impl StepWorker {
    /// Creates a worker for `spec`.
    ///
    /// # Errors
    /// When the specification breaks a rule.
    pub fn new(spec: Arc<ModelSpec>) -> Result<Self, WorkerError> {
        spec.validate()?;
        Ok(Self {
            plans: StepPlans::default(),
            spec,
            execution: Execution::default(),
            entities: Default::default(),
            slice: SliceBuffers::default(),
            whole_rows: FloatBuffer::default(),
            sums: WorkerSums::default(),
            times: StageTimes::default(),
        })
    }

    /// Sets the size of slices, the precision of products and the time of updates.
    #[must_use]
    pub fn with_execution(self, execution: Execution) -> Self {
        Self {
            execution,
            plans: StepPlans::default(),
            ..self
        }
    }

    /// Replaces the specification by one that differs from it in the learning rates only.
    pub fn set_rates(&mut self, spec: Arc<ModelSpec>) {
        self.spec = spec;
    }

    /// Trains one batch: computes all gradients from the values before the batch, sums them, and applies them at the
    /// end. `loss` replaces the scores by their gradients.
    ///
    /// # Errors
    /// When the batch does not fit the model, the loss fails, or a value is not finite. Nothing of the batch is then
    /// applied, except that a gradient that is not finite on its own is omitted from an otherwise complete update. The
    /// effect of `max_norm`, which scales rows when they are looked up, as in PBG, remains.
    pub fn train(
        &mut self,
        job: &BatchJob<'_>,
        loss: &mut dyn LossWorker,
    ) -> Result<BatchStats, StepError> {
        self.step(job, loss, None, BatchShare::WHOLE)
    }

    /// Trains one batch like [`StepWorker::train`]; `observer` receives the scores before they become gradients.
    ///
    /// # Errors
    /// As [`StepWorker::train`].
    pub fn train_observed(
        &mut self,
        job: &BatchJob<'_>,
        loss: &mut dyn LossWorker,
        observer: &mut ScoreObserver<'_>,
    ) -> Result<BatchStats, StepError> {
        self.step(job, loss, Some(observer), BatchShare::WHOLE)
    }

    /// Trains one batch on all of `workers`, each with its own loss and thread, if [`ModelSpec::shares_batches`]. The
    /// result is that of a single worker, except for the order of sums.
    ///
    /// # Errors
    /// As [`StepWorker::train`].
    ///
    /// # Panics
    /// If `workers` is empty, or there are fewer losses than workers.
    pub fn train_together(
        workers: &mut [&mut Self],
        losses: &mut [Box<dyn LossWorker>],
        job: &BatchJob<'_>,
    ) -> Result<BatchStats, StepError> {
        assert!(workers.len() <= losses.len(), "a loss for each worker");
        let exchange = ShareExchange::new(workers.len());
        let share = |index| BatchShare::new(index, &exchange);
        let mut team = workers.iter_mut().zip(losses).enumerate();
        let (_, (first, loss)) = team.next().expect("a worker");
        std::thread::scope(|scope| {
            let others: Vec<_> = team
                .map(|(index, (worker, loss))| {
                    let share = share(index);
                    scope.spawn(move || worker.step(job, loss.as_mut(), None, share))
                })
                .collect();
            let mut total = first.step(job, loss.as_mut(), None, share(0));
            for other in others {
                let found = other.join().unwrap_or_else(|panic| resume_unwind(panic));
                total = match (total, found) {
                    (Ok(total), Ok(found)) => Ok(total + found),
                    (Err(StepError::Abandoned), Err(error)) => Err(error),
                    (Err(error), _) | (Ok(_), Err(error)) => Err(error),
                };
            }
            total
        })
    }

    fn step(
        &mut self,
        job: &BatchJob<'_>,
        loss: &mut dyn LossWorker,
        observer: Option<&mut ScoreObserver<'_>>,
        share: BatchShare<'_>,
    ) -> Result<BatchStats, StepError> {
        if job.batch.is_empty() {
            return Ok(BatchStats::default());
        }
        let _mode = SubnormalMode::flushing();
        let presence = FailureGuard::of(share);
        share.swap_rows(&mut self.whole_rows);
        self.times.start();
        let (spec, execution) = (&*self.spec, &self.execution);
        let plan = self.plans.plan::<CoreStep<'_>>(spec, execution, job)?;
        let executor = CoreStep::trained(spec, &plan, (job, loss), &mut self.sums, share);
        let memory = StepBuffers {
            pass: &mut self.entities,
            slice: &mut self.slice,
        };
        let stats = executor::train(executor, &plan, memory, &mut self.times, observer)?;
        presence.done();
        share.swap_rows(&mut self.whole_rows);
        Ok(stats)
    }

    /// Ranks the positives of a batch among its negatives. Each entity among a positive's negatives counts once, and
    /// the positive itself does not count. Nothing is updated (except that `max_norm` scales rows that are looked up).
    ///
    /// `seed` selects the negatives from which the area under the curve is estimated.
    ///
    /// # Errors
    /// As [`StepWorker::train`].
    pub fn evaluate(
        &mut self,
        job: &BatchJob<'_>,
        loss: &mut dyn LossWorker,
        seed: u64,
    ) -> Result<EvalStats, StepError> {
        if job.batch.is_empty() {
            return Ok(EvalStats::default());
        }
        let _mode = SubnormalMode::flushing();
        let (spec, execution) = (&*self.spec, &self.execution);
        let plan = self.plans.plan::<CoreStep<'_>>(spec, execution, job)?;
        let executor = CoreStep::new(spec, &plan, (job, loss), &mut self.sums);
        let memory = StepBuffers {
            pass: &mut self.entities,
            slice: &mut self.slice,
        };
        let mut evaluation = evaluate::BatchEvaluation::new(&plan, job, seed);
        let measure = &mut |side, slice: &Slice, positives: &[f32], negatives: &[f32]| {
            evaluation.measure(side, slice, positives, negatives);
        };
        let loss = executor::evaluate(executor, &plan, memory, measure)?;
        Ok(evaluation.finish(&self.spec, loss))
    }

    /// Scores the positives and negatives of a batch; `observer` receives the scores. Nothing is updated (except that
    /// `max_norm` scales rows that are looked up).
    ///
    /// # Errors
    /// When the batch does not fit the model.
    pub fn score(
        &mut self,
        job: &BatchJob<'_>,
        observer: &mut ScoreObserver<'_>,
    ) -> Result<(), StepError> {
        if job.batch.is_empty() {
            return Ok(());
        }
        let _mode = SubnormalMode::flushing();
        let (spec, execution) = (&*self.spec, &self.execution);
        let plan = self.plans.plan::<CoreStep<'_>>(spec, execution, job)?;
        let mut loss = NoLoss;
        let executor = CoreStep::new(spec, &plan, (job, &mut loss), &mut self.sums);
        let memory = StepBuffers {
            pass: &mut self.entities,
            slice: &mut self.slice,
        };
        executor::score(executor, &plan, memory, observer)
    }

    /// Returns the time spent in each cluster of stages so far.
    #[must_use]
    pub fn cluster_times(&self) -> &StageTimes {
        &self.times
    }

    /// Returns the current size of the buffers in bytes; they grow to the needs of the largest batch.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let entities: usize = self.entities.iter().map(EntityBuffers::bytes).sum();
        let whole_rows = size_of::<f32>() * self.whole_rows.floats();
        entities + self.slice.bytes() + whole_rows + self.sums.bytes()
    }

    /// Returns the model's specification.
    #[must_use]
    pub fn spec(&self) -> &Arc<ModelSpec> {
        &self.spec
    }
}
