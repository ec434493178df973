//! Rounds of the exchange: sends the additions to each block to its owner, and applies the additions of other trainers.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::{Duration, Instant};

use pbg_clock::Exclusive;
use pbg_core::lock::lock;
use pbg_core::loss::ObservedBatches;
use pbg_core::strategy::StrategyError;
use pbg_ledger::Token;
use pbg_train::GuardedLoss;

use super::arrays::SharedArrays;
use super::blocks::{ChangedRow, Owners, ParameterBlock};
use super::message::{PeerReply, PeerRequest, SignedRequest};
use super::rate_limit::RateLimiter;
use super::shard::{CountedMessages, RowUpdates, ShardKind};
use super::shared::ExchangeShared;

/// Longest wait for an owner's answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// Number of unanswered questions after which a trainer is not asked again in the same round.
const PATIENT: u32 = 2;
/// In one of this many rounds, all numbers of a block are compared, not only those that show which rows changed.
const THOROUGH: u64 = 16;

/// A trainer's state as a sender of additions to a block.
#[derive(Default)]
pub(super) struct BlockSender {
    /// The owner that was asked last.
    owner: Option<Token>,
    /// The owner's version that is known here; 0 to receive all rows.
    version: u64,
    /// Number of the last message about the block.
    sent: u64,
    /// A message that was not answered. It is sent again unchanged, to the current owner, so that it counts once.
    unanswered: Option<SentAdditions>,
}

/// A trainer's state as a sender of observed batches to the loss's owner.
#[derive(Default)]
pub(super) struct LossSender {
    /// Number of the last message.
    pub(super) sent: u64,
    /// Contents of a message that was not answered.
    pub(super) unanswered: Option<ObservedBatches>,
    /// Sums of messages that were refused, to be sent with the next message.
    pub(super) refused: ObservedBatches,
}

/// The additions that were sent for a block, and the values after them.
struct SentAdditions {
    added: RowUpdates,
    now: RowUpdates,
}

/// State of the exchange that only one round may use at a time.
#[derive(Default)]
pub(super) struct RoundState {
    known: Vec<BlockSender>,
    known_loss: LossSender,
    rounds: u64,
    /// Owners among the trainers that are not leaving.
    pub(super) owners: Owners,
}

/// State of one round.
#[derive(Default)]
pub(super) struct Round {
    silent: BTreeMap<Token, u32>,
    /// Time after which no trainer is asked; `None` for no limit.
    until: Option<Instant>,
    /// Whether another trainer seems to know a newer record.
    pub(super) is_stale: bool,
}

impl Round {
    /// Starts a round in which no trainer is asked after `until`.
    pub(super) fn until(until: Option<Instant>) -> Self {
        Self {
            until,
            ..Self::default()
        }
    }

    /// Returns how long to wait for an answer.
    fn left(&self) -> Duration {
        let left = |until: Instant| until.saturating_duration_since(pbg_clock::now());
        self.until.map_or(ANSWER_WITHIN, left).min(ANSWER_WITHIN)
    }
}

pub(super) struct ExchangeRounds {
    pub(super) shared: Arc<ExchangeShared>,
    pub(super) arrays: SharedArrays,
    /// The loss, if its parameters change.
    pub(super) loss: Option<GuardedLoss>,
    /// Error of an update of the loss. It ends the run.
    pub(super) fault: Mutex<Option<StrategyError>>,
    /// Locked shared by workers while they train a batch, and exclusively by the exchange while it applies the
    /// additions of other trainers.
    pub(super) gate: Arc<RwLock<()>>,
    pub(super) turns: Exclusive<RoundState>,
    pub(super) pace: RateLimiter,
    /// Duration of the thread's last round, in microseconds.
    pub(super) took: AtomicU64,
    pub(super) ends: AtomicBool,
}

