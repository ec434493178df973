//! Parameters that every trainer has: operators of relations and global embeddings, values and Adagrad's sums alike.
//!
//! They are cut into blocks, and each block has an owner among the trainers. A thread of each trainer sends what its workers
//! added to a block since they exchanged it last; the owner answers with the sum of what all have added, and the trainer
//! adds what others did. So nothing is overwritten, and no update of a worker is lost: workers and the exchange change a
//! parameter in turn.
//!
//! The owner follows from the block and the tokens of the ledger (rendezvous hashing). Who becomes the owner takes the sum
//! over from who was it, or goes on from the copy that it saw last, which is at most one round old.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pbg_core::cluster::Live;
use pbg_core::ledger::{Record, Token};
use pbg_kernels::params::Params;

use super::ledger::Ledger;
use crate::error::RunError;

mod blocks;
mod message;
mod owner;

pub(super) use blocks::widest_row;
use blocks::{Block, Blocks};
use message::{Question, Reply, Rows};
use owner::Owner;

/// Longest wait for an owner's answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

/// What a trainer knows of a block.
struct Known {
    /// Who answered last.
    owner: Option<Token>,
    /// The owner's version of it then.
    version: u64,
    /// Number of the last message about it.
    sent: u64,
    /// A message that was not answered. It is sent again as it was, so that it counts once.
    unanswered: Option<Sent>,
}

/// What was sent of a block, and the values that it led to.
#[derive(Clone)]
struct Sent {
    rows: Rows,
    values: Vec<f32>,
}

/// What the exchange shares with the thread that answers.
struct Shared {
    blocks: Blocks,
    /// Sum of each block as it was seen last.
    seen: Mutex<Vec<Vec<f32>>>,
    ledger: Arc<Ledger>,
    live: Arc<dyn Live>,
    owner: Owner,
}

/// The exchange of one trainer, with a thread of its own while it lives.
pub(super) struct Parameters {
    exchange: Arc<Exchange>,
    thread: Option<JoinHandle<()>>,
}

struct Exchange {
    shared: Arc<Shared>,
    params: Arc<Params>,
    /// Held by workers while they train a batch, and by the exchange alone while it adds what others did.
    gate: Arc<RwLock<()>>,
    known: Mutex<Vec<Known>>,
    /// Shortest time between two rounds.
    pause: Duration,
    ends: AtomicBool,
}

impl Parameters {
    /// Starts to exchange `params`, which are what the newest checkpoint has or their initial values. Waits until the others
    /// have told what they added since, or `patience` is over.
    ///
    /// # Errors
    /// When the system gives no thread, or nobody can be reached.
    pub(super) fn start(
        params: &Arc<Params>,
        ledger: &Arc<Ledger>,
        live: &Arc<dyn Live>,
        pause: Duration,
        patience: Duration,
    ) -> Result<Self, RunError> {
        let blocks = Blocks::new(params);
        let seen = blocks
            .all()
            .iter()
            .map(|b| blocks.read(params, b))
            .collect();
        let known = blocks.all().iter().map(|_| Known::new()).collect();
        let shared = Arc::new(Shared {
            owner: Owner::new(blocks.all()),
            blocks,
            seen: Mutex::new(seen),
            ledger: Arc::clone(ledger),
            live: Arc::clone(live),
        });
        let answering = Arc::clone(&shared);
        let answers = Arc::new(move |question: &[u8]| answering.answer(question));
        live.answer(ledger.token(), answers)
            .map_err(|no| super::error::unreachable(Duration::ZERO, no))?;
        let exchange = Arc::new(Exchange {
            shared,
            params: Arc::clone(params),
            gate: Arc::default(),
            known: Mutex::new(known),
            pause,
            ends: AtomicBool::new(false),
        });
        let started = Instant::now();
        while !exchange.round() && started.elapsed() < patience {
            thread::sleep(pause);
        }
        let exchanging = Arc::clone(&exchange);
        let thread = thread::Builder::new()
            .name("parameters".to_owned())
            .spawn(move || exchanging.run())
            .map_err(|e| RunError::Thread(e.to_string()))?;
        Ok(Self {
            exchange,
            thread: Some(thread),
        })
    }

    /// What workers hold while they train a batch.
    pub(super) fn gate(&self) -> Arc<RwLock<()>> {
        Arc::clone(&self.exchange.gate)
    }

    /// Exchanges every block now. Says whether every owner answered.
    pub(super) fn round(&self) -> bool {
        self.exchange.round()
    }
}

impl Drop for Parameters {
    fn drop(&mut self) {
        self.exchange.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // What it panicked with was printed; there is nobody left to tell.
            let _panicked = thread.join();
        }
    }
}

impl Known {
    const fn new() -> Self {
        Self {
            owner: None,
            version: 0,
            sent: 0,
            unanswered: None,
        }
    }
}

impl Exchange {
    fn run(&self) {
        while !self.ends.load(Ordering::Relaxed) {
            self.round();
            thread::park_timeout(self.pause);
        }
    }

    /// Exchanges every block once; one after the other, so that the owners set the pace.
    fn round(&self) -> bool {
        let mut known = lock(&self.known);
        let Some(record) = self.shared.ledger.seen() else {
            return false;
        };
        let blocks = self.shared.blocks.all().iter().zip(&mut *known);
        let mut all = true;
        for (block, known) in blocks {
            all &= self.exchange(&record, block, known);
        }
        all
    }

