//! Exchange of the parameters that every trainer has a copy of: operators of relations, global embeddings and the
//! tables of entity types with one partition, each with its Adagrad sums; and the parameters of a loss, if its `update`
//! changes them (`loss`).
//!
//! The parameters are cut into blocks, and each block has an owner among the trainers. A thread of each trainer sends
//! to the owner what its workers have added to a block since the last exchange. The owner answers with the sum of all
//! additions, and the trainer adds what the others have added. So nothing is overwritten and no update of a worker is
//! lost: a row is changed by workers and by the exchange in turn, never by both at once.
//!
//! The owner is a function of the block and the tokens in the ledger (rendezvous hashing). When a block changes its
//! owner, the new owner continues from the newest state that any trainer has (`transfers`, `locations`). The previous
//! owner has the whole state: which messages are in the sum, and which of the additions are not settled. A message that
//! was not answered is sent again, to the current owner. So each addition of a trainer counts exactly once, even if
//! trainers join and leave. Additions of a lost trainer that it had not settled are subtracted again. If an owner is
//! lost, the newest state is a copy of the values. The owner's own additions that no other trainer had received are
//! then lost. Its additions that others had received stay, even if they were not settled, because nobody can subtract
//! them any more.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, RwLock};
use std::time::Duration;

use pbg_clock::{Exclusive, JoinHandle};
use pbg_core::lock::lock;
use pbg_core::loss::LossState;
use pbg_core::strategy::{Loss as _, StrategyError};
use pbg_ledger::transport::LiveTraffic;
use pbg_model::error::{JoinError, RunError};
use pbg_train::GuardedLoss;

use crate::ledger::LedgerClient;

mod arrays;
mod blocks;
mod encoding;
mod locations;
mod loss;
mod loss_shard;
mod message;
mod owner;
mod rate_limit;
mod rounds;
mod shard;
mod shared;
mod state;
mod transfers;

pub(super) use arrays::SharedArrays;
use loss_shard::LossShard;
use rate_limit::RateLimiter;
pub use rate_limit::SyncLimits;
use rounds::ExchangeRounds;
use shard::ShardCopy;
use shared::ExchangeShared;

/// The parameter exchange of one trainer, which runs in a thread while this value exists.
pub(super) struct ParameterExchange {
    exchange: Arc<ExchangeRounds>,
    thread: Option<JoinHandle>,
}

impl ParameterExchange {
    /// Starts to exchange `arrays`, and the parameters of `loss` if they change. Both have the values of the newest
    /// checkpoint or their initial values. Waits until the additions of the other trainers since then are received, or
    /// until `patience` is over.
    ///
    /// # Errors
    /// When the operating system cannot create a thread, or there is no connection to the other trainers.
    pub(super) fn start(
        arrays: SharedArrays,
        loss: Option<GuardedLoss>,
        ledger: &Arc<LedgerClient>,
        live: &Arc<dyn LiveTraffic>,
        limits: SyncLimits,
        patience: Duration,
    ) -> Result<Self, RunError> {
        let exchange = Arc::new(exchange_rounds(arrays, loss, ledger, live, limits));
        let answering = Arc::clone(&exchange.shared);
        let answers = Arc::new(move |question: &[u8]| answering.answer(question));
        live.answer(ledger.token(), answers)
            .map_err(|no| JoinError::unreachable(Duration::ZERO, no))?;
        exchange.tell(patience);
        let exchanging = Arc::clone(&exchange);
        let thread = pbg_clock::spawn("parameters", move || exchanging.run())
            .map_err(|e| RunError::Thread(e.to_string()))?;
        Ok(Self {
            exchange,
            thread: Some(thread),
        })
    }

    /// Returns the lock that workers must hold (shared) while they train a batch.
    pub(super) fn gate(&self) -> Arc<RwLock<()>> {
        Arc::clone(&self.exchange.gate)
    }

    /// Returns the duration of the last exchange of all blocks.
    pub(super) fn last_duration(&self) -> Duration {
        Duration::from_micros(self.exchange.took.load(Ordering::Relaxed))
    }

    /// Returns the state of the loss if this trainer owns it.
    pub(super) fn own_loss(&self) -> Option<LossState> {
        let shared = &self.exchange.shared;
        let state = |sums: &mut LossShard| sums.state().clone();
        shared.places.with_loss(shared.loss_index()?, state)
    }

