//! The training loop:
//! edges on disk -> bucket schedule -> partition buffer -> batches -> kernels -> update -> checkpoint.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use pbg_config::Config;
use pbg_core::batching;
use pbg_core::event::{Event, IoStats, RankStats, Resumed, TrainStats};
use pbg_core::graph::{Bucket, Edges, Side};
use pbg_core::plan::{self, Belady};
use pbg_core::schedule::{Acquired, Extent};
use pbg_core::seed::{self, Purpose};
use pbg_core::strategy::{BucketOrder, Loss, Pass, SamplerFactory, StrategyError, StrategyId};
use pbg_kernels::device::Place;
use pbg_kernels::params::Params;
use pbg_kernels::step::{Cluster, StepWorker};
use pbg_store::checkpoint::Checkpoint;
use pbg_store::dataset::EdgeSet;

use crate::buffer::PartitionBuffer;
use crate::commit::{self, Commits, Start};
use crate::draws::Samplers;
use crate::error::RunError;
use crate::executor::{self, Executor, executors};
use crate::grow::NewRows;
use crate::holdout;
use crate::identity::{Admitted, Allowed};
use crate::losses::GuardedLoss;
use crate::memory;
use crate::model::Blueprint;
use crate::resolved::Resolved;
use crate::state::RunState;
use crate::tables::{DiskTables, Initial};
use crate::trained::Missing;
use crate::workers::{self, Work};

mod faults;
mod validation;

/// On one machine there is one trainer; its workers share each bucket.
const TRAINER: u32 = 0;

/// The strategies of a run.
pub struct Strategies {
    /// Order of the buckets.
    pub order: Box<dyn BucketOrder>,
    /// Order of the relations within a bucket, with static relations.
    pub sampler: Box<dyn SamplerFactory>,
    /// Loss, and what goes on in its place.
    pub loss: GuardedLoss,
    /// What goes on in the place of a strategy that fails.
    pub fallbacks: Fallbacks,
}

impl Strategies {
    /// What they are: bucket order, relation sampler, loss.
    pub(crate) fn ids(&self) -> Vec<StrategyId> {
        let ids = [self.order.id(), self.sampler.id(), self.loss.id()];
        ids.into_iter().cloned().collect()
    }
}

/// What goes on in the place of a strategy that fails, by slot; where there is nothing, the run
/// ends. A resumed run begins with the strategies that it was given again.
#[derive(Default)]
pub struct Fallbacks {
    /// Order of the buckets.
    pub order: Option<Box<dyn BucketOrder>>,
    /// Order of the relations within a bucket.
    pub sampler: Option<Box<dyn SamplerFactory>>,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Every epoch is trained.
    Finished {
        /// Version of the checkpoint.
        version: u64,
    },
    /// It was asked to stop; nothing that was trained is lost.
    Interrupted {
        /// Version of the checkpoint.
        version: u64,
    },
}

impl Resolved {
    /// Trains to the last epoch of the configuration, from where its checkpoint stands.
    ///
    /// Once `stop` is set, the current bucket is finished and committed.
    ///
    /// # Errors
    /// When the configuration does not fit the checkpoint, a file cannot be read or written, a
    /// strategy fails, or the loss is not finite. The last commit stays.
    pub fn train(
        &self,
        strategies: Strategies,
        allowed: Allowed,
        stop: &AtomicBool,
        emit: &mut dyn FnMut(Event),
    ) -> Result<Outcome, RunError> {
        // First of all: what libtorch can do is settled when it is first used.
        let place = executor::place(self)?;
        self.train_at(strategies, allowed, place, stop, emit)
    }

    /// As [`Resolved::train`], at `place` rather than where `execution.device` says; none: on the
    /// cores.
    ///
    /// # Errors
    /// As [`Resolved::train`].
    pub fn train_at(
        &self,
        strategies: Strategies,
        allowed: Allowed,
        place: Option<Place>,
        stop: &AtomicBool,
        emit: &mut dyn FnMut(Event),
    ) -> Result<Outcome, RunError> {
        pbg_kernels::use_one_torch_thread();
        Run::open(self, strategies, allowed, place)?.train(stop, emit)
    }
}

