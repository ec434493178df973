//! One worker's share of a bucket's edges, trained batch by batch.

use std::mem::take;
use std::slice::Chunks;
use std::sync::RwLock;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

use pbg_core::batching::ByRelation;
use pbg_core::event::TrainStats;
use pbg_core::seed::{self, StreamPurpose};
use pbg_core::strategy::{LossWorker, RelationDraw};
use pbg_files::remote;
use pbg_kernels::negatives::NegativeDraws;
use pbg_kernels::step::{Batch, BatchJob, BatchStats, StepError};
use pbg_model::crew::Crew;
use pbg_model::error::RunError;
use pbg_model::resume_point::{ShareProgress, TrainedBatch};

use super::ShareQueue;
use crate::bucket_inputs::{BatchColumns, BatchEdges, BucketInputs, NegativeSource};
use crate::draws::RelationDraws;
use crate::executor::Executor;
use crate::formula_fault::{FaultFound, FormulaFault};
use crate::planning::{BatchPrefetcher, PreparedBatch};

/// Share of a bucket that one worker trains, or a team of workers that train every batch together.
pub(super) struct WorkerShare<'a, 'c> {
    hall: &'a ShareQueue<'a, 'c>,
    crew: &'a Crew,
    trainers: &'a mut [Executor],
    losses: &'a mut [Box<dyn LossWorker>],
    work: &'a BucketInputs<'c>,
    /// Number of the share.
    number: usize,
    /// Progress of the share.
    pub(super) share: ShareProgress,
    /// Whether training may be interrupted within the share.
    interruptible: bool,
    reports: &'a SyncSender<TrainStats>,
    unreported: TrainStats,
    negatives: NegativeSource<'a>,
    columns: BatchColumns,
    draws: NegativeDraws,
    pub(super) stats: TrainStats,
    /// Time spent on calls of the relation sampler.
    pub(super) sampler: Duration,
    /// Time spent waiting for planned batches.
    pub(super) waited: Duration,
}

impl<'a, 'c> WorkerShare<'a, 'c> {
    pub(super) fn new(
        hall: &'a ShareQueue<'a, 'c>,
        crew: &'a Crew,
        trainers: &'a mut [Executor],
        losses: &'a mut [Box<dyn LossWorker>],
        number: usize,
        share: &ShareProgress,
        reports: &'a SyncSender<TrainStats>,
    ) -> Self {
        let work = hall.course.work;
        Self {
            hall,
            crew,
            trainers,
            losses,
            work,
            number,
            share: share.clone(),
            interruptible: hall.course.span.stop.is_some(),
            reports,
            unreported: TrainStats::default(),
            negatives: work.negative_source(number as u64),
            columns: BatchColumns::default(),
            draws: NegativeDraws::default(),
            stats: TrainStats::default(),
            sampler: Duration::ZERO,
            waited: Duration::ZERO,
        }
    }

    /// Trains the rest of `edges`, or a part of it if the bucket is interrupted.
    pub(super) fn train(&mut self, edges: &[u32]) -> Result<(), RunError> {
        self.share.done = match self.work.blueprint.spec.is_dynamic() {
            true => self.train_batches(edges)?,
            false => edges.is_empty() || self.train_by_relation(edges)?,
        };
        if self.share.done {
            self.share.draws = Vec::new();
        }
        Ok(())
    }

    /// Whether training stops before the next batch.
    fn halts(&self) -> bool {
        self.crew.has_failed() || self.interruptible && self.hall.course.span.is_interrupted()
    }

    /// Trains batches of edges of any relation. Returns whether all are trained.
    fn train_batches(&mut self, edges: &[u32]) -> Result<bool, RunError> {
        let mut batches = edges.chunks(self.hall.course.batch_size as usize);
        let trained = usize::try_from(self.share.batches).unwrap_or(usize::MAX);
        for indices in batches.by_ref().take(trained) {
            if self.halts() {
                return Ok(false);
            }
            self.skip_draws(BatchEdges::Mixed(indices))?;
        }
        if let Some(mut planning) = Executor::planning(self.trainers) {
            let result = self.train_planned(batches, &mut planning);
            Executor::put_back_planner(self.trainers, planning);
            return result;
        }
        for indices in batches {
            if self.halts() {
                return Ok(false);
            }
            self.step(indices, None)?;
        }
        Ok(true)
    }

