//! What every trainer has: operators of relations, global embeddings and tables of entity types with one partition, values
//! and Adagrad's sums alike; and the parameters of a loss that change (`loss`).
//!
//! It is cut into blocks, and each block has an owner among the trainers. A thread of each trainer sends what its workers
//! added to a block since they exchanged it last; the owner answers with the sum of what all have added, and the trainer
//! adds what others did. So nothing is overwritten, and no update of a worker is lost: workers and the exchange change a
//! row in turn.
//!
//! The owner follows from the block and the tokens of the ledger (rendezvous hashing). A block that changes hands goes with
//! all that its owner knows (`moves`, `places`): whose messages are in the sum, and what of them is not settled. A message
//! that was not answered is sent again, to whoever owns the block then. So what a trainer added counts exactly once,
//! whoever comes and leaves. What a lost trainer added and had not settled is taken back. Of a lost owner's blocks the
//! newest copy counts that anybody has: what the owner itself added and had told nobody is lost with it, and of what it had
//! told and not settled nobody can take anything back.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pbg_core::cluster::Live;
use pbg_core::loss::LossState;
use pbg_core::strategy::{Loss as _, StrategyError};

use super::ledger::Ledger;
use crate::error::RunError;
use crate::losses::GuardedLoss;

mod arrays;
mod blocks;
mod bytes;
mod loss;
mod message;
mod moves;
mod owner;
mod pace;
mod places;
mod rounds;
mod shared;
mod state;

pub(super) use arrays::Arrays;
use loss::LossSums;
use message::Counted;
use pace::Pace;
pub use pace::SyncLimits;
use rounds::{Exchange, OneAtATime};
use shared::{Shared, lock};
use state::Copied;

/// The exchange of one trainer, with a thread of its own while it lives.
pub(super) struct Parameters {
    exchange: Arc<Exchange>,
    thread: Option<JoinHandle<()>>,
}

impl Parameters {
    /// Starts to exchange `arrays`, and the parameters of `loss` if they change; both are what the newest checkpoint has or
    /// their initial values. Waits until the others have told what they added since, or `patience` is over.
    ///
    /// # Errors
    /// When the system gives no thread, or nobody can be reached.
    pub(super) fn start(
        arrays: Arrays,
        loss: Option<GuardedLoss>,
        ledger: &Arc<Ledger>,
        live: &Arc<dyn Live>,
        limits: SyncLimits,
        patience: Duration,
    ) -> Result<Self, RunError> {
        let state = loss.as_ref().and_then(|loss| loss.state());
        let loss = loss.filter(|_| state.is_some());
        if let Some(loss) = &loss {
            loss.observe_apart();
        }
        let shared = Arc::new(shared(&arrays, state, ledger, live));
        let answering = Arc::clone(&shared);
        let answers = Arc::new(move |question: &[u8]| answering.answer(question));
        live.answer(ledger.token(), answers)
            .map_err(|no| super::error::unreachable(Duration::ZERO, no))?;
        let exchange = Arc::new(Exchange {
            shared,
            arrays,
            loss,
            fault: Mutex::default(),
            gate: Arc::<RwLock<()>>::default(),
            turns: OneAtATime::default(),
            pace: Pace::new(limits),
            took: AtomicU64::new(0),
            ends: AtomicBool::new(false),
        });
        exchange.tell(patience);
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

    /// How long it took last to exchange all of them.
    pub(super) fn took(&self) -> Duration {
        Duration::from_micros(self.exchange.took.load(Ordering::Relaxed))
    }

    /// The state of the loss, where this trainer is the one that knows it.
    pub(super) fn own_loss(&self) -> Option<LossState> {
        let shared = &self.exchange.shared;
        let state = |sums: &mut LossSums| sums.state().clone();
        shared.places.with_loss(shared.loss_index()?, state)
    }

    /// How the loss failed where it was updated, if it did.
    pub(super) fn fault(&self) -> Option<StrategyError> {
        lock(&self.exchange.fault).take()
    }

    /// Tells the owners everything that was added before, at most for `within`, and learns what they have heard. Says
    /// whether all of them answered.
    pub(super) fn tell(&self, within: Duration) -> bool {
        self.exchange.tell(within)
    }

    /// Tells everything, says that all of it is settled, and gives away what this trainer owns, at most for `within`. The
    /// caller has settled everything, adds nothing any more, and leaves behind this. Says whether nothing is left: what is
    /// goes the way of a lost trainer's.
    pub(super) fn leave(&self, within: Duration) -> bool {
        let Exchange { shared, pace, .. } = &*self.exchange;
        let started = Instant::now();
        let left = || within.saturating_sub(started.elapsed());
        let told = self.tell(left());
        // What was told behind the last settlement began with it: owners are to take nothing of it back.
        shared.ledger.begin_settlement();
        shared.ledger.end_settlement();
        let settled = self.tell(left());
        shared.leaves(shared.ledger.token());
        loop {
            self.exchange.give_all(started + within);
            let is_over = self.exchange.has_given_all();
            if is_over || left().is_zero() || shared.ledger.is_given_up() {
                return told && settled && is_over;
            }
            thread::sleep(pace.rest(Instant::now()).min(left()));
        }
    }

    /// Ends the thread. What is told after this, [`Parameters::tell`] tells.
    pub(super) fn end_rounds(&mut self) {
        self.exchange.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // What it panicked with was printed; there is nobody left to tell.
            let _panicked = thread.join();
        }
    }
}

impl Drop for Parameters {
    fn drop(&mut self) {
        self.end_rounds();
    }
}

fn shared(
    arrays: &Arrays,
    loss: Option<LossState>,
    ledger: &Arc<Ledger>,
    live: &Arc<dyn Live>,
) -> Shared {
    let blocks = blocks::cut(arrays);
    let seen = blocks.iter().map(|block| Copied {
        version: 0,
        counted: Counted::new(),
        what: block.read(arrays),
    });
    let seen = seen.collect();
    Shared::new(blocks, seen, loss, Arc::clone(ledger), Arc::clone(live))
}

#[cfg(test)]
mod tests;
