//! Trains buckets, independent of who chooses them: strategies, workers, and the groups of the pipeline that provide
//! partitions and edges.

use std::path::Path;
use std::sync::{Arc, RwLock};
use std::time::Duration;

use pbg_config::Config;
use pbg_core::batching;
use pbg_core::event::{Event, PartitionIo, RankStats, TrainStats};
use pbg_core::graph::{Bucket, Side};
use pbg_core::plan::{self, PlanCost};
use pbg_core::schedule::{LeasedBucket, PassId, RunExtent};
use pbg_core::strategy::{LossWorker, Pass, StrategyError};
use pbg_dataset::EdgeSet;
use pbg_kernels::step::{Stage, StepWorker};
use pbg_model::blueprint::Blueprint;
use pbg_model::error::RunError;
use pbg_model::layout::TableKey;
use pbg_model::resolved::ResolvedConfig;
use pbg_model::resume_point::{BatchRange, BucketSums, ShareProgress};
use pbg_model::rounding::Roundings;
use pbg_rows::params::Params;
use pbg_rows::table::Table;

use crate::bucket_inputs::BucketInputs;
use crate::buffer::TableStore;
use crate::edge_prefetch::PreparedEdges;
use crate::executor::Executor;
use crate::holdout_eval;
use crate::learning_rates::LearningRates;
use crate::negatives::NegativeTables;
use crate::running_pipeline::RunningPipeline;
use crate::selection::ChunkSelectors;
use crate::strategies::Strategies;
use crate::workers::{self, BucketTraining};
mod fallbacks;
mod open;

pub use open::MachineParts;

/// Machine of a trainer, in a run with one or several trainers.
pub struct BucketTrainer<'a, S: TableStore> {
    /// Resolved configuration of the run.
    pub resolved: &'a ResolvedConfig,
    /// Strategies, replaced by their fallbacks once they have failed.
    pub strategies: Strategies,
    /// Edge sets that an epoch trains, in order.
    pub edge_sets: Arc<Vec<EdgeSet>>,
    /// Extent of the loops over epochs, edge sets and edge chunks.
    pub extent: RunExtent,
    /// Groups of the pipeline.
    pub pipeline: RunningPipeline<S>,
    /// Shared, so that a thread that runs in parallel with the workers can read and change the parameters.
    pub params: Arc<Params>,
    /// Lock that workers hold while they train a batch, if another thread changes parameters.
    pub gate: Option<Arc<RwLock<()>>>,
    /// Executors of the training threads.
    executors: Vec<Executor>,
    rates: LearningRates,
    evaluators: Vec<StepWorker>,
    /// Tables from which negatives are drawn.
    negatives: NegativeTables,
    /// Selectors of negatives, if a plugin selects them.
    selectors: Option<ChunkSelectors>,
    /// Evaluators of the loss, one for each worker, shared with the ranking of held-out edges.
    losses: Vec<Box<dyn LossWorker>>,
    /// Receiver of events.
    sink: &'a mut dyn FnMut(Event),
}

/// Results of training a bucket, or of the part that this process has trained.
pub struct BucketResult {
    /// Trained edges and their losses.
    pub stats: TrainStats,
    /// Time that a worker spent on calls of the relation sampler.
    pub sampler: Duration,
    /// Failures of the relation sampler in workers, which went on with its fallback.
    pub faults: Vec<StrategyError>,
    /// Ranks of the held-out edges before the bucket was trained.
    pub eval_before: Option<RankStats>,
    /// Ranks of the held-out edges after the bucket was trained.
    pub eval_after: Option<RankStats>,
    /// Progress of each share, if the bucket was interrupted.
    pub left: Option<Vec<ShareProgress>>,
    /// Seconds of training.
    pub seconds: f64,
    /// Partitions read and written.
    pub io: PartitionIo,
}

impl BucketResult {
    /// Returns the sums that a checkpoint stores if the bucket is interrupted.
    pub(crate) fn sums(&self) -> BucketSums {
        BucketSums {
            stats: self.stats,
            eval_before: self.eval_before,
            io: self.io,
            seconds: self.seconds,
            sampler: self.sampler.as_secs_f64(),
        }
    }

    /// Adds the results of earlier processes for the bucket.
    pub(crate) fn add_earlier(&mut self, earlier: &BucketSums) {
        self.stats.add(&earlier.stats);
        self.eval_before = earlier.eval_before;
        self.io.add(&earlier.io);
        self.seconds += earlier.seconds;
        self.sampler += Duration::try_from_secs_f64(earlier.sampler).unwrap_or_default();
    }
}