impl ExchangeRounds {
    /// Runs rounds until `ends` is set.
    pub(super) fn run(&self) {
        while !self.ends.load(Ordering::Relaxed) {
            let begun = pbg_clock::now();
            self.round(None, None);
            let took = pbg_clock::elapsed(begun)
                .as_micros()
                .try_into()
                .unwrap_or(u64::MAX);
            self.took.store(took, Ordering::Relaxed);
            self.shared
                .wait_for_round(self.pace.wait_after_round(pbg_clock::now()));
        }
    }

    /// Whether a round is cut short because the rounds end. A round with a bound of its own is not.
    pub(super) fn is_cut_short(&self, turn: &Round) -> bool {
        turn.until.is_none() && self.ends.load(Ordering::Relaxed)
    }

    /// Runs rounds until every owner has counted all earlier additions, for at most `within`. Returns whether they
    /// have.
    pub(super) fn tell(&self, within: Duration) -> bool {
        let started = pbg_clock::now();
        let mut untold = vec![true; self.shared.count_all()];
        let until = started.checked_add(within);
        loop {
            self.round(Some(&mut untold), until);
            if !untold.contains(&true) {
                return true;
            }
            if pbg_clock::elapsed(started) >= within || self.shared.ledger.ends_waits() {
                return false;
            }
            let left = within.saturating_sub(pbg_clock::elapsed(started));
            pbg_clock::sleep(self.pace.wait_after_round(pbg_clock::now()).min(left));
        }
    }

    /// Exchanges every block once, one after the other, so that slow owners slow down the sender. With `untold`,
    /// exchanges only the blocks flagged there, reads all of their numbers so that no addition is missed, and clears
    /// the flags of the blocks whose owners have answered. No trainer is asked after `until`; without `until`, none is
    /// asked once the rounds end.
    pub(super) fn round(&self, mut untold: Option<&mut Vec<bool>>, until: Option<Instant>) {
        let taken = match until {
            Some(until) => self.turns.take_until(until),
            None => Some(self.turns.take()),
        };
        let Some(mut taken) = taken else {
            return;
        };
        let turns = &mut *taken;
        let Some(record) = self.shared.ledger.last_record() else {
            return;
        };
        let count = self.shared.count_all();
        turns
            .known
            .resize_with(self.shared.blocks.len(), BlockSender::default);
        turns
            .owners
            .update(self.shared.possible_owners(&record), count);
        turns.rounds += 1;
        let mut turn = Round::until(until);
        self.count_loss();
        self.move_blocks(&record, &turns.owners, &mut turn);
        // Each round starts at another block: an owner that is not asked again in this round is asked about its other
        // blocks in the next.
        let first = turns.rounds as usize % count.max(1);
        for index in (first..count).chain(0..first) {
            if self.is_cut_short(&turn) {
                return;
            }
            if untold.as_ref().is_some_and(|untold| !untold[index]) {
                continue;
            }
            let due = (turns.rounds + index as u64).is_multiple_of(THOROUGH);
            let thorough = due || untold.is_some();
            let owner = turns.owners.of(index);
            let mut exchange = |owner| match self.shared.blocks.get(index) {
                Some(block) => {
                    let known = &mut turns.known[index];
                    self.exchange(owner, block, known, thorough, &mut turn)
                }
                None => self.exchange_loss(owner, &mut turns.known_loss, &mut turn),
            };
            let told =
                owner.is_some_and(|owner| self.shared.while_asking(index, || exchange(owner)));
            if let Some(untold) = &mut untold {
                untold[index] = !told;
            }
        }
        let may_be_stale = turn.is_stale || turn.silent.values().any(|silent| *silent > 0);
        if may_be_stale && !self.is_cut_short(&turn) {
            // If the ledger refuses this trainer, the training thread will see the same error.
            let _newest = self.shared.ledger.try_refresh();
        }
    }