    /// Trains the remaining batches while a separate group plans the next ones. Returns whether all are trained.
    fn train_planned(
        &mut self,
        batches: Chunks<'_, u32>,
        planning: &mut BatchPrefetcher,
    ) -> Result<bool, RunError> {
        // The partitions of a bucket without edges may not be in memory.
        if batches.len() == 0 {
            return Ok(true);
        }
        let work = self.work;
        let negatives = self.negatives.fork();
        // A loss with state may change with each batch that it observes, and the next batch needs the change.
        let waits = work.loss.state().is_some();
        let mut done = false;
        planning.ahead(work, batches, negatives, &mut |batches| {
            loop {
                let waiting = pbg_clock::now();
                let next = work.training.waits_for_input(|| batches.next());
                self.waited += waiting.elapsed();
                let Some(PreparedBatch {
                    columns,
                    draws,
                    plan,
                }) = next
                else {
                    done = true;
                    return self.finish_planned();
                };
                if self.halts() {
                    return self.finish_planned();
                }
                let plan = plan.map_err(|error| self.locate(error))?;
                let batch = columns.batch(None);
                let before = self.with_job(&batch, &draws, None, |executors, losses, job| {
                    Executor::train_planned(executors, losses, job, plan)
                })?;
                let before = before.or_else(|error| {
                    self.finish_planned()?;
                    Err(self.locate(error))
                })?;
                if let Some(before) = before {
                    self.account(&before)?;
                }
                if waits {
                    self.finish_planned()?;
                }
                batches.give_back(columns, draws);
            }
        })?;
        Ok(done)
    }

    /// Waits for the last planned batch.
    fn finish_planned(&mut self) -> Result<(), RunError> {
        let last = Executor::finish(self.trainers).map_err(|error| self.locate(error))?;
        last.map_or(Ok(()), |stats| self.account(&stats).map(drop))
    }

    /// Trains batches of a single relation each. Returns whether all are trained.
    fn train_by_relation(&mut self, edges: &[u32]) -> Result<bool, RunError> {
        let course = self.hall.course;
        let relations = self.work.blueprint.spec.relation_count();
        let groups = ByRelation::new(edges, &self.work.edges.rel, relations);
        let seed = seed::derive(
            self.work.seed,
            StreamPurpose::Relations,
            &self.work.coordinates(self.number as u64),
        );
        let mut drawing =
            self.ask(|| RelationDraws::new(course.samplers, groups, course.batch_size, seed))?;
        let trained = take(&mut self.share.draws);
        let caught_up = self.catch_up(&mut drawing, &trained);
        self.share.draws = trained;
        if !caught_up? {
            return Ok(false);
        }
        while let Some((relation, range)) = self.ask(|| drawing.next())? {
            if self.halts() {
                return Ok(false);
            }
            let edges = range.len() as u32;
            let loss = self.step(drawing.edges(range), Some(relation))?;
            self.ask(|| drawing.observe(relation, loss))?;
            let draw = RelationDraw { relation, edges };
            self.remember(TrainedBatch { draw, loss });
        }
        Ok(true)
    }

    /// Advances the relation sampler and the draws of negatives past the batches that are trained already. Returns
    /// false if it was interrupted.
    fn catch_up(
        &mut self,
        drawing: &mut RelationDraws<'_>,
        trained: &[TrainedBatch],
    ) -> Result<bool, RunError> {
        if trained.is_empty() {
            return Ok(true);
        }
        let left = drawing.remaining_after(trained);
        let left = left.map_err(|broken| self.hall.course.damaged(broken))?;
        for TrainedBatch { draw, .. } in trained {
            if self.halts() {
                return Ok(false);
            }
            let edges = BatchEdges::OfRelation(draw.relation, draw.edges as usize);
            self.skip_draws(edges)?;
        }
        self.ask(|| drawing.resume_after(trained, left))?;
        Ok(true)
    }

    /// Passes over the negatives of a batch that is trained already.
    fn skip_draws(&mut self, edges: BatchEdges<'_>) -> Result<(), RunError> {
        self.work.skip(edges, &mut self.draws, &mut self.negatives)
    }

    /// Records a trained batch, in case the bucket is interrupted. With more batches than can be recorded, the bucket
    /// can no longer be interrupted.
    fn remember(&mut self, drawn: TrainedBatch) {
        let ShareQueue { course, parts, .. } = self.hall;
        if self.interruptible && self.share.draws.len() < course.span.most_draws(parts.len()) {
            self.share.draws.push(drawn);
        } else {
            self.interruptible = false;
            self.share.draws = Vec::new();
        }
    }

