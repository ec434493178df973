//! What a trainer does next: a state machine without a clock, files or a network.
//!
//! A driver asks for the next step, carries it out, and reports what happened. The trainers of a run (`pbg-distributed`,
//! also under the simulation), those of `bench cluster`, and the rounds of `orders compare --machines` are drivers of
//! this one policy, so that what is measured, predicted and simulated is what a trainer does.
//!
//! [`PassStep::of`] chooses between the passes of a run, [`BucketPolicy`] within a pass. Within a pass, a trainer leases a
//! bucket that it is advised to take ([`BucketAdvisor`]), settles what it has trained if the bucket needs other partitions, and leases one
//! more bucket to train next if there are enough partitions. A trainer that finds no bucket settles everything and waits:
//! so none waits for others while it holds partitions.

use std::collections::VecDeque;
use std::time::Duration;

use pbg_core::graph::{Bucket, SidePartition};
use pbg_core::schedule::PassId;

use super::{BucketAdvisor, LedgerRecord, MAX_LEASES, Phase, Token};

/// Longest wait for other trainers. Messages that would end it may be lost.
pub const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// Longest wait for an advised bucket, in mean durations of the trainer's own buckets: a pair of mirrored ones. If this
/// is exceeded, the other trainer is slower, or its buckets take longer.
const PATIENCE: u32 = 2;

/// What a trainer does between buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassStep {
    /// Writes a checkpoint on behalf of all trainers.
    WriteCheckpoint,
    /// Opens the pass.
    OpenPass,
    /// Trains the buckets of the pass.
    TrainPass,
    /// Ends the pass on behalf of all trainers.
    EndPass,
    /// Takes part in the ranking of validation edges.
    RankEdges,
    /// Waits for other trainers.
    Wait,
    /// Waits until this many trainers have joined.
    Gather(u32),
    /// Leaves the run, which was stopped.
    Leave,
    /// Leaves the run, which has ended.
    Finish,
}

impl PassStep {
    /// Returns what `token` does next. `is_unsaved` tells whether an epoch has ended and no checkpoint has its final
    /// state.
    #[must_use]
    pub fn of(record: &LedgerRecord, token: Token, is_unsaved: bool) -> Self {
        // The checkpoint of an epoch must hold the state at the end of the epoch, before the next pass is opened.
        if is_unsaved && record.writes_checkpoints(token) {
            return Self::WriteCheckpoint;
        }
        match record.phase() {
            Phase::Training => Self::TrainPass,
            Phase::Opening if is_unsaved => Self::Wait,
            Phase::Opening => Self::OpenPass,
            Phase::PassDone if record.leads(token) => Self::EndPass,
            Phase::Ranking => Self::RankEdges,
            Phase::Finished if !is_unsaved => Self::Finish,
            Phase::Stopping => Self::Leave,
            Phase::Gathering(wanted) => Self::Gather(wanted),
            Phase::PassDone | Phase::Finished => Self::Wait,
        }
    }
}

impl LedgerRecord {
    /// Whether `token` does what one trainer does on behalf of all.
    #[must_use]
    pub fn leads(&self, token: Token) -> bool {
        self.trainers.keys().next() == Some(&token)
    }

    /// Whether `token` writes the next checkpoint: it has begun one (perhaps without knowing, because the answer was
    /// lost), or nobody has and it leads.
    #[must_use]
    pub fn writes_checkpoints(&self, token: Token) -> bool {
        match self.checkpoint_in_progress() {
            Some((writer, _)) => writer == token,
            None => self.leads(token),
        }
    }

    /// Returns the buckets that are leased to trainers other than `token`.
    #[must_use]
    pub fn leases_of_others(&self, token: Token) -> Vec<Bucket> {
        let others = self.trainers.iter().filter(|(other, _)| **other != token);
        let leases = others.flat_map(|(_, other)| &other.leases);
        leases.copied().collect()
    }

    /// Whether there are enough partitions for each trainer to hold those of its next bucket as well.
    fn has_room_to_lease_ahead(&self) -> bool {
        self.grid().groups().count() >= 4 * self.trainers.len()
    }
}