    /// Sends the additions to a block, and applies those of other trainers. Returns whether the owner has counted all
    /// earlier additions.
    fn exchange(
        &self,
        owner: Token,
        block: &ParameterBlock,
        known: &mut BlockSender,
        thorough: bool,
        turn: &mut Round,
    ) -> bool {
        let ExchangeShared { seen, ledger, .. } = &*self.shared;
        if known.owner != Some(owner) {
            // The versions of another owner are not comparable.
            (known.owner, known.version) = (Some(owner), 0);
        }
        let earlier = known.unanswered.take();
        let is_repeated = earlier.is_some();
        let sent = earlier.unwrap_or_else(|| {
            known.sent += 1;
            let seen = lock(&seen[block.index]);
            let changed = block.changed(&self.arrays, &seen.what, thorough);
            SentAdditions::new(changed)
        });
        let question = PeerRequest::Exchange {
            block: block.index as u32,
            version: known.version,
            number: known.sent,
            settlements: ledger.settlements(),
            rows: sent.added.clone(),
        };
        match self.ask(owner, question, ShardKind::Rows(block.shape), turn) {
            Some(PeerReply::Sums {
                version,
                counted,
                rows,
            }) => {
                self.take(block, &sent, version, counted, &rows);
                known.version = version;
                // A repeated message does not contain the newest additions.
                !is_repeated
            }
            // It was not counted now, but may have been counted when it was first sent.
            Some(_) => {
                turn.is_stale = true;
                known.unanswered = is_repeated.then_some(sent);
                false
            }
            None => {
                known.unanswered = Some(sent);
                false
            }
        }
    }

    /// Asks a trainer, which may be this one. Returns `None` if there was no answer. The question may have been
    /// received nevertheless.
    pub(super) fn ask(
        &self,
        whom: Token,
        question: PeerRequest,
        kind: ShardKind,
        turn: &mut Round,
    ) -> Option<PeerReply> {
        let from = self.shared.ledger.token();
        let asked = SignedRequest { from, question };
        if whom == from {
            return Some(self.shared.serve(asked));
        }
        if self.is_cut_short(turn) {
            return None;
        }
        let within = turn.left();
        let silent = turn.silent.entry(whom).or_default();
        if *silent >= PATIENT || within.is_zero() || self.shared.ledger.ends_waits() {
            return None;
        }
        let question = asked.encode();
        let answer = self.shared.live.ask(whom, &question, within);
        let came = answer.as_ref().map_or(0, Vec::len);
        self.pace.add_bytes(question.len() + came);
        let reply = answer
            .ok()
            .and_then(|answer| PeerReply::decode(&answer, kind));
        if reply == Some(PeerReply::Leaving) {
            self.shared.leaves(whom);
        }
        match reply {
            Some(_) => *silent = 0,
            None => *silent += 1,
        }
        reply
    }

    /// Applies the additions of other trainers to a block. `rows` are sums that include `sent`.
    fn take(
        &self,
        block: &ParameterBlock,
        sent: &SentAdditions,
        version: u64,
        counted: CountedMessages,
        rows: &RowUpdates,
    ) {
        let seen = &mut *lock(&self.shared.seen[block.index]);
        (seen.version, seen.counted) = (version, counted);
        if rows.is_empty() {
            return;
        }
        let _alone = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        for (&row, sums) in rows {
            let at = row as usize;
            let unsent = || seen.what.row(block, at);
            let before = sent.now.get(&row).cloned().unwrap_or_else(unsent);
            block.change(&self.arrays, at, |current| {
                for ((value, sum), before) in current.iter_mut().zip(sums).zip(&before) {
                    // If no worker has changed the value since, it becomes exactly the sum.
                    *value = match *value == *before {
                        true => *sum,
                        false => *value + (*sum - *before),
                    };
                }
            });
            seen.what.set_row(block, at, sums);
        }
    }
}

impl SentAdditions {
    fn new(changed: Vec<ChangedRow>) -> Self {
        let (mut added, mut now) = (RowUpdates::new(), RowUpdates::new());
        for row in changed {
            added.insert(row.row as u32, row.added);
            now.insert(row.row as u32, row.now);
        }
        Self { added, now }
    }
}
