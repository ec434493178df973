//! Joining a run: finding or creating a record that is consistent with the checkpoint folder, and joining it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use pbg_checkpoint::{CheckpointManifest, SharedCheckpoint};
use pbg_core::event::Event;
use pbg_ledger::{
    CheckpointCut, Genesis, Join, LedgerAction, LedgerRecord, RunTerms, SilentTrainer, Token,
    TrainedState, Trainer, TransactionError,
};
use pbg_model::compatibility::{self, AcceptedDifferences, AllowedChanges, OpenPurpose};
use pbg_model::error::{JoinError, RunError};
use pbg_model::resolved::ResolvedConfig;
use pbg_train::Strategies;
use pbg_train::commit_metadata::reset_changed;

use super::growth;
use crate::cluster_options::ClusterOptions;
use crate::conversion::{stored_state, work_of};
use crate::ledger::{LedgerClient, NotApplied};
use crate::random_token::random_token;

/// Longest delay until a shared folder shows what another machine has written to it.
pub(super) const VISIBLE_WITHIN: Duration = Duration::from_secs(5);

/// How often creating or joining the record is retried while other trainers change it.
const ATTEMPTS: usize = 100;

/// Everything that the record is checked against when a trainer joins.
pub(crate) struct Joining<'a> {
    pub(crate) resolved: &'a ResolvedConfig,
    pub(crate) strategies: &'a Strategies,
    pub(crate) cluster: &'a ClusterOptions,
    /// Set when this trainer must stop; it does not join then.
    pub(crate) stop: &'a AtomicBool,
    pub(crate) ledger: &'a LedgerClient,
    pub(crate) files: &'a SharedCheckpoint,
    pub(crate) terms: &'a RunTerms,
    /// Whether the model has shared parameters. Only trainers and checkpoints hold these; the ledger does not.
    pub(crate) shares_parameters: bool,
    /// Differences from the configuration of the newest checkpoint that are allowed.
    pub(crate) allowed: AllowedChanges,
    /// Token of this trainer when it was part of the run before.
    pub(crate) earlier: Option<Token>,
    /// History of a record that names a file which no partition server has; it is dropped.
    pub(crate) lost: Option<Token>,
    /// Whether the validation edges differ from those that the newest checkpoint was ranked with.
    pub(crate) other_validation: bool,
}

/// A record that is consistent with the newest checkpoint.
pub(crate) struct ConsistentRecord {
    /// Identity of the record's history.
    pub(crate) incarnation: Token,
    /// The newest manifest, which the record was checked against; `None` before the first checkpoint.
    pub(crate) newest: Option<CheckpointCut>,
    /// Differences from the checkpoint that the record was created from; `None` if the record existed.
    pub(crate) changes: Option<AcceptedDifferences>,
}

/// Result of checking the record in the register.
enum RecordCheck {
    /// The record is used as it is.
    Valid,
    /// The record is replaced by one with the same work and this trainer's terms.
    NewTerms(Box<TrainedState>, Option<CheckpointCut>),
    /// Everything in the record is in the newest checkpoint. A new record is created from that, with this trainer's
    /// terms.
    Saved,
    /// The record is dropped for this reason, and the run continues from the newest checkpoint.
    Dropped(String),
}

