//! Trains buckets, independent of who chooses them: strategies, workers, and the groups of the pipeline that provide
//! partitions and edges.

use std::path::Path;
use std::sync::{Arc, RwLock};
use std::time::{Duration, Instant};

use pbg_config::Config;
use pbg_core::batching;
use pbg_core::event::{Event, IoStats, RankStats, TrainStats};
use pbg_core::graph::{Bucket, Side};
use pbg_core::plan::{self, PlanCost};
use pbg_core::schedule::{Acquired, Extent, PassId};
use pbg_core::strategy::{LossWorker, Pass, StrategyError};
use pbg_kernels::device::Place;
use pbg_kernels::params::Params;
use pbg_kernels::step::{Cluster, StepWorker};
use pbg_kernels::table::Table;
use pbg_store::dataset::EdgeSet;

use crate::buffer::TableStore;
use crate::edges::Prepared;
use crate::error::RunError;
use crate::executor::{self, Executor};
use crate::holdout;
use crate::layout::TableKey;
use crate::line::Line;
use crate::model::Blueprint;
use crate::resolved::Resolved;
use crate::rounding::Roundings;
use crate::run::Strategies;
use crate::within::{BucketSums, Share, Span};
use crate::work::Work;
use crate::workers::{self, Course};

mod faults;
mod open;

pub(crate) use open::Parts;

/// Machine of a trainer, in a run with one or several trainers.
pub(crate) struct Machine<'a, S: TableStore> {
    pub(crate) resolved: &'a Resolved,
    pub(crate) strategies: Strategies,
    pub(crate) edge_sets: Arc<Vec<EdgeSet>>,
    pub(crate) extent: Extent,
    /// Groups of the pipeline.
    pub(crate) line: Line<S>,
    /// Shared, so that a thread that runs in parallel with the workers can read and change the parameters.
    pub(crate) params: Arc<Params>,
    /// Lock that workers hold while they train a batch, if another thread changes parameters.
    pub(crate) gate: Option<Arc<RwLock<()>>>,
    /// Executors of the training threads.
    executors: Vec<Executor>,
    /// Device that trains, if not the processor cores.
    place: Option<Arc<dyn Place>>,
    /// Time in each stage of executors that were replaced.
    earlier: [Duration; Cluster::ALL.len()],
    evaluators: Vec<StepWorker>,
    /// Evaluators of the loss, one for each worker, shared with the ranking of held-out edges.
    losses: Vec<Box<dyn LossWorker>>,
    /// Receiver of events.
    sink: &'a mut dyn FnMut(Event),
}

/// Results of training a bucket, or of the part that this process has trained.
pub(crate) struct Trained {
    pub(crate) stats: TrainStats,
    /// Time that a worker spent on calls of the relation sampler.
    pub(crate) sampler: Duration,
    /// Failures of the relation sampler in workers, which went on with its fallback.
    pub(crate) faults: Vec<StrategyError>,
    pub(crate) eval_before: Option<RankStats>,
    pub(crate) eval_after: Option<RankStats>,
    /// Progress of each share, if the bucket was interrupted.
    pub(crate) left: Option<Vec<Share>>,
    pub(crate) seconds: f64,
    pub(crate) io: IoStats,
}

impl Trained {
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
pub(crate) struct Planned {
    pub(crate) plan: Vec<Bucket>,
    pub(crate) order: String,
    pub(crate) cost: PlanCost,
    pub(crate) seconds: f64,
}

impl<'a, S: TableStore> Machine<'a, S> {
    /// Emits an event.
    pub(crate) fn emit(&mut self, event: Event) {
        (self.sink)(event);
    }

    pub(crate) fn config(&self) -> &'a Config {
        self.resolved.config()
    }

