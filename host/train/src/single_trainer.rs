//! The coordinator of a single trainer: the next bucket is the next one of the plan, and the checkpoint folder is used
//! by this process alone.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use pbg_checkpoint::Checkpoint;
use pbg_core::event::{DiskIo, Event, PartitionIo, Resumed};
use pbg_core::graph::Bucket;
use pbg_core::plan::Belady;
use pbg_core::schedule::{LeasedBucket, PassId, Schedule};
use pbg_core::strategy::Pass;
use pbg_model::compatibility::AcceptedDifferences;
use pbg_model::error::{ErrorKind, RunError};
use pbg_model::process_io;
use pbg_model::resume_point::{BatchRange, InterruptedBucket, ShareProgress, stops_within_buckets};
use pbg_model::state::RunState;
use pbg_model::trained::UntrainedNames;

use crate::bucket_trainer::{BucketResult, BucketTrainer};
use crate::commit_metadata::CommitMetadata;
use crate::commit_pacer::CommitPacer;
use crate::coordinator::{Coordinator, RunOutcome};
use crate::disk_tables::DiskTables;

mod commits;
mod open;
mod record;
mod validation;

/// Run of a single trainer.
pub(crate) struct SingleTrainer<'a> {
    machine: BucketTrainer<'a, DiskTables>,
    schedule: Schedule,
    /// Decides when a commit is due.
    pace: CommitPacer,
    state: RunState,
    commits: CommitMetadata,
    resumed: Option<Resumed>,
    /// Differences between this run and the committed checkpoint that the user allowed.
    admitted: AcceptedDifferences,
    /// Rows and relations of the dataset that the checkpoint lacked; they are initialized at random.
    initialized: UntrainedNames,
    /// Reports on the vectors from files.
    vectors: Vec<Event>,
    /// Number of edges trained and traffic, of this process.
    totals: (u64, PartitionIo),
    /// Bytes written and read in fact when the process began the run, and at the last report of an epoch.
    disk_at_start: DiskIo,
    disk_reported: DiskIo,
    /// Bytes that earlier processes wrote and read in fact in the epoch with which the run resumed; empty after its end.
    disk_before: DiskIo,
    started: Instant,
}

impl SingleTrainer<'_> {
    /// Trainer number of the only trainer.
    const ME: u32 = 0;

    /// Returns the checkpoint folder of the run.
    fn checkpoint(&self) -> &Checkpoint {
        &self.machine.pipeline.buffer.store().checkpoint
    }

    /// Returns the current pass after making sure that it has a plan: the checkpoint's, or a new one of the bucket
    /// order.
    fn plan(&mut self) -> Result<(PassId, Arc<Pass>), RunError> {
        let id = self.schedule.pass();
        let pass = self.machine.pass(id);
        if self.schedule.needs_plan() {
            let mut faults = Vec::new();
            let planned = self.machine.plan(&pass, &mut faults);
            self.report_all(faults)?;
            let planned = planned?;
            self.state.epoch.calls.order += planned.seconds;
            self.state.epoch.seconds += planned.seconds;
            self.report(Event::PassPlanned {
                pass: id,
                order: planned.order,
                buckets: planned.plan.len() as u64,
                cost: planned.cost,
            })?;
            self.schedule.set_plan(planned.plan);
        }
        let (pass, plan) = (Arc::new(pass), self.schedule.plan().to_vec());
        let eviction = Belady::new(&pass, &plan);
        let buffer = &mut self.machine.pipeline.buffer;
        buffer.begin_pass(Arc::clone(&pass), plan, Box::new(eviction));
        Ok((id, pass))
    }

    /// Returns the bytes written and read in fact so far.
    fn disk(&self) -> DiskIo {
        DiskIo {
            stored: self.machine.pipeline.buffer.stored(),
            process: process_io::so_far(),
        }
    }

    /// Returns the bytes written and read in fact in the current epoch so far.
    fn disk_of_epoch(&self) -> DiskIo {
        let mut disk = self.disk().since(&self.disk_reported);
        disk.add(&self.disk_before);
        disk
    }

    fn is_over(&self) -> bool {
        self.schedule.finished(self.machine.extent) || self.ends_early()
    }

    fn interrupted(&mut self) -> Result<RunOutcome, RunError> {
        let version = self.commit()?;
        self.machine.emit(Event::Interrupted { version });
        Ok(RunOutcome::Interrupted { version })
    }

    /// Interrupts a bucket whose shares are trained as far as `shares` says.
    fn interrupt_bucket(
        &mut self,
        LeasedBucket { bucket, .. }: LeasedBucket,
        shares: Vec<ShareProgress>,
        trained: &BucketResult,
    ) -> Result<RunOutcome, RunError> {
        self.state.within = Some(InterruptedBucket {
            bucket,
            shares,
            sums: trained.sums(),
        });
        self.report_faults(trained)?;
        self.interrupted()
    }

    /// Reports the fallbacks that replaced strategies which failed while the bucket was trained.
    fn report_faults(&mut self, trained: &BucketResult) -> Result<(), RunError> {
        let faults = self.machine.replace_sampler(&trained.faults)?;
        self.report_all(faults)?;
        let faults = self.machine.replace_selector()?;
        self.report_all(faults)?;
        let faults = self.machine.loss_faults();
        self.report_all(faults)
    }

    fn finished(&mut self) -> Result<RunOutcome, RunError> {
        self.announce_early_end();
        let mut version = self.finish_commit()?;
        if version == 0 {
            // No epoch was to be trained. The initial model is committed as well, for comparisons.
            version = self.commit()?;
        }
        let (edges, io) = self.totals;
        let stages = self.machine.stages();
        self.machine.emit(Event::RunFinished {
            edges,
            seconds: self.started.elapsed().as_secs_f64(),
            io,
            disk: Some(self.disk().since(&self.disk_at_start)),
            stages,
            version,
        });
        Ok(RunOutcome::Finished { version })
    }
}

