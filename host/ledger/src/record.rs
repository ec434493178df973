//! The record: the position of the run, its trainers and its files.

use std::collections::BTreeMap;

use pbg_core::graph::{Bucket, SidePartition};
use pbg_core::loss::LossState;
use pbg_core::plateau::ValidationState;
use pbg_core::schedule::PassId;
use serde::{Deserialize, Serialize};

use super::{
    BucketState, BucketStates, CheckpointCut, Checkpoints, EventLogLength, FinishedEpoch, Grid,
    LedgerSums, PartitionServer, PartitionVersion, Phase, RunTerms, Token, Trainer,
    TransactionError, ValidationRanking, ValidationResult,
};

/// State that training changes apart from the embedding tables.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EpochProgress {
    /// Sums of the current epoch.
    pub sums: LedgerSums,
    /// Sums of the previous epoch, if this run has trained one.
    pub finished: Option<FinishedEpoch>,
    /// State of validation.
    pub plateau: ValidationState,
    /// State of the loss, if it has any.
    pub loss: Option<LossState>,
}

impl EpochProgress {
    /// Returns the first part with a number that JSON cannot represent.
    pub(super) fn not_finite(&self) -> Option<&'static str> {
        let Self {
            sums,
            finished,
            plateau,
            loss,
        } = self;
        let is_finite = |loss: &LossState| {
            loss.loss.is_finite() && loss.parameters.iter().all(|p| p.is_finite())
        };
        let finished = finished.is_none_or(|finished| finished.sums.is_finite());
        if !sums.is_finite() || !finished {
            return Some("a sum of the epoch");
        }
        if !plateau.best_mrr.is_finite() {
            return Some("a number of the validation state");
        }
        let is_lost = loss.as_ref().is_some_and(|loss| !is_finite(loss));
        is_lost.then_some("a number of the loss state")
    }
}

/// The training done so far and the files that contain it: the part of a record that a manifest preserves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainedState {
    /// The current pass.
    pub pass: PassId,
    /// Digest of its plan ([`super::plan_digest`]); none before a trainer opens the pass.
    pub plan: Option<u64>,
    /// State of each bucket of the pass; all are to do before the pass is opened.
    pub buckets: BucketStates,
    /// Swapped partitions, in the order of [`Grid::groups`].
    pub partitions: Vec<PartitionVersion>,
    /// State of training apart from the embedding tables.
    pub progress: EpochProgress,
    /// Whether validation ended training early.
    pub enough: bool,
    /// Valid lengths of event files that no checkpoint has taken over yet.
    pub told: BTreeMap<Token, EventLogLength>,
}

impl TrainedState {
    /// Creates the work of a run that has trained nothing.
    #[must_use]
    pub fn none(grid: &Grid) -> Self {
        Self {
            pass: PassId::default(),
            plan: None,
            buckets: BucketStates::to_do(grid.buckets()),
            partitions: vec![PartitionVersion::default(); grid.groups().count()],
            progress: EpochProgress::default(),
            enough: false,
            told: BTreeMap::new(),
        }
    }

    /// Returns the same work without leases: leased buckets are to do again.
    #[must_use]
    pub fn released(&self) -> Self {
        let mut work = self.clone();
        for index in 0..work.buckets.len() {
            if work.buckets.get(index) == Some(BucketState::Leased) {
                work.buckets.set(index, BucketState::ToDo);
            }
        }
        work
    }
}

/// State that the trainers of one run agree on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LedgerRecord {
    /// Terms of the run.
    pub(super) terms: RunTerms,
    /// Identifier of the run: 64 random bits.
    pub(super) run: Token,
    /// Identifier of the record's history, drawn by the trainer that created the record. Two records of one run belong
    /// to the same history only if it is equal.
    pub(super) incarnation: Token,
    /// Number of transactions applied to the record.
    pub(super) revision: u64,
    /// Number of trainers that the first lease waits for; 0 once they have joined.
    pub(super) wanted: u32,
    /// Whether the run is ending on request.
    pub(super) stopping: bool,
    /// The training done so far.
    pub(super) work: TrainedState,
    /// Trainers that take part in the run.
    pub(super) trainers: BTreeMap<Token, Trainer>,
    /// Partition servers of the run.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) servers: BTreeMap<Token, PartitionServer>,
    /// Newest durable checkpoint, and the checkpoints begun after it.
    pub(super) checkpoints: Checkpoints,
    /// Revision of the last transaction that changed what a checkpoint contains: a settlement, an advance to the next
    /// pass, or the end of a ranking.
    pub(super) changed: u64,
    /// Ranking in progress.
    pub(super) ranking: Option<ValidationRanking>,
    /// Result of the last ranking.
    pub(super) validated: Option<ValidationResult>,
}

/// Arguments for the creation of a record.
#[derive(Clone, Debug)]
pub struct Genesis {
    /// Terms of the run.
    pub terms: RunTerms,
    /// Identifier of the run.
    pub run: Token,
    /// Identifier of the new history: 64 random bits, drawn for this record.
    pub incarnation: Token,
    /// Number of trainers that the first lease waits for (`num_machines`).
    pub wanted: u32,
    /// Work of the newest manifest; [`TrainedState::none`] if there is no manifest.
    pub work: TrainedState,
    /// Cut of that manifest; none if there is no manifest.
    pub base: Option<CheckpointCut>,
    /// Partition servers of the record that this one replaces.
    pub servers: BTreeMap<Token, PartitionServer>,
}

