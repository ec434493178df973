//! Hogwild workers: threads that train equal shares of a bucket on shared rows, without waiting
//! for each other (Niu, Recht, Ré, Wright 2011). Where each batch changes every row, all train every batch together.

use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use pbg_core::batching::{self, ByRelation};
use pbg_core::event::{Event, TrainStats};
use pbg_core::graph::{Bucket, Edges, Side};
use pbg_core::model::NegativesFrom;
use pbg_core::schedule::PassId;
use pbg_core::seed::{self, Purpose};
use pbg_core::strategy::{Loss, LossWorker};
use pbg_kernels::negatives::Draws;
use pbg_kernels::params::Params;
use pbg_kernels::spec::RelationSpec;
use pbg_kernels::step::{Batch, BatchStats, Job, Relations, StepError, Tables};
use pbg_kernels::table::Table;
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::draws::{Drawing, Samplers};
use crate::error::RunError;
use crate::executor::Executor;
use crate::model::Blueprint;

/// How often the loop hears of progress within a bucket.
const PROGRESS: Duration = Duration::from_millis(200);

/// A bucket ready to be trained or evaluated.
pub struct Work<'a> {
    /// The model.
    pub blueprint: &'a Blueprint,
    /// Looks up a table that the bucket needs, by entity type and partition.
    pub table: &'a (dyn Fn(usize, u32) -> Option<&'a Table> + Sync),
    /// Shared parameters.
    pub params: &'a Params,
    /// The loss, which hears of every batch.
    pub loss: &'a dyn Loss,
    /// Edges of the bucket's chunk.
    pub edges: &'a Edges,
    /// Where uniform negatives are drawn from.
    pub negatives_from: NegativesFrom,
    /// Which pass.
    pub pass: PassId,
    /// Which bucket.
    pub bucket: Bucket,
    /// The run's seed.
    pub seed: u64,
    /// Held while a batch is trained, where a thread beside the workers changes parameters.
    pub gate: Option<&'a RwLock<()>>,
}

impl<'a> Work<'a> {
    /// The tables that edges of `relation` join.
    pub(crate) fn tables(&self, relation: u32) -> Result<Tables<'a>, RunError> {
        let side = |side| {
            let entity = self.blueprint.type_of(relation, side);
            let partition = self.blueprint.layout.partition(entity, side, self.bucket);
            (self.table)(entity, partition).ok_or_else(|| {
                let name = &self.blueprint.layout.types[entity].name;
                RunError::Step(StepError::Batch(format!(
                    "partition {partition} of {name} is not in memory"
                )))
            })
        };
        Ok(Tables {
            lhs: side(Side::Lhs)?,
            rhs: side(Side::Rhs)?,
        })
    }

    /// How many entities may replace the left side, and the right one.
    fn candidates(&self, tables: &Tables<'_>, relation: &RelationSpec) -> [usize; 2] {
        let [lhs, rhs] = [tables.lhs.entities(), tables.rhs.entities()];
        let both = relation.lhs == relation.rhs && !tables.shared();
        match self.negatives_from {
            NegativesFrom::Bucket if both => [lhs + rhs; 2],
            _ => [lhs, rhs],
        }
    }

    /// The coordinates of this bucket's random streams, with `last` to tell streams apart.
    pub(crate) fn stream(&self, purpose: Purpose, last: u64) -> Xoshiro256PlusPlus {
        seed::stream(self.seed, purpose, &self.coordinates(last))
    }

    fn coordinates(&self, last: u64) -> [u64; 6] {
        let PassId {
            epoch,
            edge_set,
            edge_chunk,
        } = self.pass;
        let Bucket { lhs, rhs } = self.bucket;
        let wide = u64::from;
        [
            wide(epoch),
            wide(edge_set),
            wide(edge_chunk),
            wide(lhs),
            wide(rhs),
            last,
        ]
    }
}

/// Columns of one batch, used again for the next.
#[derive(Debug, Default)]
pub(crate) struct Columns {
    edges: Edges,
}