/// Plan of a pass and its cost.
pub struct PassPlan {
    /// Buckets in the order in which they are trained.
    pub plan: Vec<Bucket>,
    /// Name of the bucket order.
    pub order: String,
    /// Traffic of the plan.
    pub cost: PlanCost,
    /// Seconds that the bucket order took.
    pub seconds: f64,
}

impl<'a, S: TableStore> BucketTrainer<'a, S> {
    /// Emits an event.
    pub fn emit(&mut self, event: Event) {
        (self.sink)(event);
    }

    /// Returns the configuration.
    #[must_use]
    pub fn config(&self) -> &'a Config {
        self.resolved.config()
    }

    /// Returns the layout and the model.
    #[must_use]
    pub fn blueprint(&self) -> &'a Blueprint {
        self.resolved.blueprint()
    }

    /// Drops everything except the strategies and returns them.
    #[must_use]
    pub fn into_strategies(self) -> Strategies {
        self.strategies
    }

    /// Returns the number of training threads.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.executors.len()
    }

    /// Returns the description of pass `id`, with the groups that are in the buffer now.
    #[must_use]
    pub fn pass(&self, id: PassId) -> Pass {
        let edge_set = &self.edge_sets[id.edge_set as usize];
        let chunks = self.extent.edge_chunks;
        let layout = &self.blueprint().layout;
        let edges = layout.grid().map(|bucket| {
            let rows = batching::chunk_range(edge_set.bucket_len(bucket), id.edge_chunk, chunks);
            rows.end - rows.start
        });
        let resident = self.pipeline.buffer.resident();
        layout.pass(self.config(), id, edges.collect(), resident)
    }

    /// Has the bucket order plan `pass`, and checks that the plan is a permutation of the grid. If the order failed and
    /// its fallback replaced it, adds an event about it to `events`.
    ///
    /// # Errors
    /// When the order fails without a fallback, or its plan is not a permutation of the grid.
    pub fn plan(&mut self, pass: &Pass, events: &mut Vec<Event>) -> Result<PassPlan, RunError> {
        let asked = pbg_clock::now();
        let plan = match self.strategies.order.plan(pass) {
            Ok(plan) => plan,
            Err(fault) => {
                events.push(self.replace_order(&fault)?);
                self.strategies.order.plan(pass)?
            }
        };
        let strategy = self.strategies.order.id().clone();
        plan::check(pass, &plan).map_err(|source| RunError::Plan {
            strategy: strategy.clone(),
            source,
        })?;
        Ok(PassPlan {
            seconds: asked.elapsed().as_secs_f64(),
            order: strategy.to_string(),
            cost: plan::cost(pass, &plan),
            plan,
        })
    }

    /// Returns the seconds of all workers in each stage of the step, with its name, and before them those of selecting
    /// negatives, if a plugin does that.
    #[must_use]
    pub fn stages(&self) -> Vec<(String, f64)> {
        let selecting = self.selectors.iter().map(|of| ("select", of.time()));
        let times = Stage::ALL
            .map(Stage::name)
            .into_iter()
            .zip(self.cluster_times());
        let all = selecting.chain(times);
        all.map(|(name, time)| (name.to_owned(), time.as_secs_f64()))
            .collect()
    }

    /// Returns the time of all workers in each stage of the step.
    fn cluster_times(&self) -> [Duration; Stage::ALL.len()] {
        let mut times = [Duration::ZERO; Stage::ALL.len()];
        for (time, cluster) in times.iter_mut().zip(Stage::ALL) {
            let executors = self.executors.iter();
            *time = executors
                .map(|executor| executor.cluster_times().of(cluster))
                .sum::<Duration>();
        }
        times
    }

    /// Sets the factor of validation on the learning rates, from the next bucket on.
    pub fn set_rates(&mut self, lr_factor: f32) {
        self.rates.set_validation(lr_factor);
    }

    /// Returns the learning rate of embeddings in `pass`, if it follows a schedule.
    #[must_use]
    pub fn scheduled_lr(&self, pass: PassId) -> Option<f32> {
        self.rates.scheduled_lr(pass, &self.blueprint().spec)
    }

    /// Downloads the parameters from a device to main memory.
    pub(crate) fn settle_parameters(&self) -> Result<(), RunError> {
        for executor in &self.executors {
            executor.settle(&self.params)?;
        }
        Ok(())
    }
}