impl Joining<'_> {
    /// Ensures that the register has a record that is consistent with the newest checkpoint, and returns it.
    ///
    /// # Errors
    /// When the register does not answer, or the checkpoint cannot be read.
    fn ensure_record(&self, sink: &mut dyn FnMut(Event)) -> Result<ConsistentRecord, RunError> {
        for _ in 0..ATTEMPTS {
            let record = self.ledger.refresh()?;
            if let Some(record) = &record
                && self.end_all_silent(record)?
            {
                continue;
            }
            let newest = self.files.newest()?;
            let cut = newest.as_ref().map(CheckpointManifest::cut);
            let is_lost = record
                .as_ref()
                .is_some_and(|r| Some(r.incarnation()) == self.lost);
            let verdict = match &record {
                Some(_) if is_lost => {
                    let reason = "a partition that it names was lost with its partition server";
                    Some(RecordCheck::Dropped(reason.to_owned()))
                }
                Some(record) => Some(self.check_record(record, cut)?),
                None => None,
            };
            let found = |record: &LedgerRecord, changes| ConsistentRecord {
                incarnation: record.incarnation(),
                newest: cut,
                changes,
            };
            if let (Some(RecordCheck::Dropped(_)), Some(record), false) =
                (&verdict, &record, is_lost)
                && self.is_still_in_use(record)?
            {
                continue;
            }
            if let (Some(RecordCheck::Valid), Some(record)) = (&verdict, &record) {
                return Ok(found(record, None));
            }
            let ((mut work, admitted), base, replaced) = match verdict {
                Some(RecordCheck::NewTerms(work, base)) => ((*work, None), base, None),
                Some(RecordCheck::Dropped(reason)) => {
                    (self.work_of_newest(newest.as_ref())?, cut, Some(reason))
                }
                _ => (self.work_of_newest(newest.as_ref())?, cut, None),
            };
            let plateau = &mut work.progress.plateau;
            if self.other_validation {
                plateau.forget_best();
            }
            let validation = self.terms.validation.as_ref();
            work.enough = validation.is_some_and(|v| plateau.ends(&v.rules));
            let founding = Genesis {
                terms: self.terms.clone(),
                run: record
                    .as_ref()
                    .map_or_else(random_token, |record| Ok(record.run()))?,
                incarnation: random_token()?,
                // A run that goes on after a loss does not wait for the machine that was lost.
                wanted: if is_lost { 0 } else { self.cluster.machines },
                work,
                base,
                servers: record
                    .as_ref()
                    .map(|r| r.servers().clone())
                    .unwrap_or_default(),
            };
            let made = LedgerRecord::create(founding).map_err(JoinError::from)?;
            if self.ledger.create(record.as_deref(), &made)? {
                if let Some(reason) = replaced {
                    let version = cut.map_or(0, |cut| cut.version);
                    sink(Event::LedgerReplaced { reason, version });
                }
                return Ok(found(&made, admitted));
            }
        }
        Err(JoinError::NoRecord.into())
    }

    /// Checks whether a record is consistent with the newest checkpoint, the files in the folder, and this
    /// configuration.
    ///
    /// # Errors
    /// When the folder cannot be read.
    fn check_record(
        &self,
        record: &LedgerRecord,
        newest: Option<CheckpointCut>,
    ) -> Result<RecordCheck, RunError> {
        if let Err(stale) = record.matches_manifest(newest) {
            return Ok(RecordCheck::Dropped(stale.to_string()));
        }
        // While it has trainers, the run is theirs: this trainer must not replace the record.
        let mut others = record.trainers().keys();
        if others.any(|token| Some(*token) != self.earlier) {
            return Ok(RecordCheck::Valid);
        }
        if self.shares_parameters && !record.is_saved() {
            let reason = "all trainers ended before their shared parameters were in a checkpoint";
            return Ok(RecordCheck::Dropped(reason.to_owned()));
        }
        if let Some(missing) = self.missing(record)? {
            let reason = format!("the file {missing}, which the ledger names, is missing");
            return Ok(RecordCheck::Dropped(reason));
        }
        let base = record.checkpoints().base();
        Ok(match record.terms() == self.terms {
            true => RecordCheck::Valid,
            false if record.is_saved() && base == newest => RecordCheck::Saved,
            false if self.can_continue(record.terms()) && base == newest => {
                RecordCheck::NewTerms(Box::new(record.work().clone()), base)
            }
            // The first difference is reported when this trainer tries to join.
            false => RecordCheck::Valid,
        })
    }

    /// Whether a run with `terms` may continue with the terms of this trainer.
    fn can_continue(&self, terms: &RunTerms) -> bool {
        let mut succeeded = terms.clone();
        succeeded.extent.epochs = self.terms.extent.epochs;
        succeeded.polls = self.terms.polls;
        succeeded.validation.clone_from(&self.terms.validation);
        if self.allowed.plugin_change {
            succeeded.plugins.clone_from(&self.terms.plugins);
        }
        succeeded == *self.terms
    }

    /// Returns the first partition file that the record names and the folder lacks.
    fn missing(&self, record: &LedgerRecord) -> Result<Option<String>, RunError> {
        self.files.use_servers(record.servers());
        let grid = record.grid();
        for group in grid.groups() {
            let Some(partition) = record.partition(group) else {
                continue;
            };
            for (file, table) in partition.files.iter().zip(&grid.tables[group.0 as usize]) {
                if let Some(name) = self.files.missing(table, group.1, file)? {
                    return Ok(Some(name));
                }
            }
        }
        Ok(None)
    }

    /// Reads the work of the newest checkpoint and the differences between it and this configuration. If the dataset
    /// has grown, partitions that lack rows are rewritten with them.
    fn work_of_newest(
        &self,
        newest: Option<&CheckpointManifest>,
    ) -> Result<(TrainedState, Option<AcceptedDifferences>), RunError> {
        let Some(manifest) = newest else {
            return Ok((TrainedState::none(&self.terms.grid), None));
        };
        let (resolved, files) = (self.resolved, self.files);
        let admitted = check_resume(manifest, resolved, self.strategies, files, self.allowed)?;
        let mut state = stored_state(manifest, &resolved.config().checkpoint_path)?;
        reset_changed(&mut state, &admitted);
        let (pass, epochs) = (state.schedule.pass(), self.terms.extent.epochs);
        let is_between = (pass.edge_set, pass.edge_chunk) == (0, 0) && state.schedule.needs_plan();
        if pass.epoch >= epochs && !is_between {
            let epoch = pass.epoch + 1;
            return Err(JoinError::Beyond { epoch, epochs }.into());
        }
        let layout = &resolved.blueprint().layout;
        let mut work = work_of(manifest, &state, layout);
        let new = growth::new_rows(resolved, manifest)?;
        growth::grow(&new, layout, files, &mut work)?;
        Ok((work, Some(admitted)))
    }

    /// Finds or creates the record, and joins it. Returns the record, and the differences from the checkpoint if this
    /// trainer created the record from one.
    ///
    /// # Errors
    /// When the run refuses this trainer, or the register does not answer.
    pub(crate) fn join(
        &self,
        instead_of: Option<Token>,
        sink: &mut dyn FnMut(Event),
    ) -> Result<(Arc<LedgerRecord>, Option<AcceptedDifferences>), RunError> {
        let mut changes = None;
        for _ in 0..ATTEMPTS {
            let found = self.ensure_record(sink)?;
            changes = found.changes.or(changes);
            self.check_folder_shared()?;
            self.require_exchange()?;
            let join = Join {
                terms: self.terms.clone(),
                name: self.cluster.name.clone(),
                rank: self.cluster.rank,
                instead_of,
                incarnation: found.incarnation,
                newest: found.newest,
            };
            if let Some(record) = self.submit_join(join, sink)? {
                // Another trainer has joined at the same time.
                if let Err(error) = self.require_exchange() {
                    // If this fails, the others remove it once it is silent.
                    let _left = self.ledger.submit(LedgerAction::Leave);
                    return Err(error);
                }
                return Ok((record, changes));
            }
        }
        Err(JoinError::NoRecord.into())
    }

    /// Checks that shared parameters can be exchanged if there is another trainer.
    ///
    /// # Errors
    /// When they cannot.
    fn require_exchange(&self) -> Result<(), RunError> {
        if !self.shares_parameters || self.cluster.live.carries_questions() {
            return Ok(());
        }
        let record = self.ledger.last_record();
        let others = record.iter().flat_map(|record| record.trainers().iter());
        // A trainer with the same rank is judged when this one joins.
        let is_other = |(token, trainer): &(&Token, &Trainer)| {
            **token != self.ledger.token() && trainer.rank != self.cluster.rank
        };
        match others.filter(is_other).count() {
            0 => Ok(()),
            _ => Err(JoinError::NoExchange.into()),
        }
    }

    /// Joins. Returns `None` if the record has been replaced since it was checked, or is no longer consistent with the
    /// newest checkpoint. If the rank is taken by a silent trainer, waits until that one counts as dead and removes it:
    /// usually it was stopped or died, and the same command was given again.
    ///
    /// # Errors
    /// When the run refuses this trainer, or the register does not answer.
    fn submit_join(
        &self,
        join: Join,
        sink: &mut dyn FnMut(Event),
    ) -> Result<Option<Arc<LedgerRecord>>, RunError> {
        loop {
            let refusal = match self
                .ledger
                .submit(LedgerAction::Join(Box::new(join.clone())))
            {
                Ok(record) => {
                    self.files.create_presence(self.ledger.token())?;
                    return Ok(Some(record));
                }
                Err(NotApplied::Refused(
                    TransactionError::Incarnation { .. } | TransactionError::Stale(_),
                )) => {
                    return Ok(None);
                }
                Err(NotApplied::Refused(refusal)) => refusal,
                Err(denied) => return Err(denied.into_error().into()),
            };
            let record = self.ledger.last_record();
            let mut trainers = record.iter().flat_map(|record| record.trainers());
            let holder = match refusal {
                TransactionError::RankTaken { rank, .. } => {
                    trainers.find(|(_, t)| t.rank == Some(rank))
                }
                _ => None,
            };
            let Some((&holder, &Trainer { last, .. })) = holder else {
                return Err(JoinError::Refused(Box::new(refusal)).into());
            };
            sink(Event::RankHeld {
                rank: join.rank.unwrap_or_default(),
                seconds: self.cluster.lease.as_secs_f64(),
            });
            let started = pbg_clock::now();
            while pbg_clock::elapsed(started) < self.cluster.lease {
                let heard = self.cluster.live.heartbeats();
                if heard.iter().any(|heard| heard.beat.token == holder) {
                    return Err(JoinError::AtWork(Box::new(refusal)).into());
                }
                let record = self.ledger.refresh()?;
                if record.is_none_or(|record| !record.trainers().contains_key(&holder)) {
                    break;
                }
                self.pause()?;
            }
            let token = holder;
            self.ledger.evict(SilentTrainer { token, last })?;
        }
    }
}

/// Checks that the run may continue from a checkpoint.
pub(crate) fn check_resume(
    manifest: &CheckpointManifest,
    resolved: &ResolvedConfig,
    strategies: &Strategies,
    files: &SharedCheckpoint,
    allowed: AllowedChanges,
) -> Result<AcceptedDifferences, RunError> {
    let purpose = OpenPurpose::Resume {
        strategies: &strategies.ids(),
        allowed,
    };
    compatibility::check_compatibility(resolved, files.path(), &manifest.run, &purpose)
}
