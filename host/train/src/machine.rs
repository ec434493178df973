//! What trains buckets, whoever says which: strategies, workers, and the groups of the pipeline that bring
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

/// A trainer of the run: one for a machine alone, one of several on a cluster.
pub(crate) struct Machine<'a, S: TableStore> {
    pub(crate) resolved: &'a Resolved,
    pub(crate) strategies: Strategies,
    pub(crate) edge_sets: Arc<Vec<EdgeSet>>,
    pub(crate) extent: Extent,
    /// The groups of the pipeline.
    pub(crate) line: Line<S>,
    /// Shared, so that a thread beside the workers can read and add to them.
    pub(crate) params: Arc<Params>,
    /// Held by workers while they train a batch, where a thread beside them changes parameters.
    pub(crate) gate: Option<Arc<RwLock<()>>>,
    /// What trains: one for each worker.
    executors: Vec<Executor>,
    /// Where they train, if not on the cores.
    place: Option<Arc<dyn Place>>,
    /// Time in each stage of executors that others have replaced.
    earlier: [Duration; Cluster::ALL.len()],
    evaluators: Vec<StepWorker>,
    /// Evaluates the loss: one for each worker, which is the evaluator's too.
    losses: Vec<Box<dyn LossWorker>>,
    /// Who watches.
    sink: &'a mut dyn FnMut(Event),
}

/// What training a bucket gave, as far as this process has trained it.
pub(crate) struct Trained {
    pub(crate) stats: TrainStats,
    /// Time that a worker spent asking the relation sampler.
    pub(crate) sampler: Duration,
    /// How the relation sampler failed in workers, which went on with the standard one.
    pub(crate) faults: Vec<StrategyError>,
    pub(crate) eval_before: Option<RankStats>,
    pub(crate) eval_after: Option<RankStats>,
    /// How much of each share is trained, if it was left before its end.
    pub(crate) left: Option<Vec<Share>>,
    pub(crate) seconds: f64,
    pub(crate) io: IoStats,
}

impl Trained {
    /// What a checkpoint has of it if the bucket is left.
    pub(crate) fn sums(&self) -> BucketSums {
        BucketSums {
            stats: self.stats,
            eval_before: self.eval_before,
            io: self.io,
            seconds: self.seconds,
            sampler: self.sampler.as_secs_f64(),
        }
    }

    /// Adds what earlier processes have trained of the bucket.
    pub(crate) fn add_earlier(&mut self, earlier: &BucketSums) {
        self.stats.add(&earlier.stats);
        self.eval_before = earlier.eval_before;
        self.io.add(&earlier.io);
        self.seconds += earlier.seconds;
        self.sampler += Duration::try_from_secs_f64(earlier.sampler).unwrap_or_default();
    }
}

/// What an order was asked for a pass, and what it cost.
pub(crate) struct Planned {
    pub(crate) plan: Vec<Bucket>,
    pub(crate) order: String,
    pub(crate) cost: PlanCost,
    pub(crate) seconds: f64,
}

impl<'a, S: TableStore> Machine<'a, S> {
    /// To who watches.
    pub(crate) fn emit(&mut self, event: Event) {
        (self.sink)(event);
    }

    pub(crate) fn config(&self) -> &'a Config {
        self.resolved.config()
    }

    pub(crate) fn blueprint(&self) -> &'a Blueprint {
        self.resolved.blueprint()
    }

    /// What is left when the machine is taken apart.
    pub(crate) fn into_strategies(self) -> Strategies {
        self.strategies
    }

    /// Threads that train.
    pub(crate) fn workers(&self) -> usize {
        self.executors.len()
    }

    /// Pass `id`, when the partitions in the buffer are those that are there.
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

    /// Asks the order for a plan of `pass`, which is checked to be a permutation of the grid. `events` gets what says
    /// so if the standard order had to take the place of one that failed.
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

    /// Seconds of all workers in each cluster of the step.
    pub(crate) fn stages(&self) -> Vec<(String, f64)> {
        let times = Cluster::ALL.into_iter().zip(self.cluster_times());
        times
            .map(|(cluster, time)| (cluster.name().to_owned(), time.as_secs_f64()))
            .collect()
    }

    /// Time of all workers in each cluster of the step.
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

    /// Trains with the learning rates that validation has left from now on: `lr_factor` of the configuration's.
    pub(crate) fn set_rates(&mut self, lr_factor: f32) -> Result<(), RunError> {
        self.earlier = self.cluster_times();
        let spec = executor::with_rates(lr_factor, &self.blueprint().spec);
        let (place, planning) = (self.place.as_deref(), self.line.planning.as_ref());
        self.executors = executor::executors(self.resolved, &spec, place, planning)?;
        Ok(())
    }

    /// Brings the parameters in main memory up to date with a device.
    pub(crate) fn settle_parameters(&self) -> Result<(), RunError> {
        for executor in &self.executors {
            executor.settle(&self.params)?;
        }
        Ok(())
    }
}

/// The stations of a bucket.
impl<S: TableStore<Table = Table>> Machine<'_, S> {
    /// Brings the bucket's partitions into the buffer, and has the next ones read.
    pub(crate) fn load(&mut self, acquired: Acquired) -> Result<IoStats, RunError> {
        let io = self.line.buffer.hold(acquired)?;
        self.line.buffer.prefetch(acquired.position);
        Ok(io)
    }

    /// Takes the bucket's edges, and has those of the buckets that come next prepared.
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

    /// Trains the bucket's edges, and ranks those that are held out before and after; of a bucket that is left before its
    /// end, only before. Ranking and training borrow the same `Work`, so they stand in one function.
    pub(crate) fn train_edges(
        &mut self,
        (pass, bucket): (PassId, Bucket),
        Prepared { edges, held, order }: &Prepared,
        io: IoStats,
        span: &Span<'_>,
    ) -> Result<Trained, RunError> {
        let started = Instant::now();
        // Those of a bucket that goes on were ranked when it began.
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

    /// Rounds what the bucket has trained, where that is how embeddings are stored.
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

    /// Brings main memory up to date with a device: parameters, and the tables of `bucket`.
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