struct Run<'a> {
    resolved: &'a Resolved,
    config: &'a Config,
    blueprint: &'a Blueprint,
    strategies: Strategies,
    edge_sets: Vec<EdgeSet>,
    extent: Extent,
    buffer: PartitionBuffer<DiskTables>,
    params: Params,
    trainers: Vec<Executor>,
    /// Where they train, if not on the cores.
    place: Option<Place>,
    /// Time in each stage of trainers that others have replaced.
    earlier: [Duration; Cluster::ALL.len()],
    evaluators: Vec<StepWorker>,
    state: RunState,
    commits: Commits,
    resumed: Option<Resumed>,
    /// What is not as it was when the checkpoint was committed.
    admitted: Admitted,
}

impl<'a> Run<'a> {
    fn open(
        resolved: &'a Resolved,
        strategies: Strategies,
        allowed: Allowed,
        place: Option<Place>,
    ) -> Result<Self, RunError> {
        let (config, blueprint) = (resolved.config(), resolved.blueprint());
        if let Some(reason) = executor::refusal(resolved, place.is_some()) {
            return Err(RunError::Config(reason));
        }
        let edge_sets = resolved.edge_sets()?;
        validation::check(config, resolved.dataset())?;
        let extent = resolved.extent(&edge_sets)?;
        let checkpoint = Checkpoint::open_or_create(Path::new(&config.checkpoint_path))?;
        let initial = Initial::new(resolved, checkpoint.run().is_none())?;
        let mut params = Params::new(&blueprint.spec);
        if let Some(init) = initial.checkpoint() {
            commit::read_model(init.model()?, &mut params)?;
        }
        let commits = Commits::new(resolved, &strategies, allowed)?;
        let Start {
            mut state,
            resumed,
            admitted,
        } = commits.resume(resolved, &checkpoint, &mut params)?;
        if let Some(earlier) = &admitted.earlier {
            let new = NewRows::behind(earlier, resolved)?;
            new.add_to(&checkpoint, &blueprint.layout.types)?;
        }
        if let Some(remembered) = &state.loss {
            strategies.loss.restore(remembered).map_err(|reason| {
                let path = &config.checkpoint_path;
                RunError::Mismatch(format!("{path}: its loss does not fit: {reason}"))
            })?;
        }
        state.schedule.release_all();
        let tables = DiskTables::new(resolved, checkpoint, initial, place)?;
        let capacity = config.buffer_partitions as usize;
        let mut buffer = PartitionBuffer::new(blueprint.layout.clone(), capacity, tables)?;
        buffer.restore(&state.resident)?;
        let spec = validation::with_rates_of(&state.plateau, &blueprint.spec);
        Ok(Self {
            resolved,
            config,
            trainers: executors(resolved, &spec, place)?,
            place,
            earlier: Default::default(),
            evaluators: if config.eval_fraction > 0.0 {
                executor::trainers(resolved, &resolved.eval_spec())?
            } else {
                Vec::new()
            },
            strategies,
            blueprint,
            edge_sets,
            extent,
            buffer,
            params,
            state,
            commits,
            resumed,
            admitted,
        })
    }

    fn train(
        mut self,
        stop: &AtomicBool,
        emit: &mut dyn FnMut(Event),
    ) -> Result<Outcome, RunError> {
        let started = Instant::now();
        let (mut edges, mut io) = (0, IoStats::default());
        self.announce(emit);
        self.announce_changes(emit)?;
        self.make_up_for_preserving(emit)?;
        self.validate(emit)?;
        while !self.state.schedule.finished(self.extent) && !self.ends_early() {
            let pass = self.plan(emit)?;
            let mut eviction = Belady::new(&pass, self.state.schedule.plan());
            while let Some(acquired) = self.state.schedule.acquire(TRAINER, &pass) {
                let trained = self.train_bucket(&pass, acquired, &mut eviction, emit)?;
                self.state.schedule.complete(acquired.position);
                self.record(acquired, &trained, emit)?;
                self.replace_sampler(&trained.faults, emit)?;
                self.report_loss_faults(emit)?;
                edges += trained.stats.count;
                io.add(&trained.io);
                let stopping = stop.load(Ordering::Relaxed);
                if stopping || self.commits.due() {
                    let version = self.commit(emit)?;
                    if stopping {
                        emit(Event::Interrupted { version });
                        return Ok(Outcome::Interrupted { version });
                    }
                }
            }
            self.finish_pass(emit)?;
            self.validate(emit)?;
        }
        self.announce_early_end(emit);
        let version = self.buffer.store().checkpoint.version();
        emit(Event::RunFinished {
            edges,
            seconds: started.elapsed().as_secs_f64(),
            io,
            stages: self.stages(),
            version,
        });
        Ok(Outcome::Finished { version })
    }

