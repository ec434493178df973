//! Commits: begun when they are due, and brought to their end beside training.

use std::time::{Duration, Instant};

use pbg_core::event::Event;
use pbg_core::strategy::Loss as _;

use super::Alone;
use crate::buffer::Committed;
use crate::error::RunError;
use crate::pace::Occasion;

impl Alone<'_> {
    /// Begins a commit if one is due; says so if one has come to its end. Behind the last bucket of an epoch
    /// there is one in any case.
    pub(super) fn commit_if_due(&mut self) -> Result<(), RunError> {
        if let Some(committed) = self.machine.line.buffer.committed(false)? {
            self.report_commit(committed)?;
        }
        if !self.schedule.epoch_is_done(self.machine.extent)
            && self.pace.due(self.machine.line.buffer.committing())
        {
            self.begin_commit(Occasion::Due)?;
        }
        Ok(())
    }

    /// Begins a commit of what was trained so far. Training may go on at once; an earlier commit is waited for.
    pub(super) fn begin_commit(&mut self, occasion: Occasion) -> Result<(), RunError> {
        self.finish_commit()?;
        let started = Instant::now();
        self.state.schedule = self.schedule.clone();
        self.state.resident = self.machine.line.buffer.resident();
        self.state.changed = self.machine.line.buffer.changed();
        self.state.loss = self.machine.strategies.loss.state();
        self.machine.settle_parameters()?;
        let covered = self.machine.line.buffer.store().checkpoint.metrics_length();
        let cut = self
            .commits
            .cut(covered, &self.machine.params, &self.state)?;
        self.machine.line.buffer.commit(cut)?;
        let stood = started.elapsed();
        self.pace.begun(stood, occasion);
        self.count_commit(stood);
        Ok(())
    }

    /// Waits for the end of the commit under way, if there is one. Gives the version that is current then.
    pub(super) fn finish_commit(&mut self) -> Result<u64, RunError> {
        let started = Instant::now();
        if let Some(committed) = self.machine.line.buffer.committed(true)? {
            let stood = started.elapsed();
            self.pace.stood(stood);
            self.count_commit(stood);
            self.report_commit(committed)?;
        }
        Ok(self.machine.line.buffer.store().checkpoint.version())
    }

    /// Commits what was trained so far, and waits until it is on the disk.
    pub(super) fn commit(&mut self) -> Result<u64, RunError> {
        self.begin_commit(Occasion::End)?;
        self.finish_commit()
    }

    fn report_commit(&mut self, committed: Committed) -> Result<(), RunError> {
        let stood = self.pace.finished(committed.processor);
        self.report(Event::Committed {
            version: committed.version,
            seconds: stood.as_secs_f64(),
            writing_seconds: committed.writing.as_secs_f64(),
        })
    }

    /// Adds time that training stood still for a commit to the sums.
    fn count_commit(&mut self, stood: Duration) {
        let seconds = stood.as_secs_f64();
        let epoch = &mut self.state.epoch;
        epoch.seconds += seconds;
        epoch.io.commit_seconds += seconds;
        self.totals.1.commit_seconds += seconds;
    }
}