/// What a trainer does within a pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BucketStep {
    /// Lets the order pick one of these buckets and leases it, then reports it with [`BucketPolicy::leased`]. If the
    /// ledger refuses, the trainer asks for a step with the newest record.
    Lease(Vec<Bucket>),
    /// Reads the newest record.
    Refresh,
    /// Begins to settle what [`BucketPolicy::take_trained`] returns. Training may continue meanwhile.
    Settle,
    /// Trains this bucket, then reports it with [`BucketPolicy::trained`].
    Train(Bucket),
    /// Settles everything. If there was something to settle, asks for the next step again; otherwise waits until others
    /// have settled, for at most this long.
    Wait(Duration),
    /// Ends the pass: none of its buckets is left.
    EndPass,
}

/// State of a trainer in a pass.
#[derive(Debug, Default)]
pub struct BucketPolicy {
    pass: PassId,
    /// Number of partitions that the trainer's buffer holds.
    buffer: u32,
    /// Whether to lease a bucket while the one before is trained; `None` if the number of partitions decides.
    lease_ahead: Option<bool>,
    advisor: BucketAdvisor,
    /// The bucket to train next.
    next: Option<Bucket>,
    /// Leased buckets to train after it.
    ahead: VecDeque<Bucket>,
    /// Whether a bucket to train after `next` was looked for.
    has_looked_ahead: bool,
    /// The bucket in training.
    training: Option<Bucket>,
    /// Trained buckets that are not settled yet.
    unsettled: Vec<Bucket>,
    /// Start of the current wait, during which some bucket is free but not advised.
    waits_since: Option<Duration>,
    /// Total training time, and number of buckets trained.
    trained: (Duration, u32),
}

impl BucketPolicy {
    /// Creates the policy of a trainer that has leased nothing.
    #[must_use]
    pub fn new(lease_ahead: Option<bool>) -> Self {
        Self {
            lease_ahead,
            ..Self::default()
        }
    }

    /// Begins a pass, with room for `buffer` partitions.
    pub const fn begin_pass(&mut self, pass: PassId, buffer: u32) {
        (self.pass, self.buffer) = (pass, buffer);
        self.waits_since = None;
    }

    /// Returns what `token` does next at the time `now`, according to `record`, which may be outdated unless it
    /// `is_newest`.
    pub fn step(
        &mut self,
        now: Duration,
        token: Token,
        record: &LedgerRecord,
        is_newest: bool,
    ) -> BucketStep {
        if self.next.is_none() {
            self.next = self.ahead.pop_front();
            self.has_looked_ahead = false;
        }
        let Some(next) = self.next else {
            return self.find_bucket(now, token, record, is_newest);
        };
        if !self.unsettled.is_empty() && !self.needs_only_held(record, next) {
            return BucketStep::Settle;
        }
        if self.looks_ahead(record) {
            let choices = self.choices(now, token, record);
            match (choices.is_empty(), is_newest) {
                (false, _) => return BucketStep::Lease(choices),
                (true, false) => return BucketStep::Refresh,
                (true, true) => self.has_looked_ahead = true,
            }
        }
        self.next = None;
        self.training = Some(next);
        BucketStep::Train(next)
    }

    /// Records that a bucket was leased.
    pub fn leased(&mut self, bucket: Bucket) {
        self.waits_since = None;
        match self.next {
            None => self.next = Some(bucket),
            Some(_) => self.ahead.push_back(bucket),
        }
    }

    /// Records that the bucket in training is trained, which took this long.
    pub fn trained(&mut self, took: Duration) {
        self.unsettled.extend(self.training.take());
        self.trained.0 += took;
        self.trained.1 += 1;
        self.waits_since = None;
    }

    /// Returns the trained buckets that are not settled yet.
    #[must_use]
    pub fn unsettled(&self) -> &[Bucket] {
        &self.unsettled
    }

    /// Takes the trained buckets, to be settled together.
    pub fn take_trained(&mut self) -> Vec<Bucket> {
        std::mem::take(&mut self.unsettled)
    }