impl<'a> Coordinator<'a> for SingleTrainer<'a> {
    type Store = DiskTables;

    fn machine(&mut self) -> &mut BucketTrainer<'a, DiskTables> {
        &mut self.machine
    }

    fn begin(&mut self) -> Result<(), RunError> {
        self.announce();
        self.announce_changes()?;
        self.preserve_missed_epoch()?;
        self.validate()
    }

    fn begin_pass(&mut self) -> Result<ControlFlow<RunOutcome, (PassId, Arc<Pass>)>, RunError> {
        if self.is_over() {
            return self.finished().map(ControlFlow::Break);
        }
        match self.plan() {
            // Nothing of the pass is trained yet, so the current state can be committed.
            Err(error) if error.kind() == ErrorKind::Interrupted => {
                self.interrupted().map(ControlFlow::Break)
            }
            other => other.map(ControlFlow::Continue),
        }
    }

    fn next(&mut self, pass: &Pass) -> Result<Option<LeasedBucket>, RunError> {
        Ok(self.schedule.acquire(Self::ME, pass))
    }

    fn upcoming(&self, acquired: LeasedBucket) -> Vec<Bucket> {
        self.schedule.plan()[acquired.position + 1..].to_vec()
    }

    fn batch_range<'s>(&self, stop: &'s AtomicBool) -> BatchRange<'s> {
        BatchRange {
            from: self.state.within.clone(),
            stop: stops_within_buckets(self.machine.config()).then_some(stop),
        }
    }

    fn settle(
        &mut self,
        acquired: LeasedBucket,
        mut trained: BucketResult,
        stop: bool,
    ) -> Result<Option<RunOutcome>, RunError> {
        let stood = Duration::from_secs_f64(trained.io.commit_seconds);
        self.pace.stood(stood);
        self.totals.0 += trained.stats.count;
        self.totals.1.add(&trained.io);
        if let Some(within) = self.state.within.take() {
            trained.add_earlier(&within.sums);
        }
        if let Some(shares) = trained.left.take() {
            return self.interrupt_bucket(acquired, shares, &trained).map(Some);
        }
        self.schedule.complete(Self::ME, acquired.position)?;
        self.record(acquired, &trained)?;
        self.report_faults(&trained)?;
        if stop {
            return self.interrupted().map(Some);
        }
        self.commit_if_due()?;
        Ok(None)
    }

    fn finish_pass(&mut self) -> Result<(), RunError> {
        self.finish_schedule()?;
        self.validate()
    }
}