    pub(crate) fn blueprint(&self) -> &'a Blueprint {
        self.resolved.blueprint()
    }

    /// Drops everything except the strategies and returns them.
    pub(crate) fn into_strategies(self) -> Strategies {
        self.strategies
    }

    /// Returns the number of training threads.
    pub(crate) fn workers(&self) -> usize {
        self.executors.len()
    }

    /// Returns the description of pass `id`, with the groups that are in the buffer now.
    pub(crate) fn pass(&self, id: PassId) -> Pass {
        let edge_set = &self.edge_sets[id.edge_set as usize];
        let chunks = self.extent.edge_chunks;
        let layout = &self.blueprint().layout;
        let edges = layout.grid().map(|bucket| {
            let rows = batching::chunk_range(edge_set.bucket_len(bucket), id.edge_chunk, chunks);
            rows.end - rows.start
        });
        let resident = self.line.buffer.resident();
        layout.pass(self.config(), id, edges.collect(), resident)
    }

    /// Has the bucket order plan `pass`, and checks that the plan is a permutation of the grid. If the order failed and
    /// its fallback replaced it, adds an event about it to `events`.
    pub(crate) fn plan(
        &mut self,
        pass: &Pass,
        events: &mut Vec<Event>,
    ) -> Result<Planned, RunError> {
        let asked = Instant::now();
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
        Ok(Planned {
            seconds: asked.elapsed().as_secs_f64(),
            order: strategy.to_string(),
            cost: plan::cost(pass, &plan),
            plan,
        })
    }

    /// Returns the seconds of all workers in each stage of the step, with its name.
    pub(crate) fn stages(&self) -> Vec<(String, f64)> {
        let times = Cluster::ALL.into_iter().zip(self.cluster_times());
        times
            .map(|(cluster, time)| (cluster.name().to_owned(), time.as_secs_f64()))
            .collect()
    }

    /// Returns the time of all workers in each stage of the step.
    fn cluster_times(&self) -> [Duration; Cluster::ALL.len()] {
        let mut times = self.earlier;
        for (time, cluster) in times.iter_mut().zip(Cluster::ALL) {
            let executors = self.executors.iter();
            *time += executors
                .map(|executor| executor.cluster_times().of(cluster))
                .sum::<Duration>();
        }
        times
    }

    /// Sets the learning rates to `lr_factor` times the configured ones.
    pub(crate) fn set_rates(&mut self, lr_factor: f32) -> Result<(), RunError> {
        self.earlier = self.cluster_times();
        let spec = executor::with_rates(lr_factor, &self.blueprint().spec);
        let (place, planning) = (self.place.as_deref(), self.line.planning.as_ref());
        self.executors = executor::executors(self.resolved, &spec, place, planning)?;
        Ok(())
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
impl<S: TableStore<Table = Table>> Machine<'_, S> {
    /// Loads the bucket's partitions into the buffer and starts reading the next ones.
    pub(crate) fn load(&mut self, acquired: Acquired) -> Result<IoStats, RunError> {
        let io = self.line.buffer.hold(acquired)?;
        self.line.buffer.prefetch(acquired.position);
        Ok(io)
    }

    /// Takes the bucket's edges and starts preparing those of the next buckets.
    pub(crate) fn take_edges(
        &mut self,
        pass: PassId,
        Acquired { bucket, position }: Acquired,
        next: &[Bucket],
        io: &mut IoStats,
    ) -> Result<Prepared, RunError> {
        let reading = Instant::now();
        let prepared = self.line.edges.take(pass, bucket)?;
        io.wait_seconds += reading.elapsed().as_secs_f64();
        self.line.edges.start(pass, next);
        self.emit(Event::BucketStarted {
            pass,
            bucket,
            position: position as u64,
            edges: prepared.order.len() as u64,
        });
        Ok(prepared)
    }

    /// Trains the bucket's edges and ranks the held-out ones before and after; after training only if the bucket was
    /// not interrupted. Ranking and training borrow the same `Work`, so they are in one function.
    pub(crate) fn train_edges(
        &mut self,
        (pass, bucket): (PassId, Bucket),
        Prepared { edges, held, order }: &Prepared,
        io: IoStats,
        span: &Span<'_>,
    ) -> Result<Trained, RunError> {
        let started = Instant::now();
        // If the bucket is resumed, its held-out edges were ranked when it began.
        let before: &[u32] = if span.from.is_some() { &[] } else { held };
        if !before.is_empty() {
            self.line.buffer.release_home()?;
            self.settle(bucket)?;
        }
        let (config, buffer) = (self.resolved.config(), &self.line.buffer);
        let table = |entity, partition| buffer.table((entity, partition));
        let work = Work {
            blueprint: self.resolved.blueprint(),
            table: &table,
            params: &self.params,
            loss: &self.strategies.loss,
            edges,
            negatives_from: config.negatives_from,
            pass,
            bucket,
            seed: config.seed,
            gate: self.gate.as_deref(),
            training: &self.line.training,
        };
        let eval_batch = self.resolved.settings().eval_batch_size;
        let (evaluators, losses) = (&mut self.evaluators, &mut self.losses);
        let eval_before = holdout::evaluate(evaluators, losses, &work, before, eval_batch)?;
        let samplers = self.strategies.samplers();
        let course = Course {
            work: &work,
            indices: order,
            batch_size: config.batch_size,
            samplers: &samplers,
            span,
            checkpoint: Path::new(&config.checkpoint_path),
        };
        let totals = workers::train(&mut self.executors, losses, &course, self.sink)?;
        let after: &[u32] = if totals.left.is_some() { &[] } else { held };
        if !after.is_empty() {
            self.settle(bucket)?;
        }
        let (evaluators, losses) = (&mut self.evaluators, &mut self.losses);
        let eval_after = holdout::evaluate(evaluators, losses, &work, after, eval_batch)?;
        self.round(pass, bucket);
        let worked = started.elapsed().saturating_sub(totals.waited);
        self.line.training.worked(worked);
        Ok(Trained {
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
        let buffer = &self.line.buffer;
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
    fn settle(&self, bucket: Bucket) -> Result<(), RunError> {
        self.settle_parameters()?;
        let layout = &self.blueprint().layout;
        for entity in 0..layout.types.len() {
            for side in Side::BOTH {
                let partition = layout.partition(entity, side, bucket);
                if let Some(table) = self.line.buffer.table((entity, partition)) {
                    table.download()?;
                }
            }
        }
        Ok(())
    }
}
