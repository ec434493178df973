//! Settlements: what was trained becomes the ledger's, beside training.

use pbg_core::cluster::State;
use pbg_core::graph::Bucket;
use pbg_core::ledger::Action;

use super::Member;
use super::tables::Trained;
use crate::error::RunError;

impl Member<'_> {
    /// Begins to settle what is trained. Training may go on at once; a settlement before it is waited for.
    pub(super) fn begin_settling(&mut self) -> Result<(), RunError> {
        if self.unsettled.is_empty() {
            return Ok(());
        }
        self.ledger.begin_settlement();
        let trained = Trained {
            buckets: std::mem::take(&mut self.unsettled),
            sums: std::mem::take(&mut self.sums),
            loss: None,
            lines: self.take_lines()?,
        };
        self.machine.line.buffer.commit(trained)
    }

    /// Settles what is trained, and waits until the ledger has it.
    pub(super) fn settle_all(&mut self) -> Result<(), RunError> {
        let bucket = self.unsettled.last().copied();
        self.begin_settling()?;
        if self.machine.line.buffer.committing() {
            self.watch.says(State::Settling, bucket);
            self.machine.line.buffer.committed(true)?;
        }
        Ok(())
    }

    /// Tells others what was added to parameters. What cannot be told now is told later.
    pub(super) fn exchange_parameters(&self) {
        if let Some(parameters) = &self.parameters {
            parameters.round();
        }
    }

    /// Gives back what was leased and is not trained.
    pub(super) fn give_up(&mut self) -> Result<(), RunError> {
        let buckets: Vec<Bucket> = self.leased.drain(..).map(|a| a.bucket).collect();
        match buckets.is_empty() {
            true => Ok(()),
            false => self.submit(Action::GiveUp(buckets)).map(|_| ()),
        }
    }
}
