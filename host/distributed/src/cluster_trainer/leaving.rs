//! The ways in which a trainer's participation ends: it leaves, the run finishes, or other trainers remove it.

use pbg_core::event::Event;
use pbg_ledger::{LONGEST_WAIT, LedgerAction, LedgerRecord, Token, TransactionError};
use pbg_model::error::{JoinError, RunError};
use pbg_train::{RunOutcome, Strategies};

use super::ClusterTrainer;
use crate::conversion::stored_state;
use crate::ledger::NotApplied;

/// How often the last trainer tries to remove files that nobody needs.
const CLEANING_ATTEMPTS: usize = 5;
/// Records with which a trainer tries to copy what only its server has.
const ATTEMPTS: usize = 30;

/// The previous participation of a trainer that rejoins.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PreviousParticipation {
    /// Token of the previous participation. Rejoining ends it.
    pub(super) token: Token,
    /// Number of epochs at the last ranking that was reported.
    pub(super) reported_epochs: u32,
    /// History of the record that names a file which no partition server has.
    pub(super) lost: Option<Token>,
}

impl ClusterTrainer<'_> {
    /// Ends this trainer's participation at the user's request. The other trainers continue.
    pub(super) fn leave(&mut self) -> Result<RunOutcome, RunError> {
        self.give_up()?;
        self.settle_all()?;
        self.give_parameters_away();
        self.leave_saved()?;
        let version = self.newest_version()?;
        self.machine.emit(Event::Interrupted { version });
        Ok(RunOutcome::Interrupted { version })
    }

    /// Leaves the run. The last trainer to leave first writes a checkpoint if something is not in one yet.
    pub(super) fn leave_saved(&mut self) -> Result<(), RunError> {
        self.report_evictions();
        // Ends the exchange first: a later round would read the ledger, whose server may end when the last of the other
        // trainers leaves.
        if let Some(parameters) = &mut self.parameters {
            parameters.end_rounds();
        }
        self.make_newest_current()?;
        let (listed, signs) = (self.files().list()?, self.files().present_trainers()?);
        if self.ledger.try_refresh().is_ok() {
            // What cannot be removed now, the next checkpoint removes.
            let _kept = self.remove_signs(&signs);
        }
        self.retire_own_server()?;
        loop {
            match self.ledger.submit(LedgerAction::LeaveSaved) {
                Err(NotApplied::Refused(TransactionError::NotSaved)) => {
                    let pass = self.record()?.work().pass;
                    if !self.checkpoint(pass)? {
                        self.cluster.live.wait(LONGEST_WAIT);
                    }
                }
                Ok(_) | Err(NotApplied::Refused(_) | NotApplied::Abandoned) => break,
                Err(NotApplied::Fatal(error)) => return Err(error.into()),
            }
        }
        let files = self.files();
        files.remove_presence(self.token())?;
        let record = self.ledger.last_record();
        if let Some(record) = record.filter(|record| record.trainers().is_empty()) {
            // The run has ended well. What cannot be removed now, the next checkpoint of another run removes.
            for _ in 0..CLEANING_ATTEMPTS {
                if self.remove_leftovers(&record, &listed).is_ok() || self.asked_to_stop() {
                    break;
                }
                pbg_clock::sleep(self.cluster.heartbeat);
            }
        }
        Ok(())
    }

    /// Removes the partition server of this process from the run, and copies the partitions that the run has there to the
    /// checkpoint folder.
    fn retire_own_server(&self) -> Result<(), RunError> {
        let servers = self.cluster.servers.as_ref();
        let Some(own) = servers.and_then(|servers| servers.own.as_ref()) else {
            return Ok(());
        };
        // While most files are copied, the others can still read them here.
        self.store_files_of(own.token())?;
        // If the register does not answer, the others remove the server once it is silent.
        let _removed = own.retire();
        self.store_files_of(own.token())
    }

    /// Copies the files that the run has only on the server `own` of this trainer to the checkpoint folder.
    fn store_files_of(&self, own: Token) -> Result<(), RunError> {
        let tables = self.machine.pipeline.buffer.store();
        let mut record = self.record()?;
        for _ in 0..ATTEMPTS {
            let Err(error) = tables.store_own_files(own, &record) else {
                return Ok(());
            };
            // Another trainer may have replaced a file after the record was read.
            let newest = self.record()?;
            if *newest == *record {
                return Err(error);
            }
            record = newest;
        }
        tables.store_own_files(own, &record)
    }

    /// Removes the files that trainers have left in the folder and that nothing needs: nobody writes a further checkpoint,
    /// which would remove them. `record` has no trainers; `listed` are the files that the folder had when this trainer was
    /// still part of the run.
    fn remove_leftovers(&self, record: &LedgerRecord, listed: &[String]) -> Result<(), RunError> {
        let files = self.files();
        match files.newest()? {
            Some(newest) if record.is_saved() => Ok(files.remove_garbage(
                listed,
                &[&newest],
                |entity_type, partition, id| self.is_garbage(record, entity_type, partition, id),
                |_| true,
            )?),
            _ => Ok(()),
        }
    }

    /// Leaves the run after a failure, so that the others need not wait until this trainer's lease expires. Buckets
    /// that it has not settled are trained again.
    pub(crate) fn leave_after_failure(&mut self) {
        self.ledger.shorten_waits();
        // Partitions that cannot be copied are lost, and the run goes back to the newest checkpoint.
        let _copied = self.retire_own_server();
        // The earlier error is reported to the user, so errors here are ignored.
        if self.ledger.submit(LedgerAction::Leave).is_ok() {
            let _sign = self.files().remove_presence(self.token());
        }
    }

    pub(super) fn finished(&mut self) -> Result<RunOutcome, RunError> {
        self.tell_early_end()?;
        self.leave_saved()?;
        let (_, edges, io) = self.totals;
        let stages = self.machine.stages();
        let version = self.newest_version()?;
        self.machine.emit(Event::RunFinished {
            edges,
            seconds: pbg_clock::elapsed(self.started).as_secs_f64(),
            io,
            disk: None,
            stages,
            version,
        });
        Ok(RunOutcome::Finished { version })
    }

    /// Returns the cause of `error`. A missing file may mean that this trainer was silent for so long that others
    /// removed it from the run, trained the partition of that file, and removed the file; or that the register has lost
    /// its last writes, and the record names files that a newer checkpoint no longer needs.
    pub(crate) fn root_cause(&self, error: RunError) -> RunError {
        if !error.is_missing_file() {
            return error;
        }
        // Reading the record fails if this trainer was removed from the run.
        let newest = self
            .record()
            .and_then(|record| self.require_consistent(record));
        match newest {
            Err(cause) => cause,
            Ok((record, manifest)) => {
                let name = error.missing_file().unwrap_or_default();
                let is_stored = manifest.is_some_and(|manifest| manifest.files.contains_key(name));
                // A checkpoint may have copied it from a server that was removed from the run and is alive.
                let has_appeared = is_stored && self.files().has_file(name).unwrap_or(false);
                match self.cluster.servers.is_some() && (has_appeared || !is_stored) {
                    true => JoinError::PartitionLost {
                        what: error.to_string(),
                        incarnation: (!is_stored).then(|| record.incarnation()),
                    }
                    .into(),
                    // A file of the checkpoint itself is not lost with a server.
                    false => error,
                }
            }
        }
    }

    /// Reports that this trainer was removed from the run and rejoins.
    pub(crate) fn report_rejoining(&mut self, error: &JoinError) {
        self.report_evictions();
        let reason = error.to_string();
        self.machine.emit(Event::Rejoining { reason });
    }

    /// For a trainer whose ledger does not answer any more: checks whether the newest checkpoint already has the end of
    /// the run, because the other trainers have trained the rest while this one was paused.
    pub(crate) fn finished_by_others(&mut self) -> Result<Option<RunOutcome>, RunError> {
        let (Some(record), Some(manifest)) = (self.ledger.last_record(), self.files().newest()?)
        else {
            return Ok(None);
        };
        let (terms, config) = (record.terms(), self.machine.config());
        let state = stored_state(&manifest, &config.checkpoint_path)?;
        let validation = terms.validation.as_ref();
        let is_enough = validation.is_some_and(|v| state.plateau.ends(&v.rules));
        if !state.schedule.finished(terms.extent) && !is_enough {
            return Ok(None);
        }
        let version = manifest.version;
        self.files().remove_presence(self.token())?;
        self.machine.emit(Event::FinishedByOthers { version });
        Ok(Some(RunOutcome::Finished { version }))
    }

    /// Whether this trainer has trained a bucket since it joined.
    pub(crate) fn has_trained(&self) -> bool {
        self.totals.0 > 0
    }

    /// Returns what a rejoining trainer keeps, and events of trainers and servers that it was removing until now. Its
    /// tables are dropped, since others may have trained these partitions since.
    pub(crate) fn into_strategies(
        self,
        cause: &JoinError,
    ) -> (Strategies, Option<PreviousParticipation>, Vec<Event>) {
        let earlier = PreviousParticipation {
            token: self.token(),
            reported_epochs: self.rankings.told,
            lost: match cause {
                JoinError::PartitionLost { incarnation, .. } => *incarnation,
                _ => None,
            },
        };
        let Self {
            machine,
            mut ledger_threads,
            mut watch,
            ..
        } = self;
        let strategies = machine.into_strategies();
        // Waits for the register end first.
        ledger_threads.end();
        watch.end();
        (strategies, Some(earlier), watch.notices())
    }
}
