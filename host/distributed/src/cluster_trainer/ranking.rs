//! Validation in a distributed run: at the end of an epoch with validation, all trainers rank the validation edges
//! together.
//!
//! The leading trainer ensures that a checkpoint of the end of the epoch exists, and begins the ranking. Blocks of
//! edges are leased like buckets. Every trainer ranks with the tables and parameters of that checkpoint, so the ranks
//! of a block do not depend on the trainer. The ledger computes the consequences of the ranks, which every trainer
//! reports and applies.

use pbg_checkpoint::CheckpointManifest;
use pbg_core::event::Event;
use pbg_ledger::transport::TrainerActivity;
use pbg_ledger::{
    LONGEST_WAIT, LedgerAction, LedgerRecord, TransactionError, ValidationRanking,
    ValidationResult, ValidationTerms,
};
use pbg_model::error::{JoinError, RunError, SettingError};
use pbg_model::layout::TableKey;
use pbg_model::resolved::ResolvedConfig;
use pbg_model::state::RunState;
use pbg_model::{commit, model_bytes};
use pbg_query::evaluate::{
    EvalOptions, LastTable, ModelView, PartialEvaluation, TableSource, block_count,
};
use pbg_rows::params::Params;
use pbg_rows::table::Table;
use pbg_train::buffer::PartitionBuffer;
use pbg_train::validation;

use crate::ledger::NotApplied;
use crate::tables::ClusterTables;

use super::ClusterTrainer;
use super::joining::VISIBLE_WITHIN;

/// Returns the terms of validation, which the ledger compares, or `None` if the run does not validate.
///
/// # Errors
/// When the dataset lacks the edge set, or there are no edges to rank. This is checked before an epoch is trained.
pub(super) fn validation_terms(
    resolved: &ResolvedConfig,
) -> Result<Option<ValidationTerms>, RunError> {
    let config = resolved.config();
    validation::check(config, resolved.dataset())?;
    let Some(edges) = &config.validation.edges else {
        return Ok(None);
    };
    if resolved.dataset().edge_set(edges)?.is_empty() {
        return Err(SettingError::NoEdges {
            edge_set: edges.clone(),
            untrained: 0,
        }
        .into());
    }
    let rules = &config.validation;
    let all = |limit: Option<u32>| limit.map_or_else(|| "all".to_owned(), |n| n.to_string());
    let what = format!(
        "edges {edges}, limit {}, candidates {}, filter {}",
        all(rules.limit),
        all(rules.candidates),
        config.validation_filter().join(" ")
    );
    Ok(Some(ValidationTerms {
        what,
        interval: rules.interval,
        rules: rules.rules(),
    }))
}

