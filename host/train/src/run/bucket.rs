//! One bucket: its partitions, its edges, its training.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use pbg_core::event::{Event, IoStats, RankStats, TrainStats};
use pbg_core::graph::{Bucket, Side};
use pbg_core::schedule::Acquired;
use pbg_core::strategy::StrategyError;

use super::Run;
use crate::draws::Samplers;
use crate::edges::Prepared;
use crate::error::RunError;
use crate::holdout;
use crate::workers::{self, Work};

/// What training a bucket gave.
pub(super) struct Trained {
    pub(super) stats: TrainStats,
    /// Time that a worker spent asking the relation sampler.
    pub(super) sampler: Duration,
    /// How the relation sampler failed in workers, which went on with the standard one.
    pub(super) faults: Vec<StrategyError>,
    pub(super) eval_before: Option<RankStats>,
    pub(super) eval_after: Option<RankStats>,
    pub(super) seconds: f64,
    pub(super) io: IoStats,
}

impl Run<'_> {
    /// Brings the bucket's partitions into the buffer, and has the next ones read.
    pub(super) fn load(&mut self, acquired: Acquired) -> Result<IoStats, RunError> {
        let io = self.line.buffer.hold(acquired)?;
        let stood = Duration::from_secs_f64(io.commit_seconds);
        self.coordinator.pace().stood(stood);
        self.line.buffer.prefetch(acquired.position);
        Ok(io)
    }

    /// Takes the bucket's edges, and has those of the plan's next bucket prepared.
    pub(super) fn take_edges(
        &mut self,
        Acquired { bucket, position }: Acquired,
        io: &mut IoStats,
    ) -> Result<Prepared, RunError> {
        let pass = self.schedule().pass();
        let reading = Instant::now();
        let prepared = self.line.edges.take(pass, bucket)?;
        io.wait_seconds += reading.elapsed().as_secs_f64();
        let plan = self.coordinator.schedule().plan();
        self.line.edges.start(pass, &plan[position + 1..]);
        self.emit(Event::BucketStarted {
            pass,
            bucket,
            position: position as u64,
            edges: prepared.order.len() as u64,
        });
        Ok(prepared)
    }

    /// Trains the bucket's edges, and ranks those that are held out before and after.
    pub(super) fn train_edges(
        &mut self,
        Acquired { bucket, .. }: Acquired,
        Prepared { edges, held, order }: &Prepared,
        io: IoStats,
    ) -> Result<Trained, RunError> {
        let started = Instant::now();
        if !held.is_empty() {
            self.settle(bucket)?;
        }
        let buffer = &self.line.buffer;
        let table = |entity, partition| buffer.table((entity, partition));
        let work = Work {
            blueprint: self.blueprint,
            table: &table,
            params: &self.params,
            loss: &self.strategies.loss,
            edges,
            negatives_from: self.config.negatives_from,
            pass: self.coordinator.schedule().pass(),
            bucket,
            seed: self.config.seed,
        };
        let eval_batch = self.resolved.settings().eval_batch_size;
        let (evaluators, losses) = (&mut self.evaluators, &mut self.losses);
        let eval_before = holdout::evaluate(evaluators, losses, &work, held, eval_batch)?;
        let samplers = Samplers {
            sampler: self.strategies.sampler.as_ref(),
            standard: self.strategies.fallbacks.sampler.as_deref(),
            faults: Mutex::default(),
        };
        let totals = workers::train(
            &mut self.trainers,
            losses,
            &work,
            order,
            &samplers,
            self.config.batch_size,
            self.sink,
        )?;
        if !held.is_empty() {
            self.settle(bucket)?;
        }
        let (evaluators, losses) = (&mut self.evaluators, &mut self.losses);
        let eval_after = holdout::evaluate(evaluators, losses, &work, held, eval_batch)?;
        let faults = samplers.faults.into_inner();
        self.line.training.worked(started.elapsed());
        Ok(Trained {
            stats: totals.stats,
            sampler: totals.sampler,
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
                if let Some(table) = self.line.buffer.table((entity, partition)) {
                    table.download()?;
                }
            }
        }
        Ok(())
    }

    /// Brings the parameters in main memory up to date with a device.
    pub(super) fn settle_parameters(&self) -> Result<(), RunError> {
        for executor in &self.trainers {
            executor.settle(&self.params)?;
        }
        Ok(())
    }
}
