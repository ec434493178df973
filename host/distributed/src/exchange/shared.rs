//! State shared by the exchanging thread and the answering thread. The answering thread never asks other trainers, so
//! no two trainers can wait for each other.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pbg_clock::Monitor;
use pbg_core::lock::lock;
use pbg_core::loss::LossState;
use pbg_ledger::transport::LiveTraffic;
use pbg_ledger::{LedgerRecord, Token};

use crate::ledger::LedgerClient;

use super::blocks::{self, BlockValues, ParameterBlock};
use super::locations::{BlockLocations, Location};
use super::loss_shard::LossShard;
use super::message::{PIECE_BYTES, PeerReply, PeerRequest, Piece, SignedRequest};
use super::owner::{BlockSums, ExchangeRequest};
use super::shard::{BlockShape, CountedMessages, ShardCopy, ShardKind};
use super::state::ShardState;

/// State shared by the exchanging thread and the answering thread.
pub(super) struct ExchangeShared {
    pub(super) blocks: Vec<ParameterBlock>,
    /// Each block as last seen. Version 0 is the state at the start of the run.
    pub(super) seen: Vec<Mutex<ShardCopy<BlockValues>>>,
    /// The loss as last seen, if its parameters change. Its index follows those of the blocks.
    loss: Option<Mutex<ShardCopy<LossState>>>,
    pub(super) places: BlockLocations,
    pub(super) ledger: Arc<LedgerClient>,
    pub(super) live: Arc<dyn LiveTraffic>,
    /// Whether the exchanging thread should not wait for its next round.
    is_due: Monitor<bool>,
    /// Index of the block whose owner is being asked, so that its copy is about to change; `usize::MAX` for none.
    in_flight: AtomicUsize,
    /// Trainers that have said that they are leaving, including this one if it is. They count nothing any more.
    leavers: Mutex<BTreeSet<Token>>,
}

impl ExchangeShared {
    /// Creates the state before any trainer was asked.
    pub(super) fn new(
        blocks: Vec<ParameterBlock>,
        seen: Vec<ShardCopy<BlockValues>>,
        loss: Option<LossState>,
        ledger: Arc<LedgerClient>,
        live: Arc<dyn LiveTraffic>,
    ) -> Self {
        Self {
            places: BlockLocations::new(blocks.len() + usize::from(loss.is_some())),
            blocks,
            seen: seen.into_iter().map(Mutex::new).collect(),
            loss: loss.map(|state| Mutex::new(ShardCopy::initial(state))),
            ledger,
            live,
            is_due: Monitor::default(),
            in_flight: AtomicUsize::new(usize::MAX),
            leavers: Mutex::default(),
        }
    }

    /// Runs `exchange`, which asks the owner of `index` and applies the answer. Meanwhile this trainer does not report
    /// the version of its copy. So if the owner is lost afterwards, the copy includes everything that this owner has
    /// counted for this trainer.
    pub(super) fn while_asking<T>(&self, index: usize, exchange: impl FnOnce() -> T) -> T {
        self.in_flight.store(index, Ordering::SeqCst);
        let done = exchange();
        self.in_flight.store(usize::MAX, Ordering::SeqCst);
        done
    }

    /// Returns the number of blocks, plus one if there is a loss.
    pub(super) fn count_all(&self) -> usize {
        self.blocks.len() + usize::from(self.loss.is_some())
    }

    /// Returns the index of the loss, which follows those of the blocks.
    pub(super) fn loss_index(&self) -> Option<usize> {
        self.loss.is_some().then_some(self.blocks.len())
    }

    /// Returns the kind of shard `index`; a kind without rows if the index is invalid.
    pub(super) fn kind(&self, index: usize) -> ShardKind {
        match (self.blocks.get(index), &self.loss) {
            (Some(block), _) => ShardKind::Rows(block.shape),
            (None, Some(loss)) => ShardKind::Loss(lock(loss).what.parameters.len()),
            (None, None) => ShardKind::NO_ROWS,
        }
    }

    /// Returns the version of `index` that was last seen.
    pub(super) fn version_seen(&self, index: usize) -> u64 {
        match (self.seen.get(index), &self.loss) {
            (Some(seen), _) => lock(seen).version,
            (None, Some(loss)) => lock(loss).version,
            (None, None) => 0,
        }
    }

    /// Records the state of the loss that its owner has sent.
    pub(super) fn see_loss(&self, version: u64, counted: CountedMessages, state: &LossState) {
        if let Some(loss) = &self.loss {
            *lock(loss) = ShardCopy {
                version,
                counted,
                what: state.clone(),
            };
        }
    }

    /// Records that a trainer is leaving.
    pub(super) fn leaves(&self, token: Token) {
        lock(&self.leavers).insert(token);
    }

    /// Returns the trainers that may own blocks: those of the record that are not leaving. If all are leaving, the one
    /// with the largest token leaves last, and owns everything.
    pub(super) fn possible_owners(&self, record: &LedgerRecord) -> Vec<Token> {
        let leavers = lock(&self.leavers);
        let tokens = record.trainers().keys();
        let stay = tokens.clone().filter(|token| !leavers.contains(token));
        let stay: Vec<Token> = stay.copied().collect();
        match stay.is_empty() {
            true => tokens.max().copied().into_iter().collect(),
            false => stay,
        }
    }

    /// Whether this trainer is leaving with all others and owns everything, so that it must wait until they have left.
    pub(super) fn is_last_owner(&self) -> bool {
        // An error is reported by the training thread, which reads the ledger as well.
        let record = self.ledger.try_refresh().ok().flatten();
        record.is_some_and(|record| {
            record.trainers().len() > 1 && self.possible_owners(&record) == [self.ledger.token()]
        })
    }

