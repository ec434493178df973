//! The way into a run: the record that goes with the folder, found or made, and a place in it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pbg_core::event::Event;
use pbg_core::ledger::{
    Action, Cut, Founding, Join, Record, Refusal, Silent, Terms, Token, Trainer, Work,
};
use pbg_store::checkpoint::{Manifest, SharedCheckpoint};

use super::checkpoints::stored_state;
use super::growth;
use super::ledger::{Denied, Ledger};
use super::work::work_of;
use super::{Cluster, ClusterError};
use crate::commit;
use crate::error::RunError;
use crate::identity::{self, Admitted, Allowed, Purpose};
use crate::resolved::Resolved;
use crate::run::Strategies;

/// How late a shared folder may show what another machine has written there.
pub(super) const VISIBLE_WITHIN: Duration = Duration::from_secs(5);

/// How often a record that others change at the same time is tried to be made.
const ATTEMPTS: usize = 100;

/// What the record is held against.
pub(super) struct Finding<'a> {
    pub(super) resolved: &'a Resolved,
    pub(super) strategies: &'a Strategies,
    pub(super) cluster: &'a Cluster,
    /// Set when this trainer is to stop: it does not join then.
    pub(super) stop: &'a AtomicBool,
    pub(super) ledger: &'a Ledger,
    pub(super) files: &'a SharedCheckpoint,
    pub(super) terms: &'a Terms,
    /// Whether the model has parameters that every trainer has: only trainers and checkpoints have them.
    pub(super) shares_parameters: bool,
    /// What may differ from what trained the newest checkpoint.
    pub(super) allowed: Allowed,
    /// Whether other edges are validated than those of the newest checkpoint's ranks.
    pub(super) other_validation: bool,
}

/// A record that goes with the newest checkpoint.
pub(super) struct Found {
    /// Its history.
    pub(super) incarnation: Token,
    /// The newest manifest that it was held against; none before the first.
    pub(super) newest: Option<Cut>,
    /// What differs from the checkpoint that it was made from; none if it was there already.
    pub(super) changes: Option<Admitted>,
}

/// What becomes of the record that the register has.
enum Verdict {
    /// It goes on.
    Stands,
    /// It goes on on the terms of this trainer.
    Extended(Box<Work>, Option<Cut>),
    /// The newest checkpoint has all of it: it goes on from there, on the terms of this trainer.
    Renewed,
    /// It is dropped, and the run goes on from the newest checkpoint.
    Dropped(String),
}