/// Steps of training a bucket.
impl<S: TableStore<Table = Table>> BucketTrainer<'_, S> {
    /// Loads the bucket's partitions into the buffer and starts reading the next ones.
    pub(crate) fn load(&mut self, acquired: LeasedBucket) -> Result<PartitionIo, RunError> {
        let io = self.pipeline.buffer.make_resident(acquired)?;
        self.pipeline.buffer.prefetch(acquired.position);
        Ok(io)
    }

    /// Takes the bucket's edges and starts preparing those of the next buckets.
    pub(crate) fn take_edges(
        &mut self,
        pass: PassId,
        LeasedBucket { bucket, position }: LeasedBucket,
        next: &[Bucket],
        io: &mut PartitionIo,
    ) -> Result<PreparedEdges, RunError> {
        let reading = pbg_clock::now();
        let prepared = self.pipeline.edges.take(pass, bucket)?;
        io.wait_seconds += reading.elapsed().as_secs_f64();
        self.pipeline.edges.start(pass, next);
        self.emit(Event::BucketStarted {
            pass,
            bucket,
            position: position as u64,
            edges: prepared.order.len() as u64,
            lr: self.scheduled_lr(pass),
        });
        Ok(prepared)
    }

    /// Trains the bucket's edges and ranks the held-out ones before and after; after training only if the bucket was
    /// not interrupted. Ranking and training borrow the same `Work`, so they are in one function.
    pub(crate) fn train_edges(
        &mut self,
        pass: PassId,
        bucket: Bucket,
        PreparedEdges { edges, held, order }: &PreparedEdges,
        io: PartitionIo,
        span: &BatchRange<'_>,
    ) -> Result<BucketResult, RunError> {
        let started = pbg_clock::now();
        // If the bucket is resumed, its held-out edges were ranked when it began.
        let before: &[u32] = if span.from.is_some() { &[] } else { held };
        if !before.is_empty() {
            self.pipeline.buffer.wait_for_commit_writes()?;
            self.download(bucket)?;
        }
        if !order.is_empty() {
            self.ask_negatives(pass, bucket)?;
        }
        let negatives = self.negatives.of_bucket(self.blueprint(), bucket);
        let (config, buffer) = (self.resolved.config(), &self.pipeline.buffer);
        let table = |entity, partition| buffer.table((entity, partition));
        let work = BucketInputs {
            blueprint: self.resolved.blueprint(),
            table: &table,
            params: &self.params,
            loss: &self.strategies.loss,
            edges,
            negatives_from: config.negatives_from,
            negatives: negatives.as_ref(),
            selectors: self.selectors.as_ref(),
            pass,
            bucket,
            seed: config.seed,
            gate: self.gate.as_deref(),
            training: &self.pipeline.training,
        };
        let eval_batch = self.resolved.settings().eval_batch_size;
        let (evaluators, losses) = (&mut self.evaluators, &mut self.losses);
        let eval_before = holdout_eval::evaluate(evaluators, losses, &work, before, eval_batch)?;
        let samplers = self.strategies.samplers();
        let course = BucketTraining {
            work: &work,
            indices: order,
            batch_size: config.batch_size,
            samplers: &samplers,
            span,
            checkpoint: Path::new(&config.checkpoint_path),
        };
        let spec = &self.resolved.blueprint().spec;
        self.rates.apply(pass, spec, &mut self.executors);
        let totals = workers::train(&mut self.executors, losses, &course, self.sink)?;
        let after: &[u32] = if totals.left.is_some() { &[] } else { held };
        if !after.is_empty() {
            self.download(bucket)?;
        }
        let (evaluators, losses) = (&mut self.evaluators, &mut self.losses);
        let eval_after = holdout_eval::evaluate(evaluators, losses, &work, after, eval_batch)?;
        self.round(pass, bucket);
        let worked = started.elapsed().saturating_sub(totals.waited);
        self.pipeline.training.worked(worked);
        Ok(BucketResult {
            stats: totals.stats,
            sampler: totals.sampler,
            faults: samplers.into_faults(),
            eval_before,
            eval_after,
            left: totals.left,
            seconds: started.elapsed().as_secs_f64(),
            io,
        })
    }

    /// Rounds the embeddings that the bucket has trained, if they are stored in bfloat16.
    fn round(&self, pass: PassId, bucket: Bucket) {
        let buffer = &self.pipeline.buffer;
        let layout = &self.blueprint().layout;
        let table = |key: TableKey| {
            let is_shared = buffer.store().shares_fixed() && !layout.types[key.0].partitioned();
            buffer.table(key).filter(|_| !is_shared)
        };
        let roundings = Roundings::new(self.config());
        roundings.round_bucket(
            layout,
            (pass, bucket),
            table,
            self.resolved.settings().workers,
        );
    }

    /// Downloads the parameters and the tables of `bucket` from a device to main memory.
    fn download(&self, bucket: Bucket) -> Result<(), RunError> {
        self.settle_parameters()?;
        let layout = &self.blueprint().layout;
        for entity in 0..layout.types.len() {
            for side in Side::BOTH {
                let partition = layout.partition(entity, side, bucket);
                if let Some(table) = self.pipeline.buffer.table((entity, partition)) {
                    table.download()?;
                }
            }
        }
        Ok(())
    }
}