    /// Seconds of all workers in each cluster of the step.
    fn stages(&self) -> Vec<(String, f64)> {
        let times = Cluster::ALL.into_iter().zip(self.cluster_times());
        times
            .map(|(cluster, time)| (cluster.name().to_owned(), time.as_secs_f64()))
            .collect()
    }

    fn cluster_times(&self) -> [Duration; Cluster::ALL.len()] {
        let mut times = self.earlier;
        for (time, cluster) in times.iter_mut().zip(Cluster::ALL) {
            *time += self
                .trainers
                .iter()
                .map(|t| t.cluster_times().of(cluster))
                .sum::<Duration>();
        }
        times
    }

    fn announce(&self, emit: &mut dyn FnMut(Event)) {
        emit(Event::RunStarted {
            epochs: self.extent.epochs,
            passes_per_epoch: self.extent.edge_sets * self.extent.edge_chunks,
            buckets: self.blueprint.layout.grid().count() as u64,
            edges_per_epoch: self.edge_sets.iter().map(EdgeSet::len).sum(),
            workers: self.trainers.len() as u32,
            resumed: self.resumed,
        });
    }

    /// Tells what is not as it was when the run was left, and commits it, so that it is told once.
    fn announce_changes(&mut self, emit: &mut dyn FnMut(Event)) -> Result<(), RunError> {
        let Admitted {
            earlier, changes, ..
        } = std::mem::take(&mut self.admitted);
        if let Some(earlier) = &earlier {
            let Missing { rows, relations } = Missing::of(earlier, &self.resolved.ids()?);
            self.report(Event::Grown { rows, relations }, emit)?;
        }
        if !changes.is_empty() {
            let changes = changes.clone();
            self.report(Event::DataChanged { changes }, emit)?;
        }
        if earlier.is_some() || !changes.is_empty() {
            self.commit(emit)?;
        }
        Ok(())
    }

    /// The current pass, with a plan: its own from the checkpoint, or a new one of the order.
    fn plan(&mut self, emit: &mut dyn FnMut(Event)) -> Result<Pass, RunError> {
        let id = self.state.schedule.pass();
        let edge_set = &self.edge_sets[id.edge_set as usize];
        let chunks = self.extent.edge_chunks;
        let edges = self.blueprint.layout.grid().map(|bucket| {
            let rows = batching::chunk_range(edge_set.bucket_len(bucket), id.edge_chunk, chunks);
            rows.end - rows.start
        });
        let resident = self.buffer.resident();
        let pass = self
            .blueprint
            .layout
            .pass(self.config, id, edges.collect(), resident);
        if self.state.schedule.needs_plan() {
            let asked = Instant::now();
            let buckets = match self.strategies.order.plan(&pass) {
                Ok(buckets) => buckets,
                Err(fault) => {
                    self.replace_order(&fault, emit)?;
                    self.strategies.order.plan(&pass)?
                }
            };
            let strategy = self.strategies.order.id().clone();
            plan::check(&pass, &buckets).map_err(|source| RunError::Plan {
                strategy: strategy.clone(),
                source,
            })?;
            let seconds = asked.elapsed().as_secs_f64();
            self.state.epoch.calls.order += seconds;
            self.state.epoch.seconds += seconds;
            let planned = Event::PassPlanned {
                pass: id,
                order: strategy.to_string(),
                buckets: buckets.len() as u64,
                cost: plan::cost(&pass, &buckets),
            };
            self.report(planned, emit)?;
            self.state.schedule.set_plan(buckets);
        }
        Ok(pass)
    }

