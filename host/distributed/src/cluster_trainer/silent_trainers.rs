//! Trainers of the record that this trainer finds when it joins, and that have died or train into another folder.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use pbg_ledger::{LedgerRecord, SilentTrainer, Token, Trainer};
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
        self.silent_strangers(VISIBLE_WITHIN.min(self.cluster.lease / 2))?;
        let newest = self.ledger.refresh()?;
        Ok(newest.is_none_or(|newest| newest.revision() != record.revision()))
    }

    /// Waits until every trainer of the record either has a sign file in this folder, as those that have opened it do, or
    /// counts as silent. Returns the silent ones. A folder that is shared over a network may show a file late, by
    /// `visible_within`.
    ///
    /// # Errors
    /// When a trainer without a sign file is alive: it trains into another folder.
    fn silent_strangers(&self, visible_within: Duration) -> Result<Vec<SilentTrainer>, RunError> {
        let mut missing_since = BTreeMap::<Token, Instant>::new();
        loop {
            let Some(record) = self.ledger.refresh()? else {
                return Ok(Vec::new());
            };
            let mut strangers: Vec<(Token, &Trainer)> = Vec::new();
            for (token, trainer) in record.trainers() {
                if !self.files.has_presence(*token)? {
                    strangers.push((*token, trainer));
                }
            }
            missing_since.retain(|token, _| strangers.iter().any(|(of, _)| of == token));
            let mut silent = Vec::new();
            for &(token, trainer) in &strangers {
                let since = missing_since.entry(token).or_insert_with(pbg_clock::now);
                let missing = pbg_clock::elapsed(*since);
                // A heartbeat from before the file had to be visible proves nothing.
                let time = missing.saturating_sub(visible_within);
                if self.is_heard(token, time) {
                    return Err(self.not_shared_with(&trainer.name).into());
                }
                if time >= self.cluster.lease {
                    let last = trainer.last;
                    silent.push(SilentTrainer { token, last });
                }
            }
            if silent.len() == strangers.len() {
                return Ok(silent);
            }
            self.pause()?;
        }
    }

    /// Whether a heartbeat of a trainer has arrived within the last `time`.
    fn is_heard(&self, token: Token, time: Duration) -> bool {
        let heard = self.cluster.live.heartbeats();
        let mut heard = heard.iter();
        heard.any(|heard| heard.beat.token == token && heard.ago < time)
    }

    /// Removes all trainers of the record if the model has shared parameters that no checkpoint has, and none of the
    /// trainers was heard for the duration of a lease. Returns whether the record must be read again: the trainers were
    /// removed, or somebody else has changed the record.
    pub(super) fn end_all_silent(&self, record: &LedgerRecord) -> Result<bool, RunError> {
        if !self.shares_parameters || record.is_saved() || record.trainers().is_empty() {
            return Ok(false);
        }
        let (lease, recent) = (self.cluster.lease, 3 * self.cluster.heartbeat);
        let started = pbg_clock::now();
        while pbg_clock::elapsed(started) < lease {
            let mut tokens = record.trainers().keys();
            if tokens.any(|token| self.is_heard(*token, recent)) {
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
            self.ledger.evict(SilentTrainer { token, last })?;
        }
        Ok(true)
    }

    /// Checks that every trainer of the record has opened this same folder. One that has not and is silent is removed: it
    /// may have died before it left its sign file, or the register may have lost that it had left the run.
    ///
    /// # Errors
    /// When a trainer has opened another folder, or the register does not answer. One that was not heard and yet writes to
    /// the register is alive.
    pub(super) fn check_folder_shared(&self) -> Result<(), RunError> {
        loop {
            let silent = self.silent_strangers(VISIBLE_WITHIN)?;
            if silent.is_empty() {
                return Ok(());
            }
            for stranger in silent {
                if !self.ledger.evict(stranger)? {
                    let record = self.ledger.last_record();
                    let trainer = record.and_then(|r| r.trainers().get(&stranger.token).cloned());
                    let name = trainer.map(|trainer| trainer.name).unwrap_or_default();
                    return Err(self.not_shared_with(&name).into());
                }
            }
        }
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
