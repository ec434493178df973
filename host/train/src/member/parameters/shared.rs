//! What the thread that exchanges shares with the one that answers, which asks nobody: so no two trainers wait for each
//! other.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pbg_core::cluster::Live;
use pbg_core::ledger::{Record, Token};
use pbg_core::loss::LossState;

use super::blocks::{self, Block, Values};
use super::loss::LossSums;
use super::message::{Asked, Counted, Piece, Question, Reply, Shape};
use super::owner::Message;
use super::places::Places;
use super::state::{Copied, ShardKind};
use crate::member::ledger::Ledger;

/// What has no rows.
pub(super) const NOTHING: ShardKind = ShardKind::Rows(Shape { rows: 0, width: 1 });

/// What the exchange shares with the thread that answers.
pub(super) struct Shared {
    pub(super) blocks: Vec<Block>,
    /// Each block as it was seen last; version 0 is what the run began with.
    pub(super) seen: Vec<Mutex<Copied<Values>>>,
    /// The loss as it was seen last, where its parameters change. It comes behind the blocks.
    loss: Option<Mutex<Copied<LossState>>>,
    pub(super) places: Places,
    pub(super) ledger: Arc<Ledger>,
    pub(super) live: Arc<dyn Live>,
    /// The block that its owner is asked about just now, whose copy is about to change; none beyond all.
    in_flight: AtomicUsize,
    /// Trainers that said that they leave, this one among them if it does: they give away what they own, and take nothing.
    leavers: Mutex<BTreeSet<Token>>,
}

impl Shared {
    /// What is known before anybody was asked.
    pub(super) fn new(
        blocks: Vec<Block>,
        seen: Vec<Copied<Values>>,
        loss: Option<LossState>,
        ledger: Arc<Ledger>,
        live: Arc<dyn Live>,
    ) -> Self {
        Self {
            places: Places::new(blocks.len() + usize::from(loss.is_some())),
            blocks,
            seen: seen.into_iter().map(Mutex::new).collect(),
            loss: loss.map(|state| Mutex::new(super::loss::first(state))),
            ledger,
            live,
            in_flight: AtomicUsize::new(usize::MAX),
            leavers: Mutex::default(),
        }
    }

    /// Runs `exchange`, which asks the owner of `index` and takes what it answers. Nobody is told meanwhile how new this
    /// trainer's copy is: what the owner has counted before it was lost is in the copy then.
    pub(super) fn while_asking<T>(&self, index: usize, exchange: impl FnOnce() -> T) -> T {
        self.in_flight.store(index, Ordering::SeqCst);
        let done = exchange();
        self.in_flight.store(usize::MAX, Ordering::SeqCst);
        done
    }

    /// Blocks, and the loss where it is one of them.
    pub(super) fn count_all(&self) -> usize {
        self.blocks.len() + usize::from(self.loss.is_some())
    }

    /// The loss's number behind the blocks.
    pub(super) fn loss_index(&self) -> Option<usize> {
        self.loss.is_some().then_some(self.blocks.len())
    }

    /// What `index` is; rows of none where it is nothing.
    pub(super) fn kind(&self, index: usize) -> ShardKind {
        match (self.blocks.get(index), &self.loss) {
            (Some(block), _) => ShardKind::Rows(block.shape),
            (None, Some(loss)) => ShardKind::Loss(lock(loss).what.parameters.len()),
            (None, None) => NOTHING,
        }
    }

    /// The version of `index` that was seen last.
    pub(super) fn version_seen(&self, index: usize) -> u64 {
        match (self.seen.get(index), &self.loss) {
            (Some(seen), _) => lock(seen).version,
            (None, Some(loss)) => lock(loss).version,
            (None, None) => 0,
        }
    }

    /// The state of the loss that its owner told.
    pub(super) fn see_loss(&self, version: u64, counted: Counted, state: &LossState) {
        if let Some(loss) = &self.loss {
            *lock(loss) = Copied {
                version,
                counted,
                what: state.clone(),
            };
        }
    }

    /// A trainer said that it leaves.
    pub(super) fn leaves(&self, token: Token) {
        lock(&self.leavers).insert(token);
    }

    /// Trainers that said that they leave.
    pub(super) fn leavers(&self) -> Vec<Token> {
        lock(&self.leavers).iter().copied().collect()
    }

    /// Who may own blocks: who takes part and does not leave. Where all leave, the one with the largest token is the last,
    /// and gets everything.
    pub(super) fn who_stays(&self, record: &Record) -> Vec<Token> {
        let leavers = lock(&self.leavers);
        let tokens = record.trainers().keys();
        let stay = tokens.clone().filter(|token| !leavers.contains(token));
        let stay: Vec<Token> = stay.copied().collect();
        match stay.is_empty() {
            true => tokens.max().copied().into_iter().collect(),
            false => stay,
        }
    }

    /// Answers another trainer. What it sends is untrusted.
    pub(super) fn answer(&self, question: &[u8]) -> Vec<u8> {
        let asked = Asked::decode(question, |block| self.shape(block));
        asked
            .map_or(Reply::NotMine, |asked| self.serve(asked))
            .encode()
    }