impl Finding<'_> {
    /// Makes sure that the register has a record that goes with the newest checkpoint, and returns which one it is.
    ///
    /// # Errors
    /// When no answer comes, or the checkpoint cannot be read.
    fn find(&self, sink: &mut dyn FnMut(Event)) -> Result<Found, RunError> {
        for _ in 0..ATTEMPTS {
            let record = self.ledger.refresh()?;
            if let Some(record) = &record
                && self.end_all_silent(record)?
            {
                continue;
            }
            let newest = self.files.newest()?;
            let cut = newest.as_ref().map(Manifest::cut);
            let verdict = record.as_ref().map(|record| self.judge(record, cut));
            let found = |record: &Record, changes| Found {
                incarnation: record.incarnation(),
                newest: cut,
                changes,
            };
            if let (Some(Verdict::Dropped(_)), Some(record)) = (&verdict, &record)
                && self.others_go_on(record)?
            {
                continue;
            }
            if let (Some(Verdict::Stands), Some(record)) = (&verdict, &record) {
                return Ok(found(record, None));
            }
            let ((mut work, admitted), base, replaced) = match verdict {
                Some(Verdict::Extended(work, base)) => ((*work, None), base, None),
                Some(Verdict::Dropped(reason)) => (self.work(newest.as_ref())?, cut, Some(reason)),
                _ => (self.work(newest.as_ref())?, cut, None),
            };
            let plateau = &mut work.progress.plateau;
            if self.other_validation {
                plateau.forget_best();
            }
            let validation = self.terms.validation.as_ref();
            work.enough = validation.is_some_and(|v| plateau.ends(&v.rules));
            let founding = Founding {
                terms: self.terms.clone(),
                run: record
                    .as_ref()
                    .map_or_else(draw, |record| Ok(record.run()))?,
                incarnation: draw()?,
                wanted: self.cluster.machines,
                work,
                base,
            };
            let made = Record::found(founding).map_err(ClusterError::from)?;
            if self.ledger.found(record.as_deref(), &made)? {
                if let Some(reason) = replaced {
                    let version = cut.map_or(0, |cut| cut.version);
                    sink(Event::LedgerReplaced { reason, version });
                }
                return Ok(found(&made, admitted));
            }
        }
        Err(ClusterError::NoRecord.into())
    }

    /// Whether a record goes with the newest checkpoint, the files that are there, and this configuration.
    fn judge(&self, record: &Record, newest: Option<Cut>) -> Verdict {
        if let Err(stale) = record.stands(newest) {
            return Verdict::Dropped(stale.to_string());
        }
        // As long as somebody takes part, the run is theirs.
        if !record.trainers().is_empty() {
            return Verdict::Stands;
        }
        if self.shares_parameters && !record.is_saved() {
            let reason =
                "all trainers ended before a checkpoint had the parameters that they shared";
            return Verdict::Dropped(reason.to_owned());
        }
        if let Some(missing) = self.missing(record) {
            return Verdict::Dropped(format!("the file {missing}, which it names, is not there"));
        }
        let base = record.checkpoints().base();
        match record.terms() == self.terms {
            true => Verdict::Stands,
            false if record.is_saved() && base == newest => Verdict::Renewed,
            false if self.succeeds(record.terms()) && base == newest => {
                Verdict::Extended(Box::new(record.work().clone()), base)
            }
            // The first difference is named when this trainer joins.
            false => Verdict::Stands,
        }
    }

    /// Whether the run of `terms` may go on on the terms of this trainer.
    fn succeeds(&self, terms: &Terms) -> bool {
        let mut succeeded = terms.clone();
        succeeded.extent.epochs = self.terms.extent.epochs;
        succeeded.validation.clone_from(&self.terms.validation);
        if self.allowed.plugin_change {
            succeeded.plugins.clone_from(&self.terms.plugins);
        }
        succeeded == *self.terms
    }

    /// Before a record is dropped that does not go with the newest checkpoint of this folder: whether its trainers go on and
    /// have changed it meanwhile. Those that have opened this folder, too, are told what was dropped; others train into another one.
    ///
    /// # Errors
    /// When there is one of those: its run is not this one.
    fn others_go_on(&self, record: &Record) -> Result<bool, RunError> {
        let strangers = || {
            let trainers = record.trainers().iter();
            trainers.filter(|(token, _)| !self.files.is_seen_by(**token))
        };
        let started = Instant::now();
        while strangers().next().is_some() && started.elapsed() < self.cluster.lease {
            let heard = self.cluster.live.heard();
            let is_alive = |token| heard.iter().any(|heard| heard.beat.token == token);
            // A folder that is shared over a network may show a sign late.
            if started.elapsed() >= VISIBLE_WITHIN.min(self.cluster.lease / 2)
                && let Some((_, stranger)) = strangers().find(|(token, _)| is_alive(**token))
            {
                return Err(self.not_shared_with(&stranger.name).into());
            }
            self.pause()?;
        }
        let newest = self.ledger.refresh()?;
        Ok(newest.is_none_or(|newest| newest.revision() != record.revision()))
    }

    /// Waits a moment for what other trainers say.
    ///
    /// # Errors
    /// When this trainer is to stop.
    fn pause(&self) -> Result<(), RunError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(RunError::Interrupted);
        }
        thread::sleep(self.cluster.heartbeat.min(self.cluster.lease / 20));
        Ok(())
    }

    fn not_shared_with(&self, name: &str) -> ClusterError {
        ClusterError::NotShared {
            folder: self.files.path().to_owned(),
            name: name.escape_debug().to_string(),
        }
    }

    /// Ends the part of all trainers, where none of them has said anything for the time of a lease and what they shared
    /// would be missing. Says whether it did.
    fn end_all_silent(&self, record: &Record) -> Result<bool, RunError> {
        if !self.shares_parameters || record.is_saved() || record.trainers().is_empty() {
            return Ok(false);
        }
        let (lease, started) = (self.cluster.lease, Instant::now());
        while started.elapsed() < lease {
            let heard = self.cluster.live.heard();
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
            if self.ledger.evict(Silent { token, last })? {
                self.files.forget(token)?;
            }
        }
        Ok(true)
    }

    /// The first file of a partition that the record names and the folder lacks.
    fn missing(&self, record: &Record) -> Option<String> {
        let grid = record.grid();
        grid.groups().find_map(|group| {
            let tables = &grid.tables[group.0 as usize];
            let files = record.partition(group)?.files.iter();
            files
                .zip(tables)
                .find_map(|(file, table)| self.files.missing(table, group.1, file))
        })
    }

    /// What the newest checkpoint has, and what is not as it was then. Partitions that lack rows for what the dataset has
    /// gained are written again, with them.
    fn work(&self, newest: Option<&Manifest>) -> Result<(Work, Option<Admitted>), RunError> {
        let Some(manifest) = newest else {
            return Ok((Work::none(&self.terms.grid), None));
        };
        let (resolved, files) = (self.resolved, self.files);
        let admitted = admit(manifest, resolved, self.strategies, files, self.allowed)?;
        let mut state = stored_state(manifest, &resolved.config().checkpoint_path)?;
        commit::adapt(&mut state, &admitted);
        let (pass, epochs) = (state.schedule.pass(), self.terms.extent.epochs);
        let is_between = (pass.edge_set, pass.edge_chunk) == (0, 0) && state.schedule.needs_plan();
        if pass.epoch >= epochs && !is_between {
            let epoch = pass.epoch + 1;
            return Err(ClusterError::Beyond { epoch, epochs }.into());
        }
        let layout = &resolved.blueprint().layout;
        let mut work = work_of(manifest, &state, layout);
        let new = growth::new_rows(resolved, manifest)?;
        growth::grow(&new, layout, files, &mut work)?;
        Ok((work, Some(admitted)))
    }

    /// Whether every trainer of the record has opened this very folder: each leaves a sign there before it joins. A folder
    /// that is shared over a network may show it late.
    ///
    /// # Errors
    /// When one has not.
    fn is_shared(&self) -> Result<(), ClusterError> {
        let record = self.ledger.seen();
        for (token, trainer) in record.iter().flat_map(|record| record.trainers()) {
            let started = Instant::now();
            while !self.files.is_seen_by(*token) {
                if started.elapsed() > VISIBLE_WITHIN {
                    return Err(self.not_shared_with(&trainer.name));
                }
                thread::sleep(VISIBLE_WITHIN / 20);
            }
        }
        Ok(())
    }

    /// Finds or makes the record, and joins it. Returns the record, and what differs from the checkpoint if the record
    /// was made from it here.
    ///
    /// # Errors
    /// Why the run does not take this trainer.
    pub(super) fn join(
        &self,
        instead_of: Option<Token>,
        sink: &mut dyn FnMut(Event),
    ) -> Result<(Arc<Record>, Option<Admitted>), RunError> {
        let mut changes = None;
        for _ in 0..ATTEMPTS {
            let found = self.find(sink)?;
            changes = found.changes.or(changes);
            self.is_shared()?;
            let join = Join {
                terms: self.terms.clone(),
                name: self.cluster.name.clone(),
                rank: self.cluster.rank,
                instead_of,
                incarnation: found.incarnation,
                newest: found.newest,
            };
            if let Some(record) = self.take_part(join, sink)? {
                return Ok((record, changes));
            }
        }
        Err(ClusterError::NoRecord.into())
    }

    /// Joins; none if the record is not the one that was found, or does not go with the newest checkpoint any more. An
    /// earlier trainer of the same rank that is silent is waited for until it counts as dead: it was stopped or died, and
    /// the same command was given again.
    ///
    /// # Errors
    /// Why the run does not take this trainer.
    fn take_part(
        &self,
        join: Join,
        sink: &mut dyn FnMut(Event),
    ) -> Result<Option<Arc<Record>>, RunError> {
        loop {
            let refusal = match self.ledger.submit(Action::Join(Box::new(join.clone()))) {
                Ok(record) => {
                    self.files.sign(self.ledger.token())?;
                    return Ok(Some(record));
                }
                Err(Denied::Refused(Refusal::Incarnation { .. } | Refusal::Stale(_))) => {
                    return Ok(None);
                }
                Err(Denied::Refused(refusal)) => refusal,
                Err(denied) => return Err(denied.ended().into()),
            };
            let record = self.ledger.seen();
            let mut trainers = record.iter().flat_map(|record| record.trainers());
            let holder = match refusal {
                Refusal::RankTaken { rank, .. } => trainers.find(|(_, t)| t.rank == Some(rank)),
                _ => None,
            };
            let Some((&holder, &Trainer { last, .. })) = holder else {
                return Err(ClusterError::Refused(Box::new(refusal)).into());
            };
            sink(Event::RankHeld {
                rank: join.rank.unwrap_or_default(),
                seconds: self.cluster.lease.as_secs_f64(),
            });
            let started = Instant::now();
            while started.elapsed() < self.cluster.lease {
                let heard = self.cluster.live.heard();
                if heard.iter().any(|heard| heard.beat.token == holder) {
                    return Err(ClusterError::AtWork(Box::new(refusal)).into());
                }
                let record = self.ledger.refresh()?;
                if record.is_none_or(|record| !record.trainers().contains_key(&holder)) {
                    break;
                }
                self.pause()?;
            }
            let token = holder;
            if self.ledger.evict(Silent { token, last })? {
                self.files.forget(token)?;
            }
        }
    }
}

/// Checks that the run may go on from a checkpoint.
pub(super) fn admit(
    manifest: &Manifest,
    resolved: &Resolved,
    strategies: &Strategies,
    files: &SharedCheckpoint,
    allowed: Allowed,
) -> Result<Admitted, RunError> {
    let purpose = Purpose::Resume {
        strategies: &strategies.ids(),
        allowed,
    };
    identity::admit(resolved, files.path(), &manifest.run, &purpose)
}

/// 64 random bits.
pub(super) fn draw() -> Result<Token, RunError> {
    let bits = getrandom::u64().map_err(|e| ClusterError::NoRandomBits(e.to_string()))?;
    Ok(Token(bits))
}
