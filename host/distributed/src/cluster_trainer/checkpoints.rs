//! Checkpoints of a distributed run, written by one trainer while the others continue.
//!
//! A checkpoint describes one revision of the ledger. The partition files that it names are durable before it begins,
//! and are kept as long as a valid record may name them. The order is: write the parameters, write the manifest under
//! its version number, submit `Committed` to the ledger, make the manifest the current one.

use pbg_checkpoint::manifest::RunInfo;
use pbg_checkpoint::{CheckpointManifest, TensorRef, shared};
use pbg_core::event::Event;
use pbg_core::graph::SidePartition;
use pbg_core::schedule::PassId;
use pbg_core::strategy::Loss as _;
use pbg_ledger::{BucketState, CheckpointCut, FileId, LedgerAction, LedgerRecord, Token};
use pbg_model::commit;
use pbg_model::error::{JoinError, RunError};
use pbg_model::layout::TableKey;
use pbg_model::tables::with_data;
use std::sync::Arc;

use super::ClusterTrainer;
use super::event_log::in_json;
use crate::conversion::{state_of, stored_state};
use crate::ledger::NotApplied;

/// How often a record that other trainers keep changing is compared with the newest manifest before giving up.
const ATTEMPTS: usize = 100;

impl ClusterTrainer<'_> {
    /// Returns the version of the newest checkpoint, or 0 before the first.
    pub(super) fn newest_version(&self) -> Result<u64, RunError> {
        let newest = self.files().newest()?;
        Ok(newest.map_or(0, |manifest| manifest.version))
    }

    /// Makes the newest checkpoint current, if the trainer that has published it died before it could.
    pub(super) fn make_newest_current(&self) -> Result<(), RunError> {
        match self.files().newest()? {
            Some(manifest) => Ok(self.files().make_current(&manifest)?),
            None => Ok(()),
        }
    }

    /// Whether an epoch has ended and no checkpoint has its final state, or has its validation ranks where there are
    /// some.
    pub(super) fn epoch_is_uncommitted(&self, record: &LedgerRecord) -> Result<bool, RunError> {
        let pass = record.work().pass;
        if !is_between_epochs(record) {
            return Ok(false);
        }
        let newest = self.files().newest()?;
        let Some(manifest) = newest else {
            return Ok(true);
        };
        let state = stored_state(&manifest, &self.machine.config().checkpoint_path)?;
        let seen = record.work().progress.plateau.seen;
        Ok(state.schedule.pass().epoch < pass.epoch || state.plateau.seen < seen)
    }

    /// Writes a checkpoint if the checkpoint interval has passed and this trainer is responsible for checkpoints.
    pub(super) fn checkpoint_if_due(&mut self) -> Result<(), RunError> {
        let interval = self.machine.config().checkpoint_interval.unwrap_or(600.0);
        if pbg_clock::elapsed(self.last_checkpoint).as_secs_f64() < interval {
            return Ok(());
        }
        self.last_checkpoint = pbg_clock::now();
        let record = self.record()?;
        match record.writes_checkpoints(self.token()) && has_untrained_buckets(&record) {
            true => self.checkpoint(record.work().pass).map(|_| ()),
            false => Ok(()),
        }
    }

    /// Writes a checkpoint of the current ledger, which must still be in `pass`. Returns whether it did. It does not if
    /// another trainer writes or has written this checkpoint, if the run has advanced to another pass, or while edges
    /// are being ranked with the newest checkpoint.
    pub(super) fn checkpoint(&mut self, pass: PassId) -> Result<bool, RunError> {
        let started = pbg_clock::now();
        self.exchange_parameters();
        let tables = self.machine.pipeline.buffer.store();
        let listed = tables.files.list()?;
        let (tellers, signs) = (
            tables.files.event_writers()?,
            tables.files.present_trainers()?,
        );
        let (_, before) = self.require_consistent(self.record()?)?;
        let newest = before.as_ref().map(CheckpointManifest::cut);
        let record = match self
            .ledger
            .submit(LedgerAction::Checkpoint { pass, newest })
        {
            Ok(record) => record,
            Err(NotApplied::Refused(_) | NotApplied::Abandoned) => return Ok(false),
            Err(NotApplied::Fatal(error)) => return Err(error.into()),
        };
        // If the answer was lost, others may have settled since. This record is then not the one that the checkpoint
        // describes.
        let own = record.checkpoint_in_progress();
        let own = own.filter(|(token, cut)| *token == self.token() && cut.is_of(&record));
        let Some((_, cut)) = own else {
            return Ok(false);
        };
        let mut manifest = self.manifest(&record, cut)?;
        self.take_over_told(&record, cut, before.as_ref(), &mut manifest)?;
        let tables = self.machine.pipeline.buffer.store();
        tables.store_partitions(&manifest)?;
        // This must precede `publish`: if this trainer died after publishing, no other trainer would preserve the
        // version.
        let kept_epoch = self.preserve_epoch(&record, &manifest)?;
        // Writing the files took a while. Another trainer may have taken over the checkpoint meanwhile.
        let (now, _) = self.require_consistent(Arc::clone(&record))?;
        if now.checkpoint_in_progress() != Some((self.token(), cut)) {
            return Ok(false);
        }
        let files = self.files();
        files.publish(&manifest)?;
        self.submit(LedgerAction::Committed(cut))?;
        files.make_current(&manifest)?;
        let kept: Vec<&CheckpointManifest> = before.iter().chain([&manifest]).collect();
        files.remove_garbage(
            &listed,
            &kept,
            |entity_type, partition, id| self.is_garbage(&record, entity_type, partition, id),
            |writer| !record.trainers().contains_key(&writer),
        )?;
        let newest = self.last_record()?;
        self.machine
            .pipeline
            .buffer
            .store()
            .drop_stored(&kept, &newest);
        self.remove_logs(&tellers, &newest)?;
        if let Some(before) = &before {
            files.trim_events(&before.told)?;
        }
        self.remove_signs(&signs)?;
        self.last_checkpoint = pbg_clock::now();
        self.report_checkpoint(&manifest, pbg_clock::elapsed(started).as_secs_f64())?;
        if let Some(epoch) = kept_epoch {
            self.machine.emit(Event::Preserved { epoch });
        }
        Ok(true)
    }

    /// Reports the checkpoint of `manifest`, which took `seconds`.
    fn report_checkpoint(
        &mut self,
        manifest: &CheckpointManifest,
        seconds: f64,
    ) -> Result<(), RunError> {
        let committed = Event::Committed {
            version: manifest.version,
            seconds,
            writing_seconds: 0.0,
        };
        self.report(committed, None);
        // The next checkpoint copies these lines from the log. The last checkpoint of a run has no successor, so the
        // lines are appended here as well.
        let of_checkpoint = self.unsettled_lines.iter().filter(|line| {
            matches!(
                line.event,
                Event::Committed { .. } | Event::BucketsSettled { .. }
            )
        });
        let lines = in_json(of_checkpoint)?;
        Ok(self.files().append_metrics(manifest, &lines)?)
    }

    /// Checks that the record is consistent with the newest manifest. If the register was reset to an older record,
    /// files that it names may be gone, and a manifest of such a record must not become the newest. Returns a
    /// consistent record (a newer one if another trainer has changed it meanwhile) and the newest manifest.
    pub(super) fn require_consistent(
        &self,
        mut record: Arc<LedgerRecord>,
    ) -> Result<(Arc<LedgerRecord>, Option<CheckpointManifest>), RunError> {
        let mut attempts = 0;
        loop {
            let newest = self.files().newest()?;
            let Err(stale) = record.matches_manifest(newest.as_ref().map(CheckpointManifest::cut))
            else {
                return Ok((record, newest));
            };
            // Another trainer may have begun and written a checkpoint since the record was read.
            let again = self.record()?;
            attempts += 1;
            if again.revision() == record.revision() || attempts == ATTEMPTS {
                return Err(JoinError::from(stale).into());
            }
            record = again;
        }
    }

    /// Removes the sign files of trainers that were removed from the run, or that died before they joined. `signs` are the
    /// files that existed before this checkpoint began. A trainer that joins later writes its file again; the file of one
    /// that joined meanwhile is restored here. A trainer that is still heard keeps its file: the register may lose that
    /// it was removed.
    pub(super) fn remove_signs(&self, signs: &[Token]) -> Result<(), RunError> {
        let files = self.files();
        let record = self.record()?;
        let heard = self.cluster.live.heartbeats();
        let is_heard = |token: &Token| {
            let mut of_token = heard.iter().filter(|heard| heard.beat.token == *token);
            of_token.any(|heard| heard.ago < self.cluster.lease)
        };
        let is_stranger =
            |token: &&Token| !record.trainers().contains_key(token) && !is_heard(token);
        let strangers: Vec<&Token> = signs.iter().filter(is_stranger).collect();
        for token in &strangers {
            files.remove_presence(**token)?;
        }
        if strangers.is_empty() {
            return Ok(());
        }
        let record = self.record();
        // If the ledger does not answer, any of them may have joined.
        let may_have_come = |token: &&&Token| {
            let record = record.as_ref();
            record.map_or(true, |record| record.trainers().contains_key(token))
        };
        for token in strangers.iter().filter(may_have_come) {
            files.create_presence(**token)?;
        }
        record.map(drop)
    }

    /// Preserves the checkpoint of the end of an epoch if `checkpoint_preservation_interval` asks for it. This happens
    /// before the version is published, so that another trainer repeats both steps if this one dies. Returns the
    /// preserved epoch.
    fn preserve_epoch(
        &self,
        record: &LedgerRecord,
        manifest: &CheckpointManifest,
    ) -> Result<Option<u32>, RunError> {
        let pass = record.work().pass;
        let interval = self.machine.config().checkpoint_preservation_interval;
        let is_due = interval.is_some_and(|n| pass.epoch.is_multiple_of(n));
        if !is_due || !is_between_epochs(record) {
            return Ok(None);
        }
        let files = self.files();
        files.preserve(manifest, pass.epoch)?;
        Ok(Some(pass.epoch))
    }

    pub(super) fn is_garbage(
        &self,
        record: &LedgerRecord,
        entity_type: &str,
        partition: u32,
        id: FileId,
    ) -> bool {
        let layout = &self.machine.blueprint().layout;
        let groups = record.grid().groups();
        let key = layout.types.iter().position(|t| t.name == entity_type);
        let Some(key) = key.map(|entity| (entity, partition)) else {
            return false;
        };
        if layout.fixed_tables().any(|fixed| fixed == key) {
            // The ledger does not track this table. Files of versions before the base are no longer needed.
            return record
                .checkpoints()
                .base()
                .is_some_and(|base| id.version < base.version);
        }
        let place = |group: SidePartition| {
            let at = layout.group_tables(group).position(|k| k == key)?;
            Some((group, at))
        };
        let place = groups.into_iter().find_map(place);
        place.is_some_and(|(group, at)| record.is_garbage(group, at, id))
    }

    /// Builds the manifest of `record`, whose checkpoint is `cut`. Writes partitions that were never trained in their
    /// initial state.
    fn manifest(
        &self,
        record: &LedgerRecord,
        cut: CheckpointCut,
    ) -> Result<CheckpointManifest, RunError> {
        let layout = &self.machine.blueprint().layout;
        let tables = self.machine.pipeline.buffer.store();
        let mut files = std::collections::BTreeMap::new();
        for group in record.grid().groups() {
            let recorded = record.partition(group);
            for (at, key) in layout.group_tables(group).enumerate() {
                let file = recorded.and_then(|p| p.files.get(at)).copied();
                let file = file.map_or_else(|| self.write_initial(key, cut.version), Ok)?;
                let name = &layout.types[key.0].name;
                files.extend([shared::manifest_entry(name, key.1, &file)]);
            }
        }
        // This trainer's own copy, to which the updates of the other trainers were added.
        for key in layout.fixed_tables() {
            let Some(table) = self.machine.pipeline.buffer.table(key) else {
                continue;
            };
            let file = tables.write(key, table, cut.version)?;
            let name = &layout.types[key.0].name;
            files.extend([shared::manifest_entry(name, key.1, &file)]);
        }
        let model = commit::model(&self.machine.params);
        let tensors: Vec<TensorRef<'_>> = model.iter().map(TensorRef::from).collect();
        files.extend([tables.files.write_model(cut.version, &tensors)?]);
        let mut state = state_of(record, layout);
        if let Some(loss) = self.machine.strategies.loss.state() {
            // The newest state that this trainer has received. The ledger only has the state at the owner's last
            // settlement.
            state.loss = Some(loss);
        }
        let state =
            serde_json::to_value(&state).map_err(|e| RunError::Unwritable(e.to_string()))?;
        let run = commit::run_info(self.machine.resolved, self.machine.strategies.ids())?;
        Ok(CheckpointManifest {
            version: cut.version,
            run: RunInfo { state, ..run },
            metrics_length: 0,
            files,
            cut: Some(cut),
            told: Default::default(),
        })
    }

    fn write_initial(
        &self,
        key: TableKey,
        version: u64,
    ) -> Result<pbg_ledger::PartitionFile, RunError> {
        let tables = self.machine.pipeline.buffer.store();
        let layout = &self.machine.blueprint().layout.types[key.0];
        let data = tables.initial().partition(layout, key.0, key.1)?;
        Ok(with_data(layout, &data, |rows| {
            tables
                .files
                .write_partition(&layout.name, key.1, version, rows)
        })?)
    }
}

/// Whether an epoch has ended and the next has not begun.
fn is_between_epochs(record: &LedgerRecord) -> bool {
    let pass = record.work().pass;
    pass.epoch > 0 && (pass.edge_set, pass.edge_chunk) == (0, 0) && record.work().plan.is_none()
}

/// Whether the pass has buckets that are not trained yet, leased ones included.
fn has_untrained_buckets(record: &LedgerRecord) -> bool {
    let buckets = &record.work().buckets;
    buckets.count(BucketState::ToDo) + buckets.count(BucketState::Leased) > 0
}
