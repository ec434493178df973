//! How a trainer's part ends: it leaves, the run is over, or others have ended it.

use std::time::Instant;

use pbg_core::event::Event;
use pbg_core::ledger::{Action, Phase, Token};

use super::{ClusterError, LONGEST_WAIT, Member};
use crate::error::RunError;
use crate::run::{Outcome, Strategies};

impl Member<'_> {
    /// Ends this trainer's part. The others go on; the last one writes a checkpoint.
    pub(super) fn leave(&mut self) -> Result<Outcome, RunError> {
        self.give_up()?;
        self.settle_all()?;
        let mut record = self.record()?;
        let (asked, leads) = (Instant::now(), self.leads(&record));
        // Where the whole run ends, the checkpoint is to have what the others still settle.
        while leads
            && record.phase() == Phase::Stopping
            && record.trainers().len() > 1
            && asked.elapsed() < self.cluster.lease
        {
            self.cluster.live.wait(LONGEST_WAIT);
            record = self.record()?;
        }
        if leads || record.trainers().len() == 1 {
            self.checkpoint()?;
        }
        self.end_part()?;
        let version = self.newest_version()?;
        self.machine.emit(Event::Interrupted { version });
        Ok(Outcome::Interrupted { version })
    }

    pub(super) fn end_part(&mut self) -> Result<(), RunError> {
        self.exchange_parameters();
        self.tell_notices()?;
        self.submit(Action::Leave)?;
        let files = &self.machine.line.buffer.store().files;
        Ok(files.forget(self.token())?)
    }

    pub(super) fn finished(&mut self) -> Result<Outcome, RunError> {
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

    /// Says that this trainer's part has ended without its doing.
    pub(crate) fn tell_lost(&mut self, error: &ClusterError) {
        let reason = error.to_string();
        self.machine.emit(Event::Rejoining { reason });
    }

    /// What a trainer that joins anew keeps: its strategies, and the token that ends with that. Its tables are dropped:
    /// others may have trained them since.
    pub(crate) fn dismantle(self) -> (Strategies, Option<Token>) {
        let token = self.token();
        (self.machine.into_strategies(), Some(token))
    }
}
