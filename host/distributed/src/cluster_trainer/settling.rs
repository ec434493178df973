//! Settlements: trained buckets are written and recorded in the ledger, in parallel with training.

use std::time::Duration;

use pbg_ledger::LedgerAction;
use pbg_ledger::transport::TrainerActivity;
use pbg_model::error::RunError;

use super::ClusterTrainer;
use crate::exchange::ParameterExchange;
use crate::tables::UnsettledBuckets;

/// Longest wait for a parameter exchange that the other trainers do not depend on.
const TELL_WITHIN: Duration = Duration::from_secs(5);

impl ClusterTrainer<'_> {
    /// Begins to settle the trained buckets. Training may continue at once; a previous settlement is waited for.
    pub(super) fn begin_settling(&mut self) -> Result<(), RunError> {
        if self.policy.unsettled().is_empty() {
            return Ok(());
        }
        self.report_settled();
        self.ledger.begin_settlement();
        let pass = self.current_pass();
        let written = self.machine.pipeline.buffer.unsaved();
        self.sums.io.add(&written);
        self.totals.2.add(&written);
        self.settlement_io.add(&written);
        let trained = UnsettledBuckets {
            pass,
            buckets: self.policy.take_trained(),
            sums: std::mem::take(&mut self.sums),
            loss: self
                .parameters
                .as_ref()
                .and_then(ParameterExchange::own_loss),
            lines: self.take_lines()?,
        };
        self.machine.pipeline.buffer.commit(trained)
    }

    /// Whether trained buckets are not in the ledger yet.
    pub(super) fn is_settling(&self) -> bool {
        !self.policy.unsettled().is_empty() || self.machine.pipeline.buffer.committing()
    }

    /// Settles the trained buckets, and waits until the ledger has them. Exchanges parameters first: a checkpoint at
    /// the end of the pass must have the updates of all its buckets.
    pub(super) fn settle_all(&mut self) -> Result<(), RunError> {
        let bucket = self.policy.unsettled().last().copied();
        if bucket.is_some() {
            self.exchange_parameters();
        }
        self.begin_settling()?;
        if self.machine.pipeline.buffer.committing() {
            self.watch.set_state(TrainerActivity::Settling, bucket);
            self.machine.pipeline.buffer.committed(true)?;
        }
        self.report_settled();
        self.append_settled()
    }

    /// Sends parameter updates to the owners and receives those of others. Updates that cannot be sent now are sent
    /// later.
    pub(super) fn exchange_parameters(&self) {
        // Parameter messages use the same server as the ledger.
        if let Some(parameters) = self
            .parameters
            .as_ref()
            .filter(|_| !self.ledger.is_silent())
        {
            parameters.flush(TELL_WITHIN.min(self.cluster.patience));
        }
    }

    /// Transfers the parameters that this trainer owns to other trainers, with everything received for them. This
    /// trainer must not train afterwards.
    pub(super) fn give_parameters_away(&self) {
        if let Some(parameters) = &self.parameters {
            // A new owner that does not answer is considered dead after a lease, and another trainer is chosen.
            parameters.transfer_all((2 * self.cluster.lease).min(self.cluster.patience));
        }
    }

    /// Returns the leases of buckets that are not trained.
    pub(super) fn give_up(&mut self) -> Result<(), RunError> {
        let buckets = self.policy.give_up();
        self.leases.retain(|bucket, _| !buckets.contains(bucket));
        if buckets.is_empty() {
            return Ok(());
        }
        let pass = self.current_pass();
        self.submit(LedgerAction::GiveUp { pass, buckets })
            .map(|_| ())
    }
}