    /// Calls the relation sampler and measures the time.
    fn ask<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let asked = pbg_clock::now();
        let answer = call();
        self.sampler += asked.elapsed();
        answer
    }

    /// Trains one batch and returns its mean loss.
    fn step(&mut self, indices: &[u32], relation: Option<u32>) -> Result<f32, RunError> {
        let (mut columns, mut draws) = (take(&mut self.columns), take(&mut self.draws));
        let prepared = self.work.prepare(
            indices,
            relation,
            &mut columns,
            &mut draws,
            &mut self.negatives,
        );
        let batch = columns.batch(relation);
        prepared.map_err(|error| self.explain(error, &batch))?;
        let stats = self.with_job(&batch, &draws, relation, Executor::train_together)?;
        let stats = match stats {
            // The rows of a device are not those of main memory.
            Err(StepError::NonFinite(_)) if matches!(self.trainers[0], Executor::Core(_)) => {
                let spec = &self.work.blueprint.spec;
                let found = self.with_job(&batch, &draws, relation, |_, _, job| {
                    Ok(FormulaFault::find(spec, job))
                })?;
                let found = found.ok().flatten();
                stats.map_err(|error| match found {
                    Some(found) => self.locate_formula(&found),
                    None => self.locate(error),
                })
            }
            stats => stats.map_err(|error| self.locate(error)),
        }?;
        let loss = self.account(&stats)?;
        (self.columns, self.draws) = (columns, draws);
        Ok(loss)
    }

    /// Returns the reason why the negatives of a batch could not be chosen: `error`, or the formula because of which scores
    /// of candidates are not finite.
    fn explain(&self, error: RunError, batch: &Batch<'_>) -> RunError {
        let (RunError::ScoreNotFinite { .. }, Some(pools)) = (&error, self.negatives.pools())
        else {
            return error;
        };
        let work = self.work;
        let Ok(tables) = work.tables(batch.spec_index() as u32) else {
            return error;
        };
        let _gate = work.gate.map(RwLock::read);
        let job = BatchJob {
            batch,
            tables: &tables,
            params: work.params,
            draws: pools,
        };
        let found = FormulaFault::find(&work.blueprint.spec, &job);
        found.map_or(error, |found| self.locate_formula(&found))
    }

    /// Passes a prepared batch to the executors.
    fn with_job<T>(
        &mut self,
        batch: &Batch<'_>,
        draws: &NegativeDraws,
        relation: Option<u32>,
        train: impl FnOnce(
            &mut [Executor],
            &mut [Box<dyn LossWorker>],
            &BatchJob<'_>,
        ) -> Result<T, StepError>,
    ) -> Result<Result<T, StepError>, RunError> {
        let work = self.work;
        let tables = work.tables(relation.unwrap_or(0))?;
        let _gate = work.gate.map(RwLock::read);
        let job = BatchJob {
            batch,
            tables: &tables,
            params: work.params,
            draws,
        };
        Ok(train(self.trainers, self.losses, &job))
    }

    /// Adds a trained batch to the sums and returns its mean loss.
    fn account(&mut self, stats: &BatchStats) -> Result<f32, RunError> {
        self.work.loss.observe(stats.count, stats.loss())?;
        let stats = sums(stats);
        self.share.batches += 1;
        self.stats.add(&stats);
        self.unreported.add(&stats);
        if self.reports.try_send(self.unreported).is_ok() {
            self.unreported = TrainStats::default();
        }
        Ok(stats.mean_loss() as f32)
    }

    /// Returns the error of a formula that is not finite, and writes the file that repeats it.
    fn locate_formula(&self, (fault, found): &(FormulaFault, FaultFound)) -> RunError {
        let checkpoint = self.hall.course.checkpoint;
        let is_local = remote::as_url(checkpoint).is_none();
        let written = is_local.then(|| fault.write(&checkpoint.join("faults")).ok());
        RunError::FormulaNotFinite {
            pass: self.work.pass,
            bucket: self.work.bucket,
            worker: self.number,
            batch: usize::try_from(self.share.batches).unwrap_or(usize::MAX),
            what: found.to_string(),
            // Without a file, the message says all that is known.
            file: written.flatten(),
        }
    }

    fn locate(&self, error: StepError) -> RunError {
        match error {
            StepError::NonFinite(what) => RunError::NotFinite {
                pass: self.work.pass,
                bucket: self.work.bucket,
                worker: self.number,
                batch: usize::try_from(self.share.batches).unwrap_or(usize::MAX),
                what: what.to_string(),
            },
            StepError::Strategy(error) => RunError::Strategy(error),
            other => RunError::Step(other),
        }
    }
}

fn sums(stats: &BatchStats) -> TrainStats {
    TrainStats {
        count: stats.count as u64,
        loss: stats.loss() + stats.loss_relations,
        reg: stats.reg,
        violators_lhs: stats.violators_lhs,
        violators_rhs: stats.violators_rhs,
    }
}