impl ClusterTrainer<'_> {
    /// Reports a ranking that has ended since the last call, and applies the new learning rates.
    pub(super) fn report_ranks(&mut self, record: &LedgerRecord) -> Result<(), RunError> {
        let plateau = record.work().progress.plateau;
        if let Some(validated) = record.validated().filter(|v| v.epochs > self.rankings.told) {
            if std::mem::take(&mut self.rankings.may_have_missed) {
                self.tell_missed(validated.epochs);
            }
            let since = self.rankings.since.take();
            self.rankings.seconds =
                since.map_or(0.0, |since| pbg_clock::elapsed(since).as_secs_f64());
            self.rankings.told = validated.epochs;
            let event = self.ranks_found(record, validated);
            self.machine.emit(event);
        }
        if plateau.lr_factor < self.rankings.lr_factor {
            self.rankings.lr_factor = plateau.lr_factor;
            self.machine.set_rates(plateau.lr_factor);
        }
        Ok(())
    }

    /// Reports the rankings after the last reported one and before `last`, which ended while this trainer was away. The
    /// record has only the last one; checkpoints have appended the others to `metrics.jsonl`.
    fn tell_missed(&mut self, last: u32) {
        // They are only reported again: a file that cannot be read is no reason to end the run.
        let Ok(mut metrics) = self.files().read_metrics() else {
            return;
        };
        while let Ok(Some(line)) = metrics.next_line() {
            let Ok(event) = serde_json::from_slice(line) else {
                continue;
            };
            if let Event::Validated { epochs, .. } = event
                && (self.rankings.told + 1..last).contains(&epochs)
            {
                self.rankings.told = epochs;
                self.machine.emit(event);
            }
        }
    }

    /// Returns the event that a checkpoint of `record` appends to `metrics.jsonl`, if the previous version, with state
    /// `before`, does not have it.
    pub(super) fn ranks_since(
        &self,
        record: &LedgerRecord,
        before: Option<&RunState>,
    ) -> Option<Event> {
        let seen = before.map_or(0, |before| before.plateau.seen);
        let validated = record.validated().filter(|v| v.epochs > seen)?;
        Some(self.ranks_found(record, validated))
    }

    fn ranks_found(
        &self,
        record: &LedgerRecord,
        &ValidationResult { epochs, ranks }: &ValidationResult,
    ) -> Event {
        let plateau = record.work().progress.plateau;
        let edges = self.machine.config().validation.edges.clone();
        Event::Validated {
            epochs,
            edges: edges.unwrap_or_default(),
            ranks,
            best: plateau.best_epoch == epochs,
            lr_factor: plateau.lr_factor,
            seconds: self.rankings.seconds,
        }
    }

    /// Reports if the run ends before its last epoch.
    pub(super) fn tell_early_end(&mut self) -> Result<(), RunError> {
        let record = self.last_record()?;
        let (work, extent) = (record.work(), record.terms().extent);
        if work.enough && work.pass.epoch < extent.epochs {
            let plateau = work.progress.plateau;
            self.machine.emit(Event::StoppedEarly {
                epochs: plateau.seen,
                best_epoch: plateau.best_epoch,
                best_mrr: plateau.best_mrr,
            });
        }
        Ok(())
    }

    /// Performs the next step of the ranking that `record` waits for.
    pub(super) fn rank(&mut self, record: &LedgerRecord) -> Result<(), RunError> {
        self.rankings.since.get_or_insert_with(pbg_clock::now);
        let Some(ranking) = record.ranking() else {
            return self.begin_ranking(record);
        };
        if !record.free_blocks().is_empty() {
            // Outdated tables of other epochs are not needed for ranking, and would occupy the memory of those that are
            // read.
            let ledger = &self.ledger;
            let buffer = &mut self.machine.pipeline.buffer;
            buffer.drop_stale(|group| !ledger.is_current(group));
            return self.rank_blocks(ranking);
        }
        match record.outcome() {
            Some(_) if record.leads(self.token()) => self.end_ranking(record, ranking),
            _ => self.wait(LONGEST_WAIT),
        }
    }

    /// Begins a ranking of the checkpoint of the end of the epoch, after writing it if there is none. One trainer does
    /// this for all.
    fn begin_ranking(&mut self, record: &LedgerRecord) -> Result<(), RunError> {
        if !record.writes_checkpoints(self.token()) {
            return self.wait(LONGEST_WAIT);
        }
        let Some(version) = record.checkpoints().of_pass() else {
            return match self.checkpoint(record.work().pass)? {
                true => Ok(()),
                false => self.wait(LONGEST_WAIT),
            };
        };
        let options = self.validation_options();
        let set = self.machine.resolved.dataset().edge_set(&options.edges)?;
        let edges = options.limit.map_or(u64::MAX, |limit| limit as u64);
        let edges = edges.min(set.len());
        self.submit(LedgerAction::BeginRanking {
            epochs: record.work().pass.epoch,
            version,
            blocks: block_count(edges, record.trainers().len() as u64),
        })?;
        Ok(())
    }

    fn validation_options(&self) -> EvalOptions {
        let edges = self.machine.config().validation.edges.as_deref();
        validation::options(self.machine.resolved, edges.unwrap_or_default())
    }

    /// Ranks blocks while some are free.
    fn rank_blocks(&self, ranking: &ValidationRanking) -> Result<(), RunError> {
        let ranked = self.try_rank_blocks(ranking);
        // Files may be gone because the ranking has ended without this trainer. In that case, the error of the ledger
        // is reported instead.
        ranked.or_else(|error| {
            self.record()?;
            Err(error)
        })
    }

    fn try_rank_blocks(&self, ranking: &ValidationRanking) -> Result<(), RunError> {
        let (resolved, buffer) = (self.machine.resolved, &self.machine.pipeline.buffer);
        let Some(manifest) = self.manifest_of(ranking)? else {
            return Ok(());
        };
        let spec = &resolved.blueprint().spec;
        let mut params = Params::new(spec, resolved.config().seed);
        let most = model_bytes::parameter_file_bytes(spec);
        let files = &buffer.store().files;
        commit::read_model(files.read_model(&manifest, most)?, &mut params)?;
        let view = ModelView {
            dataset: resolved.dataset(),
            blueprint: resolved.blueprint(),
            params: &params,
            grown: None,
            seen: None,
        };
        let options = self.validation_options();
        let set = resolved.dataset().edge_set(&options.edges)?;
        let mut parts = PartialEvaluation::new(view, &set, &options, resolved.config().seed)?;
        let tables = &mut RankedCheckpoint {
            buffer,
            manifest: &manifest,
            held: LastTable::default(),
        };
        let size = parts.len().div_ceil(ranking.blocks.len().max(1) as u64);
        while !self.asked_to_stop()
            && let Some(block) = self.lease_block(ranking)?
        {
            self.watch.set_state(TrainerActivity::Validating, None);
            let start = (u64::from(block) * size).min(parts.len());
            let part = start..(start + size).min(parts.len());
            let sums = parts.sums(tables, part, &mut |_, _| ())?;
            let totals = Box::new(sums.map(|side| side.filtered));
            let ranked = LedgerAction::Ranked {
                ranking: ranking.id(),
                block,
                totals,
            };
            if !self.submit(ranked)? {
                break;
            }
        }
        Ok(())
    }

    /// Leases a free block. Returns `None` if there is none.
    fn lease_block(&self, ranking: &ValidationRanking) -> Result<Option<u32>, RunError> {
        let ranking = ranking.id();
        loop {
            let record = self.record()?;
            let trainers = record.trainers();
            // Each trainer starts at a different position, so that two trainers rarely ask for the same block.
            let place = trainers.keys().position(|token| *token == self.token());
            let free = record.free_blocks();
            let place = place.unwrap_or(0) * free.len() / trainers.len().max(1);
            let Some(&block) = free.get(place) else {
                return Ok(None);
            };
            match self
                .ledger
                .submit(LedgerAction::LeaseBlock { ranking, block })
            {
                Ok(_) => return Ok(Some(block)),
                Err(NotApplied::Refused(TransactionError::BlockTaken { .. })) => {}
                Err(NotApplied::Refused(_) | NotApplied::Abandoned) => return Ok(None),
                Err(NotApplied::Fatal(error)) => return Err(error.into()),
            }
        }
    }

    /// Returns the manifest of the checkpoint to rank, or `None` if the ranking has ended meanwhile. A folder that is
    /// shared over a network may show it late.
    fn manifest_of(
        &self,
        ranking: &ValidationRanking,
    ) -> Result<Option<CheckpointManifest>, RunError> {
        let started = pbg_clock::now();
        loop {
            let newest = self.files().newest()?;
            if let Some(manifest) = newest.filter(|m| m.version == ranking.version) {
                return Ok(Some(manifest));
            }
            let record = self.record()?;
            if record
                .ranking()
                .is_none_or(|r| r.version != ranking.version)
            {
                return Ok(None);
            }
            if pbg_clock::elapsed(started) > VISIBLE_WITHIN {
                let version = ranking.version;
                return Err(JoinError::NoManifest { version }.into());
            }
            pbg_clock::sleep(VISIBLE_WITHIN / 20);
        }
    }

    /// Ends a ranking. One trainer does this for all. The best model so far is preserved first: otherwise the ledger
    /// could name a best model that is lost with this trainer.
    fn end_ranking(
        &self,
        record: &LedgerRecord,
        ranking: &ValidationRanking,
    ) -> Result<(), RunError> {
        let is_best = record
            .outcome()
            .is_some_and(|(_, plateau)| plateau.is_best());
        let stops = self.machine.config().validation.early_stop.is_some();
        if is_best && stops {
            let Some(manifest) = self.manifest_of(ranking)? else {
                return Ok(());
            };
            let kept = self.files().preserve_best(&manifest);
            if let Err(error) = kept {
                // If this trainer was removed from the run, that is the error to report.
                self.record()?;
                return Err(error.into());
            }
        }
        self.submit(LedgerAction::EndRanking(ranking.id()))?;
        Ok(())
    }
}

/// The tables of a checkpoint. Tables that are unchanged in the buffer are used from there, the others are read from
/// files.
struct RankedCheckpoint<'a> {
    buffer: &'a PartitionBuffer<ClusterTables>,
    manifest: &'a CheckpointManifest,
    held: LastTable,
}

impl TableSource for RankedCheckpoint<'_> {
    fn table(&mut self, key: TableKey) -> Result<&Table, RunError> {
        let store = self.buffer.store();
        if let Some(table) = self.buffer.table(key).filter(|_| store.is_current(key)) {
            table.download()?;
            return Ok(table);
        }
        let manifest = self.manifest;
        self.held.or_read(key, || store.read_version(manifest, key))
    }
}
