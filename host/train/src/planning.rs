//! Batches that the host plans while a device trains earlier ones: a group of the pipeline with two threads, which live
//! as long as a bucket. One thread draws negatives and one plans, since each of these takes as long as a GPU's work on
//! a small model.

use std::slice::Chunks;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use pbg_core::batch_graph::pipeline::PLANNING;
use pbg_kernels::device::{BatchPlanner, DevicePlan};
use pbg_kernels::negatives::NegativeDraws;
use pbg_kernels::step::{BatchJob, StepError};
use pbg_model::crew::panicked;
use pbg_model::error::RunError;

use crate::bucket_inputs::{BatchColumns, BucketInputs, NegativeSource};
use crate::stage_threads::StageClock;

/// Planner of batches, and the number of batches that it may plan ahead.
#[derive(Debug)]
pub struct BatchPrefetcher {
    planner: Box<dyn BatchPlanner>,
    ahead: usize,
    clock: Arc<StageClock>,
}

/// Batch whose negatives are drawn, or the memory of one for reuse.
type DrawnBatch = (BatchColumns, NegativeDraws);

/// Batch that is ready to be trained.
pub(crate) struct PreparedBatch {
    pub(crate) columns: BatchColumns,
    pub(crate) draws: NegativeDraws,
    /// Plan of the device for the batch.
    pub(crate) plan: Result<DevicePlan, StepError>,
}

/// Batches of a bucket, as its threads prepare them, in order.
pub(crate) struct PreparedBatches {
    ready: Receiver<PreparedBatch>,
    used: SyncSender<DrawnBatch>,
}

impl PreparedBatches {
    /// Waits for the next batch. Returns `None` after the last.
    pub(crate) fn next(&self) -> Option<PreparedBatch> {
        self.ready.recv().ok()
    }

    /// Gives back the memory of a trained batch for reuse.
    pub(crate) fn give_back(&self, columns: BatchColumns, draws: NegativeDraws) {
        // After the last batch, no thread takes the memory.
        let _kept = self.used.try_send((columns, draws));
    }
}

impl BatchPrefetcher {
    /// Creates a planner with at most `ahead` waiting batches. `clock` measures the group's time.
    pub(crate) fn new(
        planner: Box<dyn BatchPlanner>,
        ahead: usize,
        clock: Arc<StageClock>,
    ) -> Self {
        Self {
            planner,
            ahead,
            clock,
        }
    }

    /// Prepares `batches` of a bucket's edges on two threads while `train` takes them. `negatives` is the source of their negatives.
    ///
    /// # Errors
    /// Errors of `train`, and when the system cannot start the threads.
    pub(crate) fn ahead(
        &mut self,
        work: &BucketInputs<'_>,
        batches: Chunks<'_, u32>,
        negatives: NegativeSource<'_>,
        train: &mut dyn FnMut(&PreparedBatches) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        let (report, ready) = sync_channel(self.ahead);
        // Room for all batches that are not being trained, planned or drawn.
        let (used, spare) = sync_channel(self.ahead + 4);
        let (drawn, to_plan) = sync_channel(1);
        let clock = Arc::clone(&self.clock);
        thread::scope(|scope| {
            let failed = |e: std::io::Error| RunError::Thread(e.to_string());
            let named = || thread::Builder::new().name(PLANNING.to_owned());
            let draw = move || draw(work, batches, negatives, &clock, drawn, spare);
            let drawing = named().spawn_scoped(scope, draw).map_err(failed)?;
            let plan = move || self.plan(work, &to_plan, &report);
            let planning = named().spawn_scoped(scope, plan).map_err(failed)?;
            let batches = PreparedBatches { ready, used };
            let trained = train(&batches);
            // Ends the threads if training ended early.
            drop(batches);
            let joined = [planning.join(), drawing.join()];
            let ended = joined.map(|ended| ended.unwrap_or_else(|panic| Err(panicked(&*panic))));
            let [planned, drawn] = ended;
            trained.and(planned).and(drawn)
        })
    }

    /// Runs the second thread, which plans batches until training takes no more.
    fn plan(
        &mut self,
        work: &BucketInputs<'_>,
        drawn: &Receiver<DrawnBatch>,
        report: &SyncSender<PreparedBatch>,
    ) -> Result<(), RunError> {
        let tables = work.tables(0)?;
        while let Ok((columns, draws)) = self.clock.waits_for_input(|| drawn.recv()) {
            let started = pbg_clock::now();
            let plan = self.planner.plan(&BatchJob {
                batch: &columns.batch(None),
                tables: &tables,
                params: work.params,
                draws: &draws,
            });
            self.clock.worked(started.elapsed());
            let prepared = PreparedBatch {
                columns,
                draws,
                plan,
            };
            let taken = self
                .clock
                .waits_for_output(|| report.send(prepared).is_ok());
            if !taken {
                break;
            }
        }
        Ok(())
    }
}

/// Runs the first thread, which collects the edges of batches and chooses their negatives until no thread plans them any
/// more.
fn draw(
    work: &BucketInputs<'_>,
    batches: Chunks<'_, u32>,
    mut negatives: NegativeSource<'_>,
    clock: &StageClock,
    drawn: SyncSender<DrawnBatch>,
    spare: Receiver<DrawnBatch>,
) -> Result<(), RunError> {
    for indices in batches {
        let started = pbg_clock::now();
        let (mut columns, mut draws) = spare.try_recv().unwrap_or_default();
        work.prepare(indices, None, &mut columns, &mut draws, &mut negatives)?;
        clock.worked(started.elapsed());
        if drawn.send((columns, draws)).is_err() {
            break;
        }
    }
    Ok(())
}
