//! The training loop:
//! edges on disk -> bucket schedule -> partition buffer -> batches -> kernels -> update -> checkpoint.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use pbg_config::Config;
use pbg_core::batching;
use pbg_core::event::{Event, IoStats, Resumed};
use pbg_core::plan::{self, Belady};
use pbg_core::schedule::{Acquired, Extent, Schedule};
use pbg_core::strategy::{BucketOrder, Loss as _, LossWorker, Pass, SamplerFactory, StrategyId};
use pbg_kernels::device::Place;
use pbg_kernels::params::Params;
use pbg_kernels::step::{Cluster, StepWorker};
use pbg_store::dataset::EdgeSet;

use crate::commit::Commits;
use crate::coordinator::Coordinator;
use crate::error::{ErrorKind, RunError};
use crate::executor::{self, Executor};
use crate::identity::{Admitted, Allowed};
use crate::line::Line;
use crate::losses::GuardedLoss;
use crate::model::Blueprint;
use crate::resolved::Resolved;
use crate::state::RunState;
use crate::tables::DiskTables;

mod bucket;
mod commits;
mod faults;
mod open;
mod record;
pub(crate) mod validation;

/// The strategies of a run.
pub struct Strategies {
    /// Order of the buckets.
    pub order: Box<dyn BucketOrder>,
    /// Order of the relations within a bucket, with static relations.
    pub sampler: Box<dyn SamplerFactory>,
    /// Loss, with its fallback.
    pub loss: GuardedLoss,
    /// Fallbacks of the others.
    pub fallbacks: Fallbacks,
}

impl Strategies {
    /// What they are: bucket order, relation sampler, loss.
    pub(crate) fn ids(&self) -> Vec<StrategyId> {
        let ids = [self.order.id(), self.sampler.id(), self.loss.id()];
        ids.into_iter().cloned().collect()
    }
}

/// Fallbacks, by slot; where there is none, the run
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
        place: Option<Arc<dyn Place>>,
        stop: &AtomicBool,
        emit: &mut dyn FnMut(Event),
    ) -> Result<Outcome, RunError> {
        Run::open(self, strategies, allowed, place, emit)?.train(stop)
    }
}

struct Run<'a> {
    resolved: &'a Resolved,
    config: &'a Config,
    blueprint: &'a Blueprint,
    strategies: Strategies,
    edge_sets: Arc<Vec<EdgeSet>>,
    extent: Extent,
    coordinator: Box<dyn Coordinator>,
    /// The groups of the pipeline.
    line: Line<DiskTables>,
    /// Shared, so that a thread beside the workers can read and add to them.
    params: Arc<Params>,
    trainers: Vec<Executor>,
    /// Where they train, if not on the cores.
    place: Option<Arc<dyn Place>>,
    /// Time in each stage of trainers that others have replaced.
    earlier: [Duration; Cluster::ALL.len()],
    evaluators: Vec<StepWorker>,
    /// Evaluates the loss: one for each trainer, which is the evaluator's too.
    losses: Vec<Box<dyn LossWorker>>,
    state: RunState,
    commits: Commits,
    resumed: Option<Resumed>,
    /// What is not as it was when the checkpoint was committed.
    admitted: Admitted,
    /// Edges and traffic of this process.
    totals: (u64, IoStats),
    /// Who watches.
    sink: &'a mut dyn FnMut(Event),
}

impl Run<'_> {
    fn train(mut self, stop: &AtomicBool) -> Result<Outcome, RunError> {
        let started = Instant::now();
        self.announce();
        self.announce_changes()?;
        self.make_up_for_preserving()?;
        self.validate()?;
        while !self.schedule().finished(self.extent) && !self.ends_early() {
            let pass = match self.begin_pass() {
                // Nothing of the pass is trained yet, so what there is can be committed.
                Err(error) if error.kind() == ErrorKind::Interrupted => {
                    let version = self.commit()?;
                    self.emit(Event::Interrupted { version });
                    return Ok(Outcome::Interrupted { version });
                }
                other => other?,
            };
            while let Some(acquired) = self.coordinator.next(&pass) {
                if let Some(version) = self.train_bucket(acquired, stop)? {
                    self.emit(Event::Interrupted { version });
                    return Ok(Outcome::Interrupted { version });
                }
            }
            self.finish_pass()?;
            self.validate()?;
        }
        self.announce_early_end();
        let version = self.finish_commit()?;
        let (edges, io) = self.totals;
        let stages = self.stages();
        self.emit(Event::RunFinished {
            edges,
            seconds: started.elapsed().as_secs_f64(),
            io,
            stages,
            version,
        });
        Ok(Outcome::Finished { version })
    }

    /// One bucket along the whole line. Gives the version of the checkpoint if the run is to stop behind it.
    fn train_bucket(
        &mut self,
        acquired: Acquired,
        stop: &AtomicBool,
    ) -> Result<Option<u64>, RunError> {
        let mut io = self.load(acquired)?;
        let prepared = self.take_edges(acquired, &mut io)?;
        let trained = self.train_edges(acquired, &prepared, io)?;
        drop(prepared);
        self.coordinator.settle(acquired)?;
        self.record(acquired, &trained)?;
        self.replace_sampler(&trained.faults)?;
        self.report_loss_faults()?;
        if stop.load(Ordering::Relaxed) {
            return self.commit().map(Some);
        }
        self.commit_if_due()?;
        Ok(None)
    }

    /// Where the run is.
    fn schedule(&self) -> &Schedule {
        self.coordinator.schedule()
    }

    /// Has the current pass planned, and tells the buffer.
    fn begin_pass(&mut self) -> Result<Arc<Pass>, RunError> {
        let pass = Arc::new(self.plan()?);
        let plan = self.schedule().plan().to_vec();
        let eviction = Belady::new(&pass, &plan);
        self.line
            .buffer
            .begin_pass(Arc::clone(&pass), plan, Box::new(eviction));
        Ok(pass)
    }

    /// The current pass, with a plan: its own from the checkpoint, or a new one of the order.
    fn plan(&mut self) -> Result<Pass, RunError> {
        let id = self.schedule().pass();
        let edge_set = &self.edge_sets[id.edge_set as usize];
        let chunks = self.extent.edge_chunks;
        let edges = self.blueprint.layout.grid().map(|bucket| {
            let rows = batching::chunk_range(edge_set.bucket_len(bucket), id.edge_chunk, chunks);
            rows.end - rows.start
        });
        let resident = self.line.buffer.resident();
        let pass = self
            .blueprint
            .layout
            .pass(self.config, id, edges.collect(), resident);
        if self.schedule().needs_plan() {
            let asked = Instant::now();
            let buckets = match self.strategies.order.plan(&pass) {
                Ok(buckets) => buckets,
                Err(fault) => {
                    self.replace_order(&fault)?;
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
            self.report(planned)?;
            self.coordinator.set_plan(buckets);
        }
        Ok(pass)
    }
}