    /// Returns the error of an update of the loss that failed here, if one did.
    pub(super) fn fault(&self) -> Option<StrategyError> {
        lock(&self.exchange.fault).take()
    }

    /// Sends all earlier additions to the owners and receives their sums, for at most `within`. Returns whether all
    /// owners have answered.
    pub(super) fn flush(&self, within: Duration) -> bool {
        self.exchange.tell(within)
    }

    /// Sends all additions, declares them settled, and passes on the blocks that this trainer owns, for at most
    /// `within`. The caller must have settled everything, must not change parameters any more, and leaves the run
    /// afterwards. Returns whether everything was passed on. The rest is treated like the blocks of a lost trainer.
    pub(super) fn transfer_all(&self, within: Duration) -> bool {
        let ExchangeRounds { shared, pace, .. } = &*self.exchange;
        let started = pbg_clock::now();
        let left = || within.saturating_sub(pbg_clock::elapsed(started));
        let told = self.flush(left());
        // Additions sent after the last settlement were made before it. With another settlement, the owners no longer
        // treat them as unsettled and will not subtract them.
        shared.ledger.begin_settlement();
        shared.ledger.end_settlement();
        let settled = self.flush(left());
        shared.leaves(shared.ledger.token());
        loop {
            let is_over = self.flush(left()) && !shared.is_last_owner();
            if is_over || left().is_zero() || shared.ledger.ends_waits() {
                return told && settled && is_over;
            }
            pbg_clock::sleep(pace.wait_after_round(pbg_clock::now()).min(left()));
        }
    }

    /// Ends the thread. Later additions are sent only by [`ParameterExchange::flush`].
    pub(super) fn end_rounds(&mut self) {
        self.exchange.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            self.exchange.shared.request_round();
            // The panic message is already printed, and nobody is left to handle the error.
            let _panicked = thread.join();
        }
    }
}

impl Drop for ParameterExchange {
    fn drop(&mut self) {
        self.end_rounds();
    }
}

/// Side of one trainer in the exchange, without threads.
pub(super) struct ExchangePeer(ExchangeRounds);

impl ExchangePeer {
    /// Creates it in the state before any trainer was asked.
    pub(super) fn new(
        arrays: SharedArrays,
        loss: Option<GuardedLoss>,
        ledger: &Arc<LedgerClient>,
        live: &Arc<dyn LiveTraffic>,
        limits: SyncLimits,
    ) -> Self {
        Self(exchange_rounds(arrays, loss, ledger, live, limits))
    }

    /// Answers a question of another trainer.
    pub(super) fn answer(&self, question: &[u8]) -> Vec<u8> {
        self.0.shared.answer(question)
    }

    /// Exchanges every block once.
    pub(super) fn round(&self) {
        self.0.round(None, None);
    }
}

fn exchange_rounds(
    arrays: SharedArrays,
    loss: Option<GuardedLoss>,
    ledger: &Arc<LedgerClient>,
    live: &Arc<dyn LiveTraffic>,
    limits: SyncLimits,
) -> ExchangeRounds {
    let state = loss.as_ref().and_then(|loss| loss.state());
    let loss = loss.filter(|_| state.is_some());
    if let Some(loss) = &loss {
        loss.share_parameters();
    }
    ExchangeRounds {
        shared: Arc::new(shared(&arrays, state, ledger, live)),
        arrays,
        loss,
        fault: Mutex::default(),
        gate: Arc::<RwLock<()>>::default(),
        turns: Exclusive::default(),
        pace: RateLimiter::new(limits),
        took: AtomicU64::new(0),
        ends: AtomicBool::new(false),
    }
}

fn shared(
    arrays: &SharedArrays,
    loss: Option<LossState>,
    ledger: &Arc<LedgerClient>,
    live: &Arc<dyn LiveTraffic>,
) -> ExchangeShared {
    let blocks = blocks::cut_into_blocks(arrays);
    let seen = blocks.iter().map(|block| block.read(arrays));
    let seen = seen.map(ShardCopy::initial).collect();
    ExchangeShared::new(blocks, seen, loss, Arc::clone(ledger), Arc::clone(live))
}

#[cfg(test)]
mod tests;
