//! Hogwild workers: threads that train equal shares of a bucket on shared rows without waiting for each other (Niu,
//! Recht, Ré, Wright 2011). Where each batch changes every row, all workers train every batch together.

use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

use pbg_core::batching;
use pbg_core::event::{Event, TrainStats};
use pbg_core::strategy::LossWorker;
use pbg_model::crew::{self, Crew};
use pbg_model::error::{CheckpointMismatch, RunError};
use pbg_model::resume_point::{BatchRange, ShareProgress};
use pbg_rows::spec::ModelSpec;
use share::WorkerShare;

use crate::bucket_inputs::BucketInputs;
use crate::draws::Samplers;
use crate::executor::Executor;
mod share;

/// Interval of progress reports within a bucket.
const PROGRESS: Duration = Duration::from_millis(200);

/// Description of a bucket's training: its edges, its batches, and the range to train.
pub(crate) struct BucketTraining<'a> {
    /// The bucket.
    pub(crate) work: &'a BucketInputs<'a>,
    /// Indices of its edges that are trained, in order.
    pub(crate) indices: &'a [u32],
    /// Largest number of edges in a batch.
    pub(crate) batch_size: u32,
    /// Samplers of relations.
    pub(crate) samplers: &'a Samplers<'a>,
    /// Range of batches to train.
    pub(crate) span: &'a BatchRange<'a>,
    /// Checkpoint that training goes on from, for error messages.
    pub(crate) checkpoint: &'a Path,
}

/// Totals of all workers for a bucket.
#[derive(Debug, Default)]
pub(crate) struct BucketTotals {
    /// Sums over the edges that they trained.
    pub(crate) stats: TrainStats,
    /// Time that a worker spent on calls of the relation sampler, on average.
    pub(crate) sampler: Duration,
    /// Time that a worker waited for batches that a separate group plans, on average.
    pub(crate) waited: Duration,
    /// Progress of each share, if any share is incomplete.
    pub(crate) left: Option<Vec<ShareProgress>>,
}

/// Edges of one worker, or of a team that trains every batch together, with their progress.
type ShareEdges<'a> = (&'a [u32], ShareProgress);

impl<'a> BucketTraining<'a> {
    /// Returns the edges, cut as they were when the bucket began: one share for each of `teams`, unless the bucket was
    /// interrupted before.
    fn parts(&self, teams: usize) -> Result<Vec<ShareEdges<'a>>, RunError> {
        let shares = self.span.shares(teams);
        let ranges = batching::shares(self.indices.len(), shares.len());
        let parts = ranges.map(|range| &self.indices[range]).zip(shares);
        let remembers = !self.work.blueprint.spec.is_dynamic();
        let check = |(edges, share): ShareEdges<'a>| {
            let draws = share.draws.len() as u64;
            let forgotten = remembers && !share.done && draws != share.batches;
            match forgotten || share.batches > edges.len() as u64 {
                true => {
                    Err(self.damaged("the trained batches recorded for its bucket do not match"))
                }
                false => Ok((edges, share)),
            }
        };
        parts.map(check).collect()
    }

    /// Returns the error that the checkpoint's state of the bucket is invalid.
    fn damaged(&self, what: impl ToString) -> RunError {
        CheckpointMismatch::position(self.checkpoint, what).into()
    }
}