    /// Returns the leased buckets that are trained after the current one.
    pub fn upcoming(&self) -> impl Iterator<Item = Bucket> + '_ {
        self.next.iter().chain(&self.ahead).copied()
    }

    /// Returns the leased buckets that are not trained yet.
    pub fn to_train(&self) -> impl Iterator<Item = Bucket> + '_ {
        self.training.into_iter().chain(self.upcoming())
    }

    /// Takes the leased buckets whose training has not begun, to be given up.
    pub fn give_up(&mut self) -> Vec<Bucket> {
        self.next
            .take()
            .into_iter()
            .chain(self.ahead.drain(..))
            .collect()
    }

    /// Returns when the wait for an advised bucket ends; `None` if the trainer does not wait for one.
    #[must_use]
    pub fn wait_ends(&self) -> Option<Duration> {
        Some(self.waits_since? + self.patience())
    }

    /// Returns the partitions of leased buckets, apart from those that are `resident`. They will be in the buffer when a
    /// bucket that is leased now is trained. Partitions of buckets that are trained but not settled may have left the
    /// buffer.
    #[must_use]
    pub fn soon_resident(
        &self,
        record: &LedgerRecord,
        resident: &[SidePartition],
    ) -> Vec<SidePartition> {
        let to_train: Vec<Bucket> = self.to_train().collect();
        let needs = record.grid().partitions_of_all(&to_train).into_iter();
        needs.filter(|group| !resident.contains(group)).collect()
    }

    fn find_bucket(
        &mut self,
        now: Duration,
        token: Token,
        record: &LedgerRecord,
        is_newest: bool,
    ) -> BucketStep {
        let is_over = record.phase() != Phase::Training || record.work().pass != self.pass;
        let choices = self.choices(now, token, record);
        match (choices.is_empty(), is_newest) {
            (false, _) => BucketStep::Lease(choices),
            (true, false) => BucketStep::Refresh,
            (true, true) if is_over => BucketStep::EndPass,
            (true, true) => BucketStep::Wait(self.wait(now)),
        }
    }

    /// Returns the buckets that the order may pick from. Empty while the trainer should wait.
    fn choices(&mut self, now: Duration, token: Token, record: &LedgerRecord) -> Vec<Bucket> {
        let own = record.trainers().get(&token);
        if record.work().pass != self.pass || own.is_none_or(|own| own.leases.len() >= MAX_LEASES) {
            return Vec::new();
        }
        let free = record.free(token);
        if free.is_empty() {
            self.waits_since = None;
            return free;
        }
        let advised = self.advisor.in_turn(record, token, &free, self.buffer);
        if !advised.is_empty() {
            return advised;
        }
        self.waits_since.get_or_insert(now);
        match self.wait_ends().is_some_and(|end| end <= now) {
            true => free,
            false => advised,
        }
    }

    fn looks_ahead(&self, record: &LedgerRecord) -> bool {
        let wants = || {
            let room = || record.has_room_to_lease_ahead();
            self.lease_ahead.unwrap_or_else(room)
        };
        self.ahead.is_empty() && !self.has_looked_ahead && wants()
    }

    /// Whether all partitions of a bucket are already held for unsettled buckets.
    fn needs_only_held(&self, record: &LedgerRecord, bucket: Bucket) -> bool {
        let grid = record.grid();
        let held = grid.partitions_of_all(&self.unsettled);
        let mut needs = grid.partitions_of(bucket);
        needs.all(|group| held.contains(&group))
    }

    /// Returns how long to wait for other trainers.
    fn wait(&self, now: Duration) -> Duration {
        match self.wait_ends() {
            // A bucket that is free then is taken, even if no message ends the wait.
            Some(end) => end
                .saturating_sub(now)
                .clamp(Duration::from_millis(1), LONGEST_WAIT),
            None => LONGEST_WAIT,
        }
    }

    /// Returns how long to wait for an advised bucket although others are free.
    fn patience(&self) -> Duration {
        match self.trained {
            (_, 0) => LONGEST_WAIT,
            (time, buckets) => time / buckets * PATIENCE,
        }
    }
}