impl Columns {
    /// Takes the edges at `indices`.
    pub(crate) fn fill(&mut self, from: &Edges, indices: &[u32]) {
        let copy = |into: &mut Vec<u32>, column: &[u32]| {
            into.clear();
            into.extend(indices.iter().map(|&i| column[i as usize]));
        };
        copy(&mut self.edges.lhs, &from.lhs);
        copy(&mut self.edges.rhs, &from.rhs);
        copy(&mut self.edges.rel, &from.rel);
        match &from.weight {
            Some(weight) => {
                let into = self.edges.weight.get_or_insert_default();
                into.clear();
                into.extend(indices.iter().map(|&i| weight[i as usize]));
            }
            None => self.edges.weight = None,
        }
    }

    /// The batch; `relation` when all edges have the same one.
    pub(crate) fn batch(&self, relation: Option<u32>) -> Batch<'_> {
        Batch {
            lhs: &self.edges.lhs,
            rhs: &self.edges.rhs,
            relation: relation.map_or(Relations::PerEdge(&self.edges.rel), Relations::One),
            weight: self.edges.weight.as_deref(),
        }
    }
}

/// What all workers did together.
#[derive(Clone, Copy, Debug, Default)]
pub struct BucketTotals {
    /// Sums over the trained edges.
    pub stats: TrainStats,
    /// Time that a worker spent asking the relation sampler, on average.
    pub sampler: Duration,
}

/// Trains the edges at `indices`, shared equally among `trainers`, one thread each, with one of `losses`; where the
/// model [shares batches](pbg_kernels::spec::ModelSpec::shares_batches), all train every batch together.
///
/// # Errors
/// The first failure of any worker; the others stop at their next batch.
///
/// # Panics
/// If there are fewer `losses` than `trainers`.
pub fn train(
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
    let together = match work.blueprint.spec.shares_batches() {
        true => trainers.len(),
        false => 1,
    };
    let teams = trainers.len().div_ceil(together.max(1));
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
                    result.map(|()| (trained.stats, trained.sampler))
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
                Ok(Ok((stats, sampler))) => {
                    total.stats.add(&stats);
                    total.sampler += sampler / workers;
                }
                Ok(Err(e)) => error = error.or(Some(e)),
                Err(_) => error = Some(RunError::WorkerPanic),
            }
        }
        error.map_or(Ok(total), Err)
    })
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
    draws: Draws,
    batches: usize,
    stats: TrainStats,
    /// Time spent asking the relation sampler.
    sampler: Duration,
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
            draws: Draws::default(),
            batches: 0,
            stats: TrainStats::default(),
            sampler: Duration::ZERO,
        }
    }

    fn train(
        &mut self,
        share: &[u32],
        samplers: &Samplers<'_>,
        batch_size: u32,
    ) -> Result<(), RunError> {
        if self.work.blueprint.spec.is_dynamic() {
            for indices in share.chunks(batch_size as usize) {
                if self.failed.load(Ordering::Relaxed) {
                    break;
                }
                self.step(indices, None)?;
            }
        } else if !share.is_empty() {
            self.train_by_relation(share, samplers, batch_size)?;
        }
        Ok(())
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
        let work = self.work;
        self.columns.fill(work.edges, indices);
        let batch = self.columns.batch(relation);
        let tables = work.tables(relation.unwrap_or(0))?;
        let spec = &work.blueprint.spec;
        let template = spec.relation(relation.unwrap_or(0));
        let candidates = work.candidates(&tables, template);
        self.draws
            .draw(spec, template, batch.len(), candidates, &mut self.rng);
        let gate = work.gate.map(RwLock::read);
        let job = Job {
            batch: &batch,
            tables: &tables,
            params: work.params,
            draws: &self.draws,
        };
        let stats = Executor::train_together(self.trainers, self.losses, &job)
            .map_err(|error| self.locate(error))?;
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
