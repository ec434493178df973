//! The record: where the run is, who takes part, which files it has.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{
    BucketState, Buckets, Checkpoints, Cut, Finished, Grid, Partition, Ranking, Refusal, Terms,
    Token, Told, Trainer, Validated,
};
use crate::event::{CallSeconds, IoStats, RankStats, TrainStats};
use crate::graph::{Bucket, SidePartition};
use crate::loss::LossState;
use crate::plateau::Plateau;
use crate::schedule::PassId;

/// Version of the record and its transactions. It grows with every change that a program of the old version would
/// misread.
pub const PROTOCOL: u32 = 1;

/// Sums over the buckets of an epoch that are done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Sums {
    /// Of training.
    pub train: TrainStats,
    /// Ranks of held-out edges before their bucket was trained.
    pub eval_before: RankStats,
    /// Traffic of partitions, of all trainers.
    pub io: IoStats,
    /// Seconds of training, of all trainers.
    pub seconds: f64,
    /// Seconds that strategies took.
    pub calls: CallSeconds,
}

impl Sums {
    /// Adds what another bucket gave.
    pub fn add(&mut self, other: &Self) {
        self.train.add(&other.train);
        self.eval_before = self.eval_before.merge(&other.eval_before);
        self.io.add(&other.io);
        self.seconds += other.seconds;
        self.calls.add(&other.calls);
    }

    /// Whether every number is finite. Others have no form in JSON.
    #[must_use]
    pub fn is_finite(&self) -> bool {
        let Self {
            train,
            eval_before,
            io,
            seconds,
            calls,
        } = self;
        let numbers = [
            train.loss,
            train.reg,
            io.wait_seconds,
            io.commit_seconds,
            *seconds,
            calls.order,
            calls.sampler,
        ];
        eval_before.is_finite() && numbers.iter().all(|number| number.is_finite())
    }
}

/// What was learned beside the tables.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Progress {
    /// Sums of the current epoch.
    pub sums: Sums,
    /// What the epoch before it gave, where this run has trained one.
    pub finished: Option<Finished>,
    /// What validation said so far.
    pub plateau: Plateau,
    /// What the loss remembers, where it does.
    pub loss: Option<LossState>,
}

impl Progress {
    /// The first part with a number that has no form in JSON; none if all have.
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
        if !(plateau.best_mrr.is_finite() && plateau.lr_factor.is_finite()) {
            return Some("what validation said");
        }
        let is_lost = loss.as_ref().is_some_and(|loss| !is_finite(loss));
        is_lost.then_some("what the loss remembers")
    }
}

/// What is trained, and the files that it is in: what a manifest keeps of a revision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Work {
    /// The current pass.
    pub pass: PassId,
    /// Digest of its plan ([`super::plan_digest`]); none before somebody opened it.
    pub plan: Option<u64>,
    /// Where each bucket of the pass is; all to do before it is open.
    pub buckets: Buckets,
    /// Partitions that are held, in the order of [`Grid::groups`].
    pub partitions: Vec<Partition>,
    /// What was learned beside them.
    pub progress: Progress,
    /// Whether validation said that more training does not help.
    pub enough: bool,
    /// How far the files of events count that checkpoints have not taken over.
    pub told: BTreeMap<Token, Told>,
}

impl Work {
    /// Nothing trained yet.
    #[must_use]
    pub fn none(grid: &Grid) -> Self {
        Self {
            pass: PassId::default(),
            plan: None,
            buckets: Buckets::to_do(grid.buckets()),
            partitions: vec![Partition::default(); grid.groups().count()],
            progress: Progress::default(),
            enough: false,
            told: BTreeMap::new(),
        }
    }

    /// The same, when nobody has a bucket: what was leased is to do again.
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

/// What trainers may do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Waiting for this many trainers in all.
    Gathering(u32),
    /// Waiting for the plan of the pass.
    Opening,
    /// Buckets are given out.
    Training,
    /// Every bucket of the pass is done.
    PassDone,
    /// An epoch has ended, and validation edges are to be ranked.
    Ranking,
    /// No bucket is given out any more: the run ends on request.
    Stopping,
    /// Everything is trained.
    Finished,
}

