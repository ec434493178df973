//! Batches that the host prepares while a device trains the ones before: a group of the pipeline, whose thread lives
//! as long as a bucket.

use std::slice::Chunks;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;
use std::time::Instant;

use pbg_core::batch_graph::pipeline::PLANNING;
use pbg_kernels::device::{BatchPlanner, PlannedBatch};
use pbg_kernels::negatives::NegativeDraws;
use pbg_kernels::step::{BatchJob, StepError};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::error::RunError;
use crate::groups::Clock;
use crate::work::{Columns, Work};

/// Who plans batches, and how many may be ready before they are trained.
#[derive(Debug)]
pub struct Planning {
    planner: Box<dyn BatchPlanner>,
    ahead: usize,
    clock: Arc<Clock>,
}

/// A batch that is ready to be trained.
pub(crate) struct PreparedBatch {
    pub(crate) columns: Columns,
    pub(crate) draws: NegativeDraws,
    /// How the device goes about it.
    pub(crate) plan: Result<PlannedBatch, StepError>,
}

/// The batches that a bucket's thread prepares, in order.
pub(crate) struct PreparedBatches {
    ready: Receiver<PreparedBatch>,
    used: SyncSender<(Columns, NegativeDraws)>,
}

impl PreparedBatches {
    /// The next one, waited for.
    pub(crate) fn next(&self) -> Option<PreparedBatch> {
        self.ready.recv().ok()
    }

    /// Gives back memory for batches to come.
    pub(crate) fn give_back(&self, columns: Columns, draws: NegativeDraws) {
        // Where there is no batch to come, there is nobody who takes it.
        let _kept = self.used.try_send((columns, draws));
    }
}

impl Planning {
    /// At most `ahead` batches wait; the group's time goes to `clock`.
    pub(crate) fn new(planner: Box<dyn BatchPlanner>, ahead: usize, clock: Arc<Clock>) -> Self {
        Self {
            planner,
            ahead,
            clock,
        }
    }

    /// Prepares `batches` of a bucket's edges on a thread of its own while `train` takes them; `rng` draws negatives.
    ///
    /// # Errors
    /// Those of `train`, and when the system gives no thread.
    pub(crate) fn ahead(
        &mut self,
        work: &Work<'_>,
        batches: Chunks<'_, u32>,
        rng: Xoshiro256PlusPlus,
        train: &mut dyn FnMut(&PreparedBatches) -> Result<(), RunError>,
    ) -> Result<(), RunError> {
        let (report, ready) = sync_channel(self.ahead);
        // All that is not being trained or prepared.
        let (used, spare) = sync_channel(self.ahead + 2);
        thread::scope(|scope| {
            let prepare = move || self.prepare(work, batches, rng, (report, spare));
            let named = thread::Builder::new().name(PLANNING.to_owned());
            let planning = named
                .spawn_scoped(scope, prepare)
                .map_err(|e| RunError::Thread(e.to_string()))?;
            let batches = PreparedBatches { ready, used };
            let trained = train(&batches);
            // Ends the thread, if training ended early.
            drop(batches);
            let planned = planning.join().unwrap_or(Err(RunError::WorkerPanic));
            trained.and(planned)
        })
    }

    /// What the group's thread does: it ends when training takes no more.
    fn prepare(
        &mut self,
        work: &Work<'_>,
        batches: Chunks<'_, u32>,
        mut rng: Xoshiro256PlusPlus,
        (report, spare): (
            SyncSender<PreparedBatch>,
            Receiver<(Columns, NegativeDraws)>,
        ),
    ) -> Result<(), RunError> {
        let tables = work.tables(0)?;
        for indices in batches {
            let started = Instant::now();
            let (mut columns, mut draws) = spare.try_recv().unwrap_or_default();
            work.prepare(indices, None, &mut columns, &mut draws, &mut rng)?;
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