    fn train_bucket(
        &mut self,
        pass: &Pass,
        Acquired { bucket, position }: Acquired,
        eviction: &mut Belady,
        emit: &mut dyn FnMut(Event),
    ) -> Result<Trained, RunError> {
        let mut io = self.buffer.hold(pass, bucket, eviction, position)?;
        if self.config.execution.prefetch {
            let upcoming = &self.state.schedule.plan()[position + 1..];
            self.buffer.prefetch(pass, upcoming);
        }
        let reading = Instant::now();
        let edges = self.read_edges(bucket)?;
        io.wait_seconds += reading.elapsed().as_secs_f64();
        let (held, order) = self.split(bucket, edges.len() as u32);
        emit(Event::BucketStarted {
            pass: self.state.schedule.pass(),
            bucket,
            position: position as u64,
            edges: order.len() as u64,
        });
        let started = Instant::now();
        let buffer = &self.buffer;
        let table = |entity, partition| buffer.table((entity, partition));
        let work = Work {
            blueprint: self.blueprint,
            table: &table,
            params: &self.params,
            loss: &self.strategies.loss,
            edges: &edges,
            negatives_from: self.config.negatives_from,
            pass: self.state.schedule.pass(),
            bucket,
            seed: self.config.seed,
        };
        let eval_batch = self.resolved.settings().eval_batch_size;
        if !held.is_empty() {
            self.settle(bucket)?;
        }
        let eval_before = holdout::evaluate(&mut self.evaluators, &work, &held, eval_batch)?;
        let samplers = Samplers {
            sampler: self.strategies.sampler.as_ref(),
            standard: self.strategies.fallbacks.sampler.as_deref(),
            faults: Mutex::default(),
        };
        let shifts = workers::train(
            &mut self.trainers,
            &work,
            &order,
            &samplers,
            self.config.batch_size,
            emit,
        )?;
        if !held.is_empty() {
            self.settle(bucket)?;
        }
        let eval_after = holdout::evaluate(&mut self.evaluators, &work, &held, eval_batch)?;
        let faults = samplers.faults.into_inner();
        Ok(Trained {
            stats: shifts.stats,
            sampler: shifts.sampler,
            faults: faults.unwrap_or_else(PoisonError::into_inner),
            eval_before,
            eval_after,
            seconds: started.elapsed().as_secs_f64(),
            io,
        })
    }

    /// Brings main memory up to date with a device: parameters, and the tables of `bucket`.
    fn settle(&self, bucket: Bucket) -> Result<(), RunError> {
        self.settle_parameters()?;
        let layout = &self.blueprint.layout;
        for entity in 0..layout.types.len() {
            for side in Side::BOTH {
                let partition = layout.partition(entity, side, bucket);
                if let Some(table) = self.buffer.table((entity, partition)) {
                    table.download()?;
                }
            }
        }
        Ok(())
    }

    /// Brings the parameters in main memory up to date with a device.
    fn settle_parameters(&self) -> Result<(), RunError> {
        for executor in &self.trainers {
            executor.settle(&self.params)?;
        }
        Ok(())
    }

    fn read_edges(&self, bucket: Bucket) -> Result<Edges, RunError> {
        let pass = self.state.schedule.pass();
        let edge_set = &self.edge_sets[pass.edge_set as usize];
        let len = edge_set.bucket_len(bucket);
        let rows = batching::chunk_range(len, pass.edge_chunk, self.extent.edge_chunks);
        Ok(edge_set.read(bucket, rows)?)
    }

    /// Held-out edges, the same in every epoch, and the others in a new random order.
    fn split(&self, bucket: Bucket, edges: u32) -> (Vec<u32>, Vec<u32>) {
        let pass = self.state.schedule.pass();
        let at = [
            pass.edge_set,
            pass.edge_chunk,
            bucket.lhs,
            bucket.rhs,
            pass.epoch,
        ]
        .map(u64::from);
        let mut rng = seed::stream(self.config.seed, Purpose::HoldOut, &at[..4]);
        let (held, mut order) = batching::hold_out(edges, self.config.eval_fraction, &mut rng);
        let mut rng = seed::stream(self.config.seed, Purpose::Shuffle, &at);
        batching::shuffle(&mut order, &mut rng);
        (held, order)
    }

