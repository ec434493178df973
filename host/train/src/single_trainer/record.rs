//! The records of a single trainer's run: events, sums of an epoch, and preserved copies of checkpoints.

use pbg_core::event::{DiskIo, Event};
use pbg_core::schedule::LeasedBucket;
use pbg_dataset::EdgeSet;
use pbg_model::compatibility::AcceptedDifferences;
use pbg_model::error::RunError;
use pbg_model::memory;
use pbg_model::trained::UntrainedNames;

use super::SingleTrainer;
use crate::bucket_trainer::BucketResult;
use crate::commit_pacer::CommitReason;

impl SingleTrainer<'_> {
    /// Appends an event to `metrics.jsonl` and emits it.
    pub(super) fn report(&mut self, event: Event) -> Result<(), RunError> {
        self.checkpoint().append_metrics(&event)?;
        self.machine.emit(event);
        Ok(())
    }

    /// Reports each of the events.
    pub(super) fn report_all(&mut self, events: Vec<Event>) -> Result<(), RunError> {
        events.into_iter().try_for_each(|event| self.report(event))
    }

    pub(super) fn announce(&mut self) {
        self.machine.emit(Event::RunStarted {
            epochs: self.machine.extent.epochs,
            passes_per_epoch: self.machine.extent.edge_sets * self.machine.extent.edge_chunks,
            buckets: self.machine.blueprint().layout.buckets(),
            edges_per_epoch: self.machine.edge_sets.iter().map(EdgeSet::len).sum(),
            workers: self.machine.workers() as u32,
            resumed: self.resumed,
        });
    }

    /// Reports the differences from the earlier run and commits, so that they are reported only once.
    pub(super) fn announce_changes(&mut self) -> Result<(), RunError> {
        let AcceptedDifferences {
            earlier, changes, ..
        } = std::mem::take(&mut self.admitted);
        for event in std::mem::take(&mut self.vectors) {
            self.report(event)?;
        }
        let drawn = std::mem::take(&mut self.initialized);
        if !drawn.is_empty() {
            let UntrainedNames { rows, relations } = drawn;
            self.report(Event::Grown { rows, relations })?;
        }
        if !changes.is_empty() {
            let changes = changes.clone();
            self.report(Event::DataChanged { changes })?;
        }
        if earlier.is_some() || !changes.is_empty() {
            self.commit()?;
        }
        Ok(())
    }

    /// Adds a trained bucket to the sums and reports it.
    pub(super) fn record(
        &mut self,
        LeasedBucket { bucket, position }: LeasedBucket,
        trained: &BucketResult,
    ) -> Result<(), RunError> {
        let event = Event::BucketFinished {
            pass: self.schedule.pass(),
            bucket,
            position: position as u64,
            index: self.state.index,
            stats: trained.stats,
            eval_before: trained.eval_before,
            eval_after: trained.eval_after,
            seconds: trained.seconds,
            io: trained.io,
            leased_seconds: None,
            lr: self.machine.scheduled_lr(self.schedule.pass()),
        };
        let epoch = &mut self.state.epoch;
        epoch.stats.add(&trained.stats);
        epoch.io.add(&trained.io);
        epoch.seconds += trained.seconds + trained.io.waited();
        epoch.calls.sampler += trained.sampler.as_secs_f64();
        if let Some(eval) = &trained.eval_before {
            epoch.eval_before = epoch.eval_before.merge(eval);
        }
        self.state.index += 1;
        self.report(event)
    }

    /// Moves on to the next pass. After the last pass of an epoch, reports its sums and commits.
    pub(super) fn finish_schedule(&mut self) -> Result<(), RunError> {
        let epoch = self.schedule.pass().epoch;
        self.schedule.advance(self.machine.extent);
        if self.schedule.pass().epoch == epoch {
            return Ok(());
        }
        let sums = std::mem::take(&mut self.state.epoch);
        let groups = self.machine.pipeline.seconds();
        let disk = self.disk_of_epoch();
        (self.disk_reported, self.disk_before) = (self.disk(), DiskIo::default());
        let event = Event::EpochFinished {
            groups,
            epoch,
            stats: sums.stats,
            eval_before: (sums.eval_before.count > 0).then_some(sums.eval_before),
            seconds: sums.seconds,
            calls: sums.calls,
            io: sums.io,
            disk: Some(disk),
            peak_bytes: memory::peak_bytes(),
        };
        self.report(event)?;
        // The bytes of this commit belong to no epoch unless this process trains another one.
        self.begin_commit(CommitReason::End)?;
        if self.preserves(epoch + 1) {
            self.finish_commit()?;
            self.preserve(epoch + 1)?;
        }
        Ok(())
    }

    /// Whether the version committed after `epochs` epochs is preserved.
    fn preserves(&self, epochs: u32) -> bool {
        let interval = self.machine.config().checkpoint_preservation_interval;
        epochs > 0 && interval.is_some_and(|n| epochs.is_multiple_of(n))
    }

    /// Preserves the version of the last epoch's end if the run was stopped after that commit and before the version
    /// was preserved.
    pub(super) fn preserve_missed_epoch(&mut self) -> Result<(), RunError> {
        let pass = self.schedule.pass();
        let at_start = self.schedule.needs_plan() && (pass.edge_set, pass.edge_chunk) == (0, 0);
        if self.resumed.is_some()
            && at_start
            && self.preserves(pass.epoch)
            && !self.checkpoint().has_preserved(pass.epoch)
        {
            self.preserve(pass.epoch)?;
        }
        Ok(())
    }

    fn preserve(&mut self, epochs: u32) -> Result<(), RunError> {
        self.checkpoint().preserve(epochs)?;
        self.machine.emit(Event::Preserved { epoch: epochs });
        Ok(())
    }
}