impl LedgerRecord {
    /// Creates a record without trainers. The caller stores it in the register if that is empty or contains an invalid
    /// record ([`LedgerRecord::matches_manifest`]).
    ///
    /// # Errors
    /// Fails if the work does not fit the terms.
    pub fn create(founding: Genesis) -> Result<Self, super::DamagedRecord> {
        let mut work = founding.work.released();
        // Revisions start from 0 again.
        work.told.values_mut().for_each(|told| told.revision = 0);
        let record = Self {
            terms: founding.terms,
            run: founding.run,
            incarnation: founding.incarnation,
            revision: 0,
            wanted: founding.wanted,
            stopping: false,
            work,
            trainers: BTreeMap::new(),
            servers: founding.servers,
            checkpoints: Checkpoints::after(founding.base),
            changed: 0,
            ranking: None,
            validated: None,
        };
        record.check()?;
        Ok(record)
    }

    /// Returns the terms of the run.
    #[must_use]
    pub const fn terms(&self) -> &RunTerms {
        &self.terms
    }

    /// Returns the grid of buckets.
    #[must_use]
    pub const fn grid(&self) -> &Grid {
        &self.terms.grid
    }

    /// Returns the identifier of the run.
    #[must_use]
    pub const fn run(&self) -> Token {
        self.run
    }

    /// Returns the identifier of the record's history.
    #[must_use]
    pub const fn incarnation(&self) -> Token {
        self.incarnation
    }

    /// Returns the number of transactions applied to the record.
    #[must_use]
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the training done so far.
    #[must_use]
    pub const fn work(&self) -> &TrainedState {
        &self.work
    }

    /// Returns the trainers that take part in the run.
    #[must_use]
    pub const fn trainers(&self) -> &BTreeMap<Token, Trainer> {
        &self.trainers
    }

    /// Returns the partition servers of the run.
    #[must_use]
    pub const fn servers(&self) -> &BTreeMap<Token, PartitionServer> {
        &self.servers
    }

    /// Returns the checkpoints of the record.
    #[must_use]
    pub const fn checkpoints(&self) -> &Checkpoints {
        &self.checkpoints
    }

    /// Returns the ranking in progress.
    #[must_use]
    pub const fn ranking(&self) -> Option<&ValidationRanking> {
        self.ranking.as_ref()
    }

    /// Returns the result of the last ranking.
    #[must_use]
    pub const fn validated(&self) -> Option<&ValidationResult> {
        self.validated.as_ref()
    }

    /// Returns the phase of the run.
    #[must_use]
    pub fn phase(&self) -> Phase {
        let ranks = self.awaits_ranking();
        let is_trained = self.work.pass.epoch >= self.terms.extent.epochs || self.work.enough;
        let is_over = is_trained && !ranks;
        match (is_over, self.stopping, self.wanted, self.work.plan) {
            (true, ..) => Phase::Finished,
            (_, true, ..) => Phase::Stopping,
            (_, _, 1.., _) => Phase::Gathering(self.wanted),
            _ if ranks => Phase::Ranking,
            (_, _, _, None) => Phase::Opening,
            _ if self.work.buckets.all_done() => Phase::PassDone,
            _ => Phase::Training,
        }
    }

    /// Returns the partition `group`, or `None` if it is not swapped.
    #[must_use]
    pub fn partition(&self, group: SidePartition) -> Option<&PartitionVersion> {
        self.work.partitions.get(self.grid().group_index(group)?)
    }

    /// Returns the trainer that holds the partition `group`: the one with a lease of a bucket that needs it.
    #[must_use]
    pub fn holder(&self, group: SidePartition) -> Option<Token> {
        let holds = |trainer: &Trainer| {
            let mut leases = trainer.leases.iter();
            leases.any(|bucket| self.grid().partitions_of(*bucket).any(|need| need == group))
        };
        let holder = self.trainers.iter().find(|(_, trainer)| holds(trainer));
        holder.map(|(token, _)| *token)
    }

    /// Returns the state of `bucket`, or `None` outside the grid.
    #[must_use]
    pub fn state(&self, bucket: Bucket) -> Option<BucketState> {
        self.work.buckets.get(self.grid().index(bucket)?)
    }

    /// Returns the buckets in `state`, in the order of their indices.
    pub(super) fn in_state(&self, state: BucketState) -> impl Iterator<Item = Bucket> + '_ {
        let states = self.work.buckets.iter().enumerate();
        let found = states.filter(move |(_, found)| *found == state);
        found.map(|(index, _)| self.grid().bucket(index))
    }

    /// Returns the trainer with `token`.
    ///
    /// # Errors
    /// [`TransactionError::Fenced`] if it is not part of the run.
    pub(super) fn trainer(&mut self, token: Token) -> Result<&mut Trainer, TransactionError> {
        self.trainers
            .get_mut(&token)
            .ok_or(TransactionError::Fenced { token })
    }
}
