//! Hogwild workers: threads that train equal shares of a bucket on shared rows, without waiting
//! for each other (Niu, Recht, Ré, Wright 2011). Where each batch changes every row, all train every batch together.

use std::mem::take;
use std::slice::Chunks;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use pbg_core::batching::{self, ByRelation};
use pbg_core::event::{Event, TrainStats};
use pbg_core::seed::{self, Purpose};
use pbg_core::strategy::LossWorker;
use pbg_kernels::device::PlannedBatch;
use pbg_kernels::negatives::NegativeDraws;
use pbg_kernels::spec::ModelSpec;
use pbg_kernels::step::{Batch, BatchJob, BatchStats, StepError};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::draws::{Drawing, Samplers};
use crate::error::RunError;
use crate::executor::Executor;
use crate::planning::{Planning, PreparedBatch};
use crate::work::{Columns, Work};

/// How often the loop hears of progress within a bucket.
const PROGRESS: Duration = Duration::from_millis(200);

/// What all workers did together.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct BucketTotals {
    /// Sums over the trained edges.
    pub(crate) stats: TrainStats,
    /// Time that a worker spent asking the relation sampler, on average.
    pub(crate) sampler: Duration,
    /// Time that it waited for batches that are planned by a group of their own.
    pub(crate) waited: Duration,
}

/// Trains the edges at `indices`, shared equally among `trainers`, one thread each, with one of `losses`; where the
/// model [shares batches](pbg_kernels::spec::ModelSpec::shares_batches), all train every batch together.
///
/// # Errors
/// The first failure of any worker; the others stop at their next batch.
///
/// # Panics
/// If there are fewer `losses` than `trainers`.
pub(crate) fn train(
    trainers: &mut [Executor],
    losses: &mut [Box<dyn LossWorker>],
    work: &Work<'_>,
    indices: &[u32],
    samplers: &Samplers<'_>,
    batch_size: u32,
    emit: &mut dyn FnMut(Event),
) -> Result<BucketTotals, RunError> {
    assert!(trainers.len() <= losses.len(), "a loss for each trainer");
    let failed = AtomicBool::new(false);
    let teams = shares(&work.blueprint.spec, trainers.len());
    let together = trainers.len().div_ceil(teams.max(1));
    let shares: Vec<_> = batching::shares(indices.len(), teams).collect();
    std::thread::scope(|scope| {
        // Room for a report of every worker: a full channel only delays the next report.
        let (reports, inbox) = sync_channel::<TrainStats>(trainers.len());
        let handles: Vec<_> = trainers
            .chunks_mut(together.max(1))
            .zip(losses.chunks_mut(together.max(1)))
            .zip(shares)
            .enumerate()
            .map(|(worker, (team, share))| {
                let (failed, reports) = (&failed, reports.clone());
                let share = &indices[share];
                scope.spawn(move || {
                    let mut trained = WorkerShare::new(team, work, worker, failed, reports);
                    let result = trained.train(share, samplers, batch_size);
                    if result.is_err() {
                        failed.store(true, Ordering::Relaxed);
                    }
                    result.map(|()| BucketTotals {
                        stats: trained.stats,
                        sampler: trained.sampler,
                        waited: trained.waited,
                    })
                })
            })
            .collect();
        drop(reports);
        forward_progress(&inbox, emit);
        let workers = handles.len() as u32;
        let mut total = BucketTotals::default();
        let mut error = None;
        for handle in handles {
            match handle.join() {
                Ok(Ok(of_worker)) => {
                    total.stats.add(&of_worker.stats);
                    total.sampler += of_worker.sampler / workers;
                    total.waited += of_worker.waited / workers;
                }
                Ok(Err(e)) => error = error.or(Some(e)),
                Err(_) => error = Some(RunError::WorkerPanic),
            }
        }
        error.map_or(Ok(total), Err)
    })
}

/// Shares that `trainers` cut a bucket into: one each, or one for all where they train every batch together.
pub(crate) fn shares(spec: &ModelSpec, trainers: usize) -> usize {
    match spec.shares_batches() {
        true => trainers.min(1),
        false => trainers,
    }
}