    fn record(
        &mut self,
        Acquired { bucket, position }: Acquired,
        trained: &Trained,
        emit: &mut dyn FnMut(Event),
    ) -> Result<(), RunError> {
        let event = Event::BucketFinished {
            pass: self.state.schedule.pass(),
            bucket,
            position: position as u64,
            index: self.state.index,
            stats: trained.stats,
            eval_before: trained.eval_before,
            eval_after: trained.eval_after,
            seconds: trained.seconds,
            io: trained.io,
        };
        let epoch = &mut self.state.epoch;
        epoch.stats.add(&trained.stats);
        epoch.io.add(&trained.io);
        epoch.seconds += trained.seconds + trained.io.wait_seconds;
        epoch.calls.sampler += trained.sampler.as_secs_f64();
        if let Some(eval) = &trained.eval_before {
            epoch.eval_before = epoch.eval_before.merge(eval);
        }
        self.state.index += 1;
        self.report(event, emit)
    }

    fn finish_pass(&mut self, emit: &mut dyn FnMut(Event)) -> Result<(), RunError> {
        let epoch = self.state.schedule.pass().epoch;
        self.state.schedule.advance(self.extent);
        if self.state.schedule.pass().epoch == epoch {
            return Ok(());
        }
        let sums = std::mem::take(&mut self.state.epoch);
        let event = Event::EpochFinished {
            epoch,
            stats: sums.stats,
            eval_before: (sums.eval_before.count > 0).then_some(sums.eval_before),
            seconds: sums.seconds,
            calls: sums.calls,
            io: sums.io,
            peak_bytes: memory::peak_bytes(),
        };
        self.report(event, emit)?;
        self.commit(emit)?;
        if self.keeps(epoch + 1) {
            self.preserve(epoch + 1, emit)?;
        }
        Ok(())
    }

    /// Whether the commit after `epochs` epochs is kept for good.
    fn keeps(&self, epochs: u32) -> bool {
        let interval = self.config.checkpoint_preservation_interval;
        epochs > 0 && interval.is_some_and(|n| epochs.is_multiple_of(n))
    }

    /// A run that was stopped after an epoch's commit, before it was kept, keeps it when it goes on.
    fn make_up_for_preserving(&self, emit: &mut dyn FnMut(Event)) -> Result<(), RunError> {
        let pass = self.state.schedule.pass();
        let at_start =
            self.state.schedule.needs_plan() && (pass.edge_set, pass.edge_chunk) == (0, 0);
        if self.resumed.is_some()
            && at_start
            && self.keeps(pass.epoch)
            && !self.buffer.store().checkpoint.has_preserved(pass.epoch)
        {
            self.preserve(pass.epoch, emit)?;
        }
        Ok(())
    }

    fn preserve(&self, epochs: u32, emit: &mut dyn FnMut(Event)) -> Result<(), RunError> {
        self.buffer.store().checkpoint.preserve(epochs)?;
        emit(Event::Preserved { epoch: epochs });
        Ok(())
    }

    /// To `metrics.jsonl` and to whoever watches.
    fn report(&mut self, event: Event, emit: &mut dyn FnMut(Event)) -> Result<(), RunError> {
        self.buffer.store().checkpoint.append_metrics(&event)?;
        emit(event);
        Ok(())
    }

    fn commit(&mut self, emit: &mut dyn FnMut(Event)) -> Result<u64, RunError> {
        let started = Instant::now();
        self.state.resident = self.buffer.resident();
        self.state.loss = self.strategies.loss.state();
        self.settle_parameters()?;
        self.buffer.flush()?;
        let mut tables = self.buffer.store_mut();
        tables.complete()?;
        let version = self
            .commits
            .commit(&mut tables.checkpoint, &self.params, &self.state)?;
        emit(Event::Committed {
            version,
            seconds: started.elapsed().as_secs_f64(),
        });
        Ok(version)
    }
}

/// What training a bucket gave.
struct Trained {
    stats: TrainStats,
    /// Time that a worker spent asking the relation sampler.
    sampler: Duration,
    /// How the relation sampler failed in workers, which went on with the standard one.
    faults: Vec<StrategyError>,
    eval_before: Option<RankStats>,
    eval_after: Option<RankStats>,
    seconds: f64,
    io: IoStats,
}
