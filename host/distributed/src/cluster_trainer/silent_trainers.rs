//! Trainers of the record that this trainer finds when it joins, and that have died or train into another folder.

use std::sync::atomic::Ordering;
use std::time::Duration;

use pbg_ledger::{LedgerRecord, SilentTrainer, Trainer};
use pbg_model::error::{JoinError, RunError};

use super::joining::{Joining, VISIBLE_WITHIN};

impl Joining<'_> {
    /// Checks whether an inconsistent record is still in use before it is dropped: returns whether its trainers have
    /// changed it meanwhile. Trainers that have opened this folder as well detect by themselves that the record was
    /// replaced. The others train into another folder.
    ///
    /// # Errors
    /// When a live trainer of the record has not opened this folder: its run is a different one.
    pub(super) fn is_still_in_use(&self, record: &LedgerRecord) -> Result<bool, RunError> {
        self.silent_strangers(record, VISIBLE_WITHIN.min(self.cluster.lease / 2))?;
        let newest = self.ledger.refresh()?;
        Ok(newest.is_none_or(|newest| newest.revision() != record.revision()))
    }

    /// Returns the trainers of a record that have not opened this folder, by the sign file that each leaves there, after
    /// waiting for their files for the duration of a lease. A folder that is shared over a network may show a file late,
    /// by `visible_within`.
    ///
    /// # Errors
    /// When such a trainer is alive: it trains into another folder.
    fn silent_strangers(
        &self,
        record: &LedgerRecord,
        visible_within: Duration,
    ) -> Result<Vec<SilentTrainer>, RunError> {
        let strangers = || {
            let trainers = record.trainers().iter();
            trainers.filter(|(token, _)| !self.files.has_presence(**token))
        };
        let (started, longest) = (pbg_clock::now(), self.cluster.lease.max(visible_within));
        while strangers().next().is_some() && pbg_clock::elapsed(started) < longest {
            let heard = self.cluster.live.heartbeats();
            let is_alive = |token| heard.iter().any(|heard| heard.beat.token == token);
            if pbg_clock::elapsed(started) >= visible_within
                && let Some((_, stranger)) = strangers().find(|(token, _)| is_alive(**token))
            {
                return Err(self.not_shared_with(&stranger.name).into());
            }
            self.pause()?;
        }
        let silent =
            strangers().map(|(&token, &Trainer { last, .. })| SilentTrainer { token, last });
        Ok(silent.collect())
    }

    /// Removes all trainers of the record if the model has shared parameters that no checkpoint has, and none of the
    /// trainers was heard for the duration of a lease. Returns whether the record must be read again: the trainers were
    /// removed, or somebody else has changed the record.
    pub(super) fn end_all_silent(&self, record: &LedgerRecord) -> Result<bool, RunError> {
        if !self.shares_parameters || record.is_saved() || record.trainers().is_empty() {
            return Ok(false);
        }
        let (lease, started) = (self.cluster.lease, pbg_clock::now());
        while pbg_clock::elapsed(started) < lease {
            let heard = self.cluster.live.heartbeats();
            let mut tokens = heard.iter().map(|heard| heard.beat.token);
            if tokens.any(|token| record.trainers().contains_key(&token)) {
                return Ok(false);
            }
            let newest = self.ledger.refresh()?;
            if newest.is_none_or(|newest| newest.revision() != record.revision()) {
                return Ok(true);
            }
            self.pause()?;
        }
        for (&token, trainer) in record.trainers() {
            let last = trainer.last;
            if self.ledger.evict(SilentTrainer { token, last })? {
                self.files.remove_presence(token)?;
            }
        }
        Ok(true)
    }

    /// Checks that every trainer of the record has opened this same folder. One that has not and is silent is removed: it
    /// may have died before it left its sign file, or the register may have lost that it had left the run.
    ///
    /// # Errors
    /// When a trainer has opened another folder, or the register does not answer.
    pub(super) fn check_folder_shared(&self) -> Result<(), RunError> {
        if let Some(record) = self.ledger.last_record() {
            for silent in self.silent_strangers(&record, VISIBLE_WITHIN)? {
                self.ledger.evict(silent)?;
            }
        }
        Ok(())
    }

    /// Sleeps for a moment, so that messages of other trainers can arrive.
    ///
    /// # Errors
    /// When this trainer must stop.
    pub(super) fn pause(&self) -> Result<(), RunError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(RunError::Interrupted);
        }
        pbg_clock::sleep(self.cluster.heartbeat.min(self.cluster.lease / 20));
        Ok(())
    }

    fn not_shared_with(&self, name: &str) -> JoinError {
        JoinError::NotShared {
            folder: self.files.path().to_owned(),
            name: name.escape_debug().to_string(),
        }
    }
}