/// What several trainers of one run agree on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// What all trainers have in common.
    pub(super) terms: Terms,
    /// The run, 64 random bits.
    pub(super) run: Token,
    /// Drawn by the trainer that made this record: two records of one run are of the same history only if it is equal.
    pub(super) incarnation: Token,
    /// Transactions that were applied to it.
    pub(super) revision: u64,
    /// How many trainers the first bucket waits for; 0 once they were there.
    pub(super) wanted: u32,
    /// Whether the run ends on request.
    pub(super) stopping: bool,
    /// What is trained.
    pub(super) work: Work,
    /// Who takes part.
    pub(super) trainers: BTreeMap<Token, Trainer>,
    /// The last one, and those under way.
    pub(super) checkpoints: Checkpoints,
    /// The revision that last changed what a checkpoint holds: by a settlement, by going on to the next pass, or by a ranking.
    pub(super) changed: u64,
    /// The ranking under way.
    pub(super) ranking: Option<Ranking>,
    /// What the last one has found.
    pub(super) validated: Option<Validated>,
}

/// What a new record is made of.
#[derive(Clone, Debug)]
pub struct Founding {
    /// What all trainers will have in common.
    pub terms: Terms,
    /// The run.
    pub run: Token,
    /// 64 random bits, drawn for this record.
    pub incarnation: Token,
    /// How many trainers the first bucket waits for (`num_machines`).
    pub wanted: u32,
    /// What the newest manifest says; [`Work::none`] without one.
    pub work: Work,
    /// The cut that it was made of; none without one.
    pub base: Option<Cut>,
}

impl Record {
    /// A record that nobody has joined yet. The caller creates it in the register, where there is none or one that
    /// does not stand.
    ///
    /// # Errors
    /// When the work does not fit the terms.
    pub fn found(founding: Founding) -> Result<Self, super::Damage> {
        let mut work = founding.work.released();
        // Revisions begin anew.
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
            checkpoints: Checkpoints::after(founding.base),
            changed: 0,
            ranking: None,
            validated: None,
        };
        record.check()?;
        Ok(record)
    }

    /// What all trainers have in common.
    #[must_use]
    pub const fn terms(&self) -> &Terms {
        &self.terms
    }

    /// The grid of buckets.
    #[must_use]
    pub const fn grid(&self) -> &Grid {
        &self.terms.grid
    }

    /// The run.
    #[must_use]
    pub const fn run(&self) -> Token {
        self.run
    }

    /// The history that it is of.
    #[must_use]
    pub const fn incarnation(&self) -> Token {
        self.incarnation
    }

    /// How many transactions were applied to it.
    #[must_use]
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    /// What is trained.
    #[must_use]
    pub const fn work(&self) -> &Work {
        &self.work
    }

    /// Who takes part.
    #[must_use]
    pub const fn trainers(&self) -> &BTreeMap<Token, Trainer> {
        &self.trainers
    }

    /// The last checkpoint, and those under way.
    #[must_use]
    pub const fn checkpoints(&self) -> &Checkpoints {
        &self.checkpoints
    }

    /// The ranking under way, once it has begun.
    #[must_use]
    pub const fn ranking(&self) -> Option<&Ranking> {
        self.ranking.as_ref()
    }

    /// What the last ranking of this record has found.
    #[must_use]
    pub const fn validated(&self) -> Option<&Validated> {
        self.validated.as_ref()
    }

    /// What trainers may do now.
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

    /// The partition that `group` names, if it is one that is held.
    #[must_use]
    pub fn partition(&self, group: SidePartition) -> Option<&Partition> {
        self.work.partitions.get(self.grid().group_index(group)?)
    }

    /// Who has the partition that `group` names: the trainer that leased a bucket that needs it.
    #[must_use]
    pub fn holder(&self, group: SidePartition) -> Option<Token> {
        let holds = |trainer: &Trainer| {
            let mut leases = trainer.leases.iter();
            leases.any(|bucket| self.grid().needs(*bucket).any(|need| need == group))
        };
        let holder = self.trainers.iter().find(|(_, trainer)| holds(trainer));
        holder.map(|(token, _)| *token)
    }

    /// State of `bucket`; none outside the grid.
    #[must_use]
    pub fn state(&self, bucket: Bucket) -> Option<BucketState> {
        self.work.buckets.get(self.grid().index(bucket)?)
    }

    /// The trainer of `token`.
    ///
    /// # Errors
    /// When it does not take part, or no more.
    pub(super) fn trainer(&mut self, token: Token) -> Result<&mut Trainer, Refusal> {
        self.trainers
            .get_mut(&token)
            .ok_or(Refusal::Fenced { token })
    }
}