    /// Lets the exchanging thread begin a round at once.
    pub(super) fn request_round(&self) {
        self.is_due.change(|is_due| *is_due = true);
    }

    /// Waits until a round is requested, for at most `at_most`.
    pub(super) fn wait_for_round(&self, at_most: Duration) {
        *self.is_due.wait_while(at_most, |is_due| !*is_due) = false;
    }

    /// Answers a question of another trainer, which is untrusted.
    pub(super) fn answer(&self, question: &[u8]) -> Vec<u8> {
        let asked = SignedRequest::decode(question, |block| self.shape(block));
        let reply = asked.map_or(PeerReply::NotMine, |asked| self.serve(asked));
        // The other trainer may know that an owner is leaving. A round asks that owner.
        if reply == PeerReply::NotMine {
            self.request_round();
        }
        reply.encode()
    }

    fn shape(&self, block: u32) -> Option<BlockShape> {
        self.blocks.get(block as usize).map(|block| block.shape)
    }

    /// Answers a question of this trainer or another one.
    pub(super) fn serve(&self, SignedRequest { from, question }: SignedRequest) -> PeerReply {
        // Only trainers of the run are answered: the additions of a lost trainer are subtracted once, and must not be
        // added again.
        let Some(record) = self.record_with(from) else {
            return PeerReply::NotMine;
        };
        match question {
            PeerRequest::Exchange {
                block,
                version,
                number,
                settlements,
                rows,
            } => {
                let message = ExchangeRequest {
                    from,
                    version,
                    number,
                    settlements,
                    rows,
                };
                self.count(&record, block as usize, &message)
            }
            PeerRequest::Loss {
                block,
                number,
                observed,
            } if self.loss_index() == Some(block as usize) => {
                let takes_part = |token: &Token| record.trainers().contains_key(token);
                let count =
                    |sums: &mut LossShard| sums.exchange(from, number, &observed, takes_part);
                let counted = self.places.with_loss(block as usize, count);
                counted.unwrap_or_else(|| self.refuse(&record, block as usize))
            }
            PeerRequest::Loss { .. } => PeerReply::NotMine,
            PeerRequest::WhichHeld(blocks) => self.not_held(&blocks),
            PeerRequest::State { block, piece } => self.state(block as usize, piece),
        }
    }

    /// Returns the record as last seen, if it has `token`. A trainer that has just joined may be missing from it. In
    /// that case another thread reads a newer record, and the trainer repeats its question.
    fn record_with(&self, token: Token) -> Option<Arc<LedgerRecord>> {
        let takes_part = |record: &Arc<LedgerRecord>| record.trainers().contains_key(&token);
        let record = self.ledger.last_record().filter(takes_part);
        if record.is_none() {
            self.ledger.request_refresh();
        }
        record
    }

    fn count(&self, record: &LedgerRecord, index: usize, message: &ExchangeRequest) -> PeerReply {
        let tokens = record.trainers();
        let takes_part = |token: &Token| tokens.contains_key(token);
        let counted = self.places.exchange(index, message, takes_part);
        counted.unwrap_or_else(|| self.refuse(record, index))
    }

    /// Returns the reason why nothing was counted.
    fn refuse(&self, record: &LedgerRecord, index: usize) -> PeerReply {
        let me = self.ledger.token();
        match blocks::owner(self.possible_owners(record).iter(), index) == Some(me) {
            true => PeerReply::NotReady,
            false if lock(&self.leavers).contains(&me) => PeerReply::Leaving,
            false => PeerReply::NotMine,
        }
    }

    fn not_held(&self, blocks: &[u32]) -> PeerReply {
        let in_flight = self.in_flight.load(Ordering::SeqCst);
        let is_elsewhere = |block: &&u32| {
            let index = **block as usize;
            index < self.count_all()
                && index != in_flight
                && self.places.location(index) == Location::Elsewhere
        };
        let blocks = blocks.iter().filter(is_elsewhere);
        let version = |block: &u32| (*block, self.newest_version(*block as usize));
        PeerReply::NotHeld(blocks.map(version).collect())
    }

    /// Returns the newest version of `index` that is known here: the kept state's, or else the copy's.
    pub(super) fn newest_version(&self, index: usize) -> u64 {
        let kept = self.places.with_kept(index, ShardState::version);
        kept.unwrap_or(0).max(self.version_seen(index))
    }

    /// Returns a piece of the newest state of `index` that is known here.
    fn state(&self, index: usize, piece: u32) -> PeerReply {
        if index >= self.count_all() || self.places.location(index) == Location::Held {
            return PeerReply::NotMine;
        }
        self.places.drop_older(index, self.version_seen(index));
        let encode = |state: &ShardState| (state.version(), state.encode());
        let kept = self.places.with_kept(index, encode);
        let Some((version, bytes)) = kept.or_else(|| self.copy(index).as_ref().map(encode)) else {
            return PeerReply::NotMine;
        };
        let mut pieces = bytes.chunks(PIECE_BYTES);
        PeerReply::State(Piece {
            version,
            pieces: pieces.len() as u32,
            bytes: pieces.nth(piece as usize).unwrap_or_default().to_vec(),
        })
    }

    /// Returns the state in which this trainer would hold `index` if nothing newer than its copy were known.
    fn copy(&self, index: usize) -> Option<ShardState> {
        let (Some(seen), Some(block)) = (self.seen.get(index), self.blocks.get(index)) else {
            let copy = self.loss.as_ref().map(|loss| lock(loss).clone());
            return copy.map(|copy| ShardState::Loss(LossShard::anew(copy)));
        };
        let seen = lock(seen);
        let (values, counted) = (seen.what.rows(block), seen.counted.clone());
        let sums = BlockSums::from_copy(values, block.shape, seen.version, counted);
        Some(ShardState::Rows(sums))
    }
}
