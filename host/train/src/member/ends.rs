//! How a trainer's part ends: it leaves, the run is over, or others have ended it.

use pbg_core::event::Event;
use pbg_core::ledger::{Action, Refusal, Token};

use super::checkpoints::stored_state;
use super::{ClusterError, Denied, LONGEST_WAIT, Member};
use crate::error::RunError;
use crate::run::{Outcome, Strategies};

/// The earlier part of a trainer that joins anew.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Earlier {
    /// Its token, which ends with that.
    pub(super) token: Token,
    /// Epochs of the last ranking that it has told of.
    pub(super) told: u32,
}

impl Member<'_> {
    /// Ends this trainer's part. The others go on.
    pub(super) fn leave(&mut self) -> Result<Outcome, RunError> {
        self.give_up()?;
        self.settle_all()?;
        self.give_parameters_away();
        self.end_part()?;
        let version = self.newest_version()?;
        self.machine.emit(Event::Interrupted { version });
        Ok(Outcome::Interrupted { version })
    }

    /// Leaves; the last one writes a checkpoint of what is in none.
    pub(super) fn end_part(&mut self) -> Result<(), RunError> {
        self.tell_notices()?;
        // A round behind that would ask a ledger that may have ended with the last of the others.
        if let Some(parameters) = &mut self.parameters {
            parameters.end_rounds();
        }
        loop {
            match self.ledger.submit(Action::LeaveSaved) {
                Err(Denied::Refused(Refusal::NotSaved)) => {
                    let pass = self.record()?.work().pass;
                    if !self.checkpoint(pass)? {
                        self.cluster.live.wait(LONGEST_WAIT);
                    }
                }
                Ok(_) | Err(Denied::Refused(_) | Denied::GivenUp) => break,
                Err(Denied::Ended(error)) => return Err(error.into()),
            }
        }
        let files = &self.machine.line.buffer.store().files;
        Ok(files.forget(self.token())?)
    }

    /// Ends the part of a trainer that cannot go on, so that the others need not wait until it counts as dead. What it has
    /// not settled is to do again.
    pub(crate) fn abandon(&mut self) {
        self.ledger.hurry();
        // What went wrong before is what the user is told.
        if self.ledger.submit(Action::Leave).is_ok() {
            let _sign = self.machine.line.buffer.store().files.forget(self.token());
        }
    }

    pub(super) fn finished(&mut self) -> Result<Outcome, RunError> {
        self.tell_early_end()?;
        self.end_part()?;
        let (_, edges, io) = self.totals;
        let stages = self.machine.stages();
        let version = self.newest_version()?;
        self.machine.emit(Event::RunFinished {
            edges,
            seconds: self.started.elapsed().as_secs_f64(),
            io,
            stages,
            version,
        });
        Ok(Outcome::Finished { version })
    }

    /// What `error` comes of. A trainer that was silent for so long that others have ended its part may miss a file: they
    /// have trained what it is of, and removed it.
    pub(crate) fn cause(&self, error: RunError) -> RunError {
        if !error.is_missing_file() {
            return error;
        }
        // It fails where this trainer takes part no more.
        self.record().err().unwrap_or(error)
    }

    /// Says that this trainer's part has ended without its doing.
    pub(crate) fn tell_lost(&mut self, error: &ClusterError) {
        let reason = error.to_string();
        self.machine.emit(Event::Rejoining { reason });
    }

    /// For a trainer whose ledger does not answer any more: whether the newest checkpoint has the end of the run, as where
    /// the others have trained the rest while this one stood still.
    pub(crate) fn finished_without(&mut self) -> Result<Option<Outcome>, RunError> {
        let (Some(record), Some(manifest)) = (
            self.ledger.seen(),
            self.machine.line.buffer.store().files.newest()?,
        ) else {
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
        self.machine.emit(Event::FinishedByOthers { version });
        Ok(Some(Outcome::Finished { version }))
    }

    /// Whether this trainer has trained a bucket since it joined.
    pub(crate) fn has_trained(&self) -> bool {
        self.totals.0 > 0
    }

    /// What a trainer that joins anew keeps. Its tables are dropped: others may have trained them since.
    pub(crate) fn dismantle(self) -> (Strategies, Option<Earlier>) {
        let (token, told) = (self.token(), self.rankings.told());
        let earlier = Earlier { token, told };
        (self.machine.into_strategies(), Some(earlier))
    }
}