    fn shape(&self, block: u32) -> Option<Shape> {
        self.blocks.get(block as usize).map(|block| block.shape)
    }

    fn exists(&self, block: u32) -> bool {
        (block as usize) < self.count_all()
    }

    /// Answers a question, of this trainer itself or another one.
    pub(super) fn serve(&self, Asked { from, question }: Asked) -> Reply {
        // Only who takes part is answered: what a lost trainer had is taken back once.
        let Some(record) = self.record_with(from) else {
            return Reply::NotMine;
        };
        match question {
            Question::Exchange {
                block,
                version,
                number,
                settlements,
                rows,
            } => {
                let message = Message {
                    from,
                    version,
                    number,
                    settlements,
                    rows,
                };
                self.count(&record, block as usize, &message)
            }
            Question::Loss {
                block,
                number,
                observed,
            } if self.loss_index() == Some(block as usize) => {
                let takes_part = |token: &Token| record.trainers().contains_key(token);
                let count =
                    |sums: &mut LossSums| sums.exchange(from, number, &observed, takes_part);
                let counted = self.places.with_loss(block as usize, count);
                counted.unwrap_or_else(|| self.refuse(&record, block as usize))
            }
            Question::Loss { .. } => Reply::NotMine,
            Question::Have { at, blocks } => self.lacks(at, &blocks),
            Question::Copy(block) => self.copy(block),
            Question::Give {
                block,
                at,
                without,
                piece,
            } => self.take((block, at), from, &without, piece),
        }
    }

    /// The record that was seen last, if it has `token`. One who has just joined may not be in it yet: a newer one is
    /// read then, by another thread, and the question comes again.
    fn record_with(&self, token: Token) -> Option<Arc<Record>> {
        let takes_part = |record: &Arc<Record>| record.trainers().contains_key(&token);
        let record = self.ledger.seen().filter(takes_part);
        if record.is_none() {
            self.ledger.needs_newer();
        }
        record
    }

    fn count(&self, record: &Record, index: usize, message: &Message) -> Reply {
        let tokens = record.trainers();
        let takes_part = |token: &Token| tokens.contains_key(token);
        let counted = self.places.exchange(index, message, takes_part);
        counted.unwrap_or_else(|| self.refuse(record, index))
    }

    /// Nothing was counted.
    fn refuse(&self, record: &Record, index: usize) -> Reply {
        let me = self.ledger.token();
        match blocks::owner(self.who_stays(record).iter(), index) == Some(me) {
            true => Reply::NotReady,
            false if lock(&self.leavers).contains(&me) => Reply::Leaving,
            false => Reply::NotMine,
        }
    }

    fn lacks(&self, at: u64, blocks: &[u32]) -> Reply {
        let blocks = blocks.iter().filter(|block| self.exists(**block));
        let in_flight = self.in_flight.load(Ordering::SeqCst);
        let lacking = blocks.filter(|block| {
            let index = **block as usize;
            index != in_flight && self.places.lacks(index, at)
        });
        let version = |block: &u32| (*block, self.version_seen(*block as usize));
        Reply::Lacks(lacking.map(version).collect())
    }

    fn copy(&self, block: u32) -> Reply {
        let index = block as usize;
        if let (Some(seen), Some(block)) = (self.seen.get(index), self.blocks.get(index)) {
            let seen = lock(seen);
            return Reply::Sums {
                version: seen.version,
                counted: seen.counted.clone(),
                rows: seen.what.numbered(block),
            };
        }
        match &self.loss {
            Some(loss) if self.exists(block) => {
                let seen = lock(loss);
                Reply::Loss {
                    version: seen.version,
                    counted: seen.counted.clone(),
                    state: seen.what.clone(),
                    is_whole: true,
                }
            }
            _ => Reply::NotMine,
        }
    }

    /// Takes a piece of what an owner so far knows of a block, where it is this trainer's to own. `at` is the revision by
    /// which who gives says so.
    fn take(&self, (block, at): (u32, u64), from: Token, without: &[Token], piece: Piece) -> Reply {
        let index = block as usize;
        if !self.exists(block) {
            return Reply::NotMine;
        }
        if self.places.has_taken(index, piece.version) {
            return Reply::Taken;
        }
        without.iter().for_each(|token| self.leaves(*token));
        // The record has to be as new as that of who gives: who is not in it is taken for lost. It is read by another
        // thread: this one answers everybody.
        let record = self.ledger.seen().filter(|record| record.revision() >= at);
        let Some(record) = record else {
            self.ledger.needs_newer();
            return Reply::NotReady;
        };
        let is_mine = || {
            let owner = blocks::owner(self.who_stays(&record).iter(), index);
            owner == Some(self.ledger.token()) && record.trainers().contains_key(&from)
        };
        if piece.piece == 0 && !is_mine() {
            return match lock(&self.leavers).contains(&self.ledger.token()) {
                true => Reply::Leaving,
                false => Reply::NotMine,
            };
        }
        let by = (record.revision(), &is_mine as &dyn Fn() -> bool);
        let kind = self.kind(index);
        let reply = self.places.take(index, from, piece, kind, by);
        if reply == Reply::NotReady {
            self.ledger.needs_newer();
        }
        reply
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
