//! Settlements: what was trained becomes the ledger's, beside training.

use std::time::Duration;

use pbg_core::cluster::State;
use pbg_core::graph::Bucket;
use pbg_core::ledger::Action;

use super::Member;
use super::parameters::Parameters;
use super::tables::Trained;
use crate::error::RunError;

/// How long an exchange is waited for that others would not miss.
const TELL_WITHIN: Duration = Duration::from_secs(5);

impl Member<'_> {
    /// Begins to settle what is trained. Training may go on at once; a settlement before it is waited for.
    pub(super) fn begin_settling(&mut self) -> Result<(), RunError> {
        if self.unsettled.is_empty() {
            return Ok(());
        }
        self.ledger.begin_settlement();
        let pass = self.current_pass();
        let written = self.machine.line.buffer.unsaved();
        self.sums.io.add(&written);
        self.totals.2.add(&written);
        self.handed_on.add(&written);
        let trained = Trained {
            pass,
            buckets: std::mem::take(&mut self.unsettled),
            sums: std::mem::take(&mut self.sums),
            loss: self.parameters.as_ref().and_then(Parameters::own_loss),
            lines: self.take_lines()?,
        };
        self.machine.line.buffer.commit(trained)
    }

    /// Settles what is trained, and waits until the ledger has it. What was added to parameters is told before: when every
    /// bucket of a pass is done, a checkpoint has what all of them gave.
    pub(super) fn settle_all(&mut self) -> Result<(), RunError> {
        let bucket = self.unsettled.last().copied();
        if bucket.is_some() {
            self.exchange_parameters();
        }
        self.begin_settling()?;
        if self.machine.line.buffer.committing() {
            self.watch.says(State::Settling, bucket);
            self.machine.line.buffer.committed(true)?;
        }
        Ok(())
    }

    /// Tells others what was added to parameters, and learns what they have told. What cannot be told now is told later.
    pub(super) fn exchange_parameters(&self) {
        // Questions to others go by the same server.
        if let Some(parameters) = self
            .parameters
            .as_ref()
            .filter(|_| !self.ledger.is_silent())
        {
            parameters.tell(TELL_WITHIN.min(self.cluster.patience));
        }
    }

    /// Gives parameters that this trainer owns to others, with all that it was told of them. It trains no more then.
    pub(super) fn give_parameters_away(&self) {
        if let Some(parameters) = &self.parameters {
            // One that does not answer is taken for dead after a lease, and another one takes its place.
            parameters.leave((2 * self.cluster.lease).min(self.cluster.patience));
        }
    }

    /// Gives back what was leased and is not trained.
    pub(super) fn give_up(&mut self) -> Result<(), RunError> {
        let buckets: Vec<Bucket> = self.leased.drain(..).map(|a| a.bucket).collect();
        self.leased_at.retain(|bucket, _| !buckets.contains(bucket));
        if buckets.is_empty() {
            return Ok(());
        }
        let pass = self.current_pass();
        self.submit(Action::GiveUp { pass, buckets }).map(|_| ())
    }
}
