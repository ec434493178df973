//! The training loop:
//! edges on disk -> bucket schedule -> partition buffer -> batches -> kernels -> update -> checkpoint.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use pbg_core::event::Event;
use pbg_core::strategy::{BucketOrder, Loss as _, RunLength, SamplerFactory, StrategyId};
use pbg_kernels::device::Place;

use crate::alone::Alone;
use crate::coordinator::Coordinator;
use crate::draws::Samplers;
use crate::error::RunError;
use crate::executor;
use crate::identity::Allowed;
use crate::losses::GuardedLoss;
use crate::member::{Cluster, ClusterError, Member};
use crate::resolved::Resolved;

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
    /// Who draws the shares of a bucket.
    pub(crate) fn samplers(&self) -> Samplers<'_> {
        Samplers {
            sampler: self.sampler.as_ref(),
            standard: self.fallbacks.sampler.as_deref(),
            faults: Mutex::default(),
        }
    }

    /// What they are: bucket order, relation sampler, loss.
    pub(crate) fn ids(&self) -> Vec<StrategyId> {
        let ids = [self.order.id(), self.sampler.id(), self.loss.id()];
        ids.into_iter().cloned().collect()
    }

    /// Tells all of them, the fallbacks included, how long the run is.
    pub(crate) fn begin_run(&mut self, length: RunLength) {
        let Fallbacks { order, sampler } = &mut self.fallbacks;
        self.order.begin_run(length);
        self.sampler.begin_run(length);
        self.loss.begin_run(length);
        order.iter_mut().for_each(|order| order.begin_run(length));
        sampler.iter().for_each(|sampler| sampler.begin_run(length));
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
    /// Once `stop` is set, the current bucket is finished and committed; where
    /// [`stops_within_buckets`](crate::stops_within_buckets) says so, the current batches are.
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
        train(
            &mut Alone::open(self, strategies, allowed, place, emit)?,
            stop,
        )
    }
}

impl Resolved {
    /// Trains as one of the trainers of `cluster`, from where its ledger stands. One whose part is ended by others, since
    /// it was silent for too long, drops its tables and joins anew.
    ///
    /// Once `stop` is set, the current bucket is finished and settled, and the others go on. A register that does not
    /// answer is waited for a few seconds more then.
    ///
    /// # Errors
    /// As [`Resolved::train`], and when the others cannot be reached or do not take this trainer.
    pub fn train_together(
        &self,
        mut strategies: Strategies,
        cluster: &Cluster,
        allowed: Allowed,
        stop: &Arc<AtomicBool>,
        emit: &mut dyn FnMut(Event),
    ) -> Result<Outcome, RunError> {
        let (mut earlier, mut in_vain) = (None, 0);
        loop {
            let before = (allowed, earlier);
            let mut member = Member::join(self, strategies, cluster, before, stop, emit)?;
            let ended = train(&mut member, stop).map_err(|error| member.cause(error));
            match ended {
                Err(RunError::Cluster(error)) if error.may_rejoin() => {
                    member.tell_lost(&error);
                    in_vain = if member.has_trained() { 0 } else { in_vain + 1 };
                    (strategies, earlier) = member.dismantle();
                    cluster.rest(in_vain, stop);
                }
                Err(RunError::Cluster(error @ ClusterError::Unreachable { .. })) => {
                    let finished = member.finished_without()?;
                    return finished.ok_or_else(|| error.into());
                }
                Err(error) => {
                    if !matches!(error, RunError::Cluster(_)) {
                        member.abandon();
                    }
                    return Err(error);
                }
                ended => return ended,
            }
        }
    }
}

/// One pass after the other, one bucket after the other, each along the whole line.
fn train<'a>(run: &mut impl Coordinator<'a>, stop: &AtomicBool) -> Result<Outcome, RunError> {
    run.begin()?;
    loop {
        let (id, pass) = match run.begin_pass()? {
            ControlFlow::Continue(pass) => pass,
            ControlFlow::Break(outcome) => return Ok(outcome),
        };
        while let Some(acquired) = run.next(&pass)? {
            let next = run.behind(acquired);
            let machine = run.machine();
            let mut io = machine.load(acquired)?;
            let prepared = machine.take_edges(id, acquired, &next, &mut io)?;
            run.begin_bucket(acquired);
            let span = run.span(stop);
            let machine = run.machine();
            let trained = machine.train_edges((id, acquired.bucket), &prepared, io, &span)?;
            drop(prepared);
            let stop = stop.load(Ordering::Relaxed);
            if let Some(outcome) = run.settle(acquired, trained, stop)? {
                return Ok(outcome);
            }
        }
        run.finish_pass()?;
    }
}