/// Trains the edges of `course`, shared equally among `trainers`, with one thread and one of `losses` each. Where the
/// model [shares batches](pbg_rows::spec::ModelSpec::shares_batches), all threads train every batch together. The
/// shares of a resumed bucket stay as they were cut: if there are more shares than threads, some threads train several,
/// one after the other.
///
/// # Errors
/// The first failure of any worker. The other workers stop at their next batch.
///
/// # Panics
/// If there are fewer `losses` than `trainers`.
pub(crate) fn train(
    trainers: &mut [Executor],
    losses: &mut [Box<dyn LossWorker>],
    course: &BucketTraining<'_>,
    emit: &mut dyn FnMut(Event),
) -> Result<BucketTotals, RunError> {
    assert!(trainers.len() <= losses.len(), "a loss for each trainer");
    let together = match course.work.blueprint.spec.shares_batches() {
        true => trainers.len().max(1),
        false => 1,
    };
    let threads = trainers.len().div_ceil(together);
    let parts = course.parts(threads)?;
    let hall = ShareQueue {
        course,
        parts: &parts,
        next: AtomicUsize::new(threads),
    };
    // Room for one report of each worker. A full channel only delays the next report.
    let (reports, inbox) = sync_channel::<TrainStats>(trainers.len());
    let teams = trainers.chunks_mut(together);
    let teams = teams.zip(losses.chunks_mut(together)).enumerate();
    let jobs: Vec<_> = teams
        .map(|(thread, (trainers, losses))| {
            let (hall, reports) = (&hall, reports.clone());
            move |crew: &Crew| hall.train(thread, trainers, losses, &reports, crew)
        })
        .collect();
    drop(reports);
    let done = crew::run_jobs(jobs, || {
        forward_progress(&inbox, course.span.trained(), emit);
    })?;
    let mut total = BucketTotals::default();
    let mut shares: Vec<ShareProgress> = parts.into_iter().map(|(_, share)| share).collect();
    for done in done {
        total.stats.add(&done.stats);
        total.sampler += done.sampler / threads as u32;
        total.waited += done.waited / threads as u32;
        for (index, share) in done.shares {
            shares[index] = share;
        }
    }
    total.left = shares.iter().any(|share| !share.done).then_some(shares);
    Ok(total)
}

/// Returns the number of shares that `trainers` cut a bucket into: one each, or a single one where all of them train
/// every batch together.
pub(crate) fn shares(spec: &ModelSpec, trainers: usize) -> usize {
    match spec.shares_batches() {
        true => trainers.min(1),
        false => trainers,
    }
}

/// Queue of a bucket's shares, from which the threads take their work.
struct ShareQueue<'a, 'c> {
    course: &'a BucketTraining<'c>,
    parts: &'a [ShareEdges<'c>],
    /// Index of the next share that no thread has taken.
    next: AtomicUsize,
}

/// Results of one thread.
#[derive(Default)]
struct ThreadTotals {
    stats: TrainStats,
    sampler: Duration,
    waited: Duration,
    /// The thread's shares and their progress, by share number.
    shares: Vec<(usize, ShareProgress)>,
}

impl ShareQueue<'_, '_> {
    /// Runs thread `thread`: trains the share of the same number, then shares that no thread has taken.
    fn train(
        &self,
        thread: usize,
        trainers: &mut [Executor],
        losses: &mut [Box<dyn LossWorker>],
        reports: &SyncSender<TrainStats>,
        crew: &Crew,
    ) -> Result<ThreadTotals, RunError> {
        let mut done = ThreadTotals::default();
        let mut index = thread;
        while let Some((edges, share)) = self.parts.get(index) {
            if !share.done {
                let mut work =
                    WorkerShare::new(self, crew, trainers, losses, index, share, reports);
                work.train(edges)?;
                done.stats.add(&work.stats);
                done.sampler += work.sampler;
                done.waited += work.waited;
                done.shares.push((index, work.share));
            }
            if crew.has_failed() || self.course.span.is_interrupted() {
                break;
            }
            index = self.next.fetch_add(1, Ordering::Relaxed);
        }
        Ok(done)
    }
}

/// Adds up the workers' reports and emits progress events until all workers are done. `before` is the sum over the
/// batches that were trained before this call.
fn forward_progress(inbox: &Receiver<TrainStats>, before: TrainStats, emit: &mut dyn FnMut(Event)) {
    let mut sum = before;
    let mut reported = pbg_clock::now();
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
            reported = pbg_clock::now();
        }
    }
}