    /// Sends what was added to a block, and adds what others did. Says whether the owner answered.
    fn exchange(&self, record: &Record, block: &Block, known: &mut Known) -> bool {
        let Shared {
            blocks,
            seen,
            ledger,
            live,
            ..
        } = &*self.shared;
        let me = ledger.token();
        let Some(owner) = blocks::owner(record.trainers().keys(), block.index) else {
            return false;
        };
        if known.owner != Some(owner) {
            // What was not answered may be in the sum that the new owner took over, or not: it is told anew what differs
            // from the sum that was seen last.
            let sent = known.sent;
            *known = Known {
                owner: Some(owner),
                sent,
                ..Known::new()
            };
        }
        let sent = known.unanswered.take().unwrap_or_else(|| {
            known.sent += 1;
            let values = blocks.read(&self.params, block);
            let rows = block.difference(&values, &lock(seen)[block.index]);
            Sent { rows, values }
        });
        let question = Question::Exchange {
            from: me,
            block: block.index as u32,
            version: known.version,
            number: known.sent,
            settlements: ledger.settlements(),
            rows: sent.rows.clone(),
        };
        let reply = match owner == me {
            true => Some(self.shared.serve(question)),
            false => {
                let answer = live.ask(owner, &question.encode(block.width), ANSWER_WITHIN);
                let answer = answer.ok();
                answer.and_then(|answer| Reply::decode(&answer, block.rows.len(), block.width))
            }
        };
        match reply {
            Some(Reply::Sums { version, rows }) => {
                self.take(block, &sent, &rows);
                known.version = version;
                true
            }
            // It was not counted.
            Some(Reply::NotMine) => {
                // A refusal of the ledger is met by the thread that trains.
                let _newest = ledger.refresh();
                false
            }
            Some(Reply::NotReady) => false,
            None => {
                known.unanswered = Some(sent);
                false
            }
        }
    }

    /// Adds what others did to a block: `rows` are sums in which what was sent is counted.
    fn take(&self, block: &Block, sent: &Sent, rows: &Rows) {
        let Shared { blocks, seen, .. } = &*self.shared;
        let mut seen = lock(seen);
        let seen = &mut seen[block.index];
        let width = block.width;
        let _alone = self.gate.write().unwrap_or_else(PoisonError::into_inner);
        for (row, sums) in rows {
            let at = *row as usize * width;
            let before = &sent.values[at..][..width];
            blocks.change(&self.params, block, *row as usize, |current| {
                for ((value, sum), before) in current.iter_mut().zip(sums).zip(before) {
                    // Exactly the sum where no worker has changed it since.
                    *value = match *value == *before {
                        true => *sum,
                        false => *value + (*sum - *before),
                    };
                }
            });
            seen[at..][..width].copy_from_slice(sums);
        }
    }
}

impl Shared {
    /// Answers another trainer. What it sends is untrusted.
    fn answer(&self, question: &[u8]) -> Vec<u8> {
        let block = Question::block(question);
        let Some(block) = block.and_then(|index| self.blocks.all().get(index as usize)) else {
            return Reply::NotMine.encode(0);
        };
        match Question::decode(question, block.rows.len(), block.width) {
            Some(question) => self.serve(question).encode(block.width),
            None => Reply::NotMine.encode(block.width),
        }
    }

    fn serve(&self, question: Question) -> Reply {
        match question {
            Question::Handover { block, .. } => self.hand_over(block as usize),
            Question::Exchange { block, from, .. } => {
                let Some(record) = self.ledger.seen() else {
                    return Reply::NotReady;
                };
                let tokens = record.trainers();
                let (me, index) = (self.ledger.token(), block as usize);
                if blocks::owner(tokens.keys(), index) != Some(me) || !tokens.contains_key(&from) {
                    // One of both has not seen the newest record.
                    let _newest = self.ledger.refresh();
                    return Reply::NotMine;
                }
                if !self.owner.has(index) && !self.take_over(&record, index) {
                    return Reply::NotReady;
                }
                self.owner
                    .exchange(question, |token| tokens.contains_key(token))
            }
        }
    }

    /// Becomes the owner of a block: with the sum of who was it before, or this trainer's copy where it is alone.
    fn take_over(&self, record: &Record, index: usize) -> bool {
        let me = self.ledger.token();
        let block = &self.blocks.all()[index];
        let others = record.trainers().keys().filter(|token| **token != me);
        let Some(before) = blocks::owner(others, index) else {
            self.owner.begin(index, lock(&self.seen)[index].clone());
            return true;
        };
        let question = Question::Handover {
            from: me,
            block: index as u32,
        };
        let answer = self
            .live
            .ask(before, &question.encode(block.width), ANSWER_WITHIN);
        let reply = answer.ok();
        let reply = reply.and_then(|answer| Reply::decode(&answer, block.rows.len(), block.width));
        match reply {
            Some(Reply::Sums { rows, .. }) if rows.len() == block.rows.len() => {
                let sums = rows.into_values().flatten().collect();
                self.owner.begin(index, sums);
                true
            }
            _ => false,
        }
    }

    /// Gives a block's sum to its new owner, and owns it no more.
    fn hand_over(&self, index: usize) -> Reply {
        // Who asks has seen a newer record. A failure is met by the thread that trains.
        let _newest = self.ledger.refresh();
        let sums = self.owner.end(index);
        let sums = sums.unwrap_or_else(|| lock(&self.seen)[index].clone());
        let width = self.blocks.all()[index].width;
        let rows = sums.chunks_exact(width).map(<[f32]>::to_vec);
        let rows: BTreeMap<u32, Vec<f32>> = (0..).zip(rows).collect();
        Reply::Sums { version: 0, rows }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests;
