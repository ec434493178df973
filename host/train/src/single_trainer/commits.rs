//! Commits of a single trainer: begun when they are due, finished in parallel with training.

use std::time::Duration;

use pbg_core::event::Event;
use pbg_core::strategy::Loss as _;
use pbg_model::error::RunError;

use super::SingleTrainer;
use crate::buffer::CommittedVersion;
use crate::commit_pacer::CommitReason;

impl SingleTrainer<'_> {
    /// Reports a commit that has finished, and begins a new one if one is due. After the last bucket of an epoch, none
    /// begins here, since the end of an epoch always commits.
    pub(super) fn commit_if_due(&mut self) -> Result<(), RunError> {
        if let Some(committed) = self.machine.pipeline.buffer.committed(false)? {
            self.report_commit(committed)?;
        }
        if !self.schedule.epoch_is_done(self.machine.extent)
            && self.pace.due(self.machine.pipeline.buffer.committing())
        {
            self.keep_bytes_of_epoch();
            self.begin_commit(CommitReason::Due)?;
        }
        Ok(())
    }

    /// Begins a commit of everything trained so far, after waiting for an earlier one. Training may go on at once.
    pub(super) fn begin_commit(&mut self, occasion: CommitReason) -> Result<(), RunError> {
        self.finish_commit()?;
        let started = pbg_clock::now();
        self.state.schedule = self.schedule.clone();
        self.state.resident = self.machine.pipeline.buffer.resident();
        self.state.changed = self.machine.pipeline.buffer.changed();
        self.state.loss = self.machine.strategies.loss.state();
        self.machine.settle_parameters()?;
        let covered = self.checkpoint().metrics_length();
        let cut = self
            .commits
            .content(covered, &self.machine.params, &self.state)?;
        self.machine.pipeline.buffer.commit(cut)?;
        let stood = started.elapsed();
        self.pace.begun(stood, occasion);
        self.count_commit(stood);
        Ok(())
    }

    /// Waits for the end of the commit under way, if any. Returns the version that is current afterwards.
    pub(super) fn finish_commit(&mut self) -> Result<u64, RunError> {
        let started = pbg_clock::now();
        if let Some(committed) = self.machine.pipeline.buffer.committed(true)? {
            let stood = started.elapsed();
            self.pace.stood(stood);
            self.count_commit(stood);
            self.report_commit(committed)?;
        }
        Ok(self.checkpoint().version())
    }

    /// Commits everything trained so far and waits until it is on disk.
    pub(super) fn commit(&mut self) -> Result<u64, RunError> {
        self.keep_bytes_of_epoch();
        self.begin_commit(CommitReason::End)?;
        self.finish_commit()
    }

    /// Makes the bytes of the current epoch a part of the next commit, so that a run that resumes from it continues to
    /// count. The tables of the commit are included.
    fn keep_bytes_of_epoch(&mut self) {
        let mut disk = self.disk_of_epoch();
        disk.stored.committed += self.machine.pipeline.buffer.uncommitted_bytes();
        self.state.epoch.disk = disk;
    }

    fn report_commit(&mut self, committed: CommittedVersion) -> Result<(), RunError> {
        let stood = self.pace.finished(committed.processor);
        self.report(Event::Committed {
            version: committed.version,
            seconds: stood.as_secs_f64(),
            writing_seconds: committed.writing.as_secs_f64(),
        })
    }

    /// Adds time for which training stood still because of a commit to the sums.
    fn count_commit(&mut self, stood: Duration) {
        let seconds = stood.as_secs_f64();
        let epoch = &mut self.state.epoch;
        epoch.seconds += seconds;
        epoch.io.commit_seconds += seconds;
        self.totals.1.commit_seconds += seconds;
    }
}