/// Sums what workers report until all of them are done.
fn forward_progress(inbox: &std::sync::mpsc::Receiver<TrainStats>, emit: &mut dyn FnMut(Event)) {
    let mut sum = TrainStats::default();
    let mut reported = std::time::Instant::now();
    loop {
        match inbox.recv_timeout(PROGRESS) {
            Ok(stats) => sum.add(&stats),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if sum.count > 0 && reported.elapsed() >= PROGRESS {
            emit(Event::Progress {
                edges: sum.count,
                loss: sum.mean_loss(),
            });
            reported = std::time::Instant::now();
        }
    }
}

/// The part of one bucket of one worker, or of several that train every batch together.
struct WorkerShare<'a, 'w> {
    trainers: &'a mut [Executor],
    losses: &'a mut [Box<dyn LossWorker>],
    work: &'a Work<'w>,
    worker: usize,
    failed: &'a AtomicBool,
    reports: SyncSender<TrainStats>,
    unreported: TrainStats,
    rng: Xoshiro256PlusPlus,
    columns: Columns,
    draws: NegativeDraws,
    batches: usize,
    stats: TrainStats,
    /// Time spent asking the relation sampler.
    sampler: Duration,
    /// Time spent waiting for planned batches.
    waited: Duration,
}

impl<'a, 'w> WorkerShare<'a, 'w> {
    fn new(
        (trainers, losses): (&'a mut [Executor], &'a mut [Box<dyn LossWorker>]),
        work: &'a Work<'w>,
        worker: usize,
        failed: &'a AtomicBool,
        reports: SyncSender<TrainStats>,
    ) -> Self {
        let rng = work.stream(Purpose::Negatives, worker as u64);
        Self {
            trainers,
            losses,
            work,
            worker,
            failed,
            reports,
            unreported: TrainStats::default(),
            rng,
            columns: Columns::default(),
            draws: NegativeDraws::default(),
            batches: 0,
            stats: TrainStats::default(),
            sampler: Duration::ZERO,
            waited: Duration::ZERO,
        }
    }

    fn train(
        &mut self,
        share: &[u32],
        samplers: &Samplers<'_>,
        batch_size: u32,
    ) -> Result<(), RunError> {
        if !self.work.blueprint.spec.is_dynamic() {
            return match share.is_empty() {
                true => Ok(()),
                false => self.train_by_relation(share, samplers, batch_size),
            };
        }
        let batches = share.chunks(batch_size as usize);
        if let Some(mut planning) = Executor::planning(self.trainers) {
            let result = self.train_planned(batches, &mut planning);
            Executor::plans_again(self.trainers, planning);
            return result;
        }
        for indices in batches {
            if self.failed.load(Ordering::Relaxed) {
                break;
            }
            self.step(indices, None)?;
        }
        Ok(())
    }

    /// Batches of edges of any relation, the next ones planned by a group of its own while one is trained.
    fn train_planned(
        &mut self,
        batches: Chunks<'_, u32>,
        planning: &mut Planning,
    ) -> Result<(), RunError> {
        let work = self.work;
        let rng = self.rng.clone();
        planning.ahead(work, batches, rng, &mut |batches| {
            loop {
                let waiting = Instant::now();
                let next = work.training.waits_for_input(|| batches.next());
                self.waited += waiting.elapsed();
                let Some(PreparedBatch {
                    columns,
                    draws,
                    plan,
                }) = next
                else {
                    return Ok(());
                };
                let plan = plan.map_err(|error| self.locate(error))?;
                self.train_batch(&columns.batch(None), &draws, None, Some(plan))?;
                batches.give_back(columns, draws);
            }
        })
    }

    /// Single-relation batches.
    fn train_by_relation(
        &mut self,
        share: &[u32],
        samplers: &Samplers<'_>,
        batch_size: u32,
    ) -> Result<(), RunError> {
        let relations = self.work.blueprint.spec.relation_count();
        let groups = ByRelation::new(share, &self.work.edges.rel, relations);
        let seed = seed::derive(
            self.work.seed,
            Purpose::Relations,
            &self.work.coordinates(self.worker as u64),
        );
        let mut drawing = self.ask(|| Drawing::new(samplers, groups, batch_size, seed))?;
        while let Some((relation, range)) = self.ask(|| drawing.next())? {
            if self.failed.load(Ordering::Relaxed) {
                break;
            }
            let loss = self.step(drawing.edges(range), Some(relation))?;
            self.ask(|| drawing.observe(relation, loss))?;
        }
        Ok(())
    }

    /// A call of the relation sampler.
    fn ask<T>(&mut self, call: impl FnOnce() -> T) -> T {
        let asked = Instant::now();
        let answer = call();
        self.sampler += asked.elapsed();
        answer
    }

    /// Trains one batch; returns its mean loss.
    fn step(&mut self, indices: &[u32], relation: Option<u32>) -> Result<f32, RunError> {
        let (mut columns, mut draws) = (take(&mut self.columns), take(&mut self.draws));
        self.work
            .prepare(indices, relation, &mut columns, &mut draws, &mut self.rng)?;
        let loss = self.train_batch(&columns.batch(relation), &draws, relation, None)?;
        (self.columns, self.draws) = (columns, draws);
        Ok(loss)
    }

    /// Trains a batch that is prepared, and planned where it was planned ahead; returns its mean loss.
    fn train_batch(
        &mut self,
        batch: &Batch<'_>,
        draws: &NegativeDraws,
        relation: Option<u32>,
        plan: Option<PlannedBatch>,
    ) -> Result<f32, RunError> {
        let work = self.work;
        let tables = work.tables(relation.unwrap_or(0))?;
        let gate = work.gate.map(RwLock::read);
        let job = BatchJob {
            batch,
            tables: &tables,
            params: work.params,
            draws,
        };
        let stats = match plan {
            Some(plan) => Executor::train_planned(self.trainers, self.losses, &job, plan),
            None => Executor::train_together(self.trainers, self.losses, &job),
        };
        let stats = stats.map_err(|error| self.locate(error))?;
        drop(gate);
        work.loss.observe(stats.count, stats.loss())?;
        let stats = sums(&stats);
        self.batches += 1;
        self.stats.add(&stats);
        self.unreported.add(&stats);
        if self.reports.try_send(self.unreported).is_ok() {
            self.unreported = TrainStats::default();
        }
        Ok(stats.mean_loss() as f32)
    }

    fn locate(&self, error: StepError) -> RunError {
        match error {
            StepError::NonFinite(what) => RunError::NotFinite {
                pass: self.work.pass,
                bucket: self.work.bucket,
                worker: self.worker,
                batch: self.batches,
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
