//! The thread that tells others that this trainer lives, and ends the part of those that do not.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pbg_core::cluster::{Beat, Live, State};
use pbg_core::event::Event;
use pbg_core::graph::Bucket;
use pbg_core::ledger::{Action, Record, Token};

use super::Cluster;
use super::ledger::Ledger;
use crate::error::RunError;
use crate::machine::Trained;

/// What the thread and the trainer share.
struct Shared {
    beat: Mutex<Beat>,
    notices: Mutex<Vec<Event>>,
    /// Trainers whose part this one has ended.
    ended: Mutex<Vec<Token>>,
    ends: AtomicBool,
}

/// The thread; dropping it ends it.
pub(super) struct Watch {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    /// Starts the thread for a trainer that has joined.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub(super) fn start(cluster: &Cluster, ledger: &Arc<Ledger>) -> Result<Self, RunError> {
        let beat = Beat {
            token: ledger.token(),
            name: cluster.name.clone(),
            rank: cluster.rank,
            state: State::Waiting,
            bucket: None,
            edges_per_second: 0.0,
            waited: 0.0,
        };
        let shared = Arc::new(Shared {
            beat: Mutex::new(beat),
            notices: Mutex::default(),
            ended: Mutex::default(),
            ends: AtomicBool::new(false),
        });
        let watcher = Watcher {
            shared: Arc::clone(&shared),
            ledger: Arc::clone(ledger),
            live: Arc::clone(&cluster.live),
            heartbeat: cluster.heartbeat,
            lease: cluster.lease,
            met: BTreeMap::new(),
        };
        let thread = thread::Builder::new()
            .name("watch".to_owned())
            .spawn(move || watcher.run())
            .map_err(|e| RunError::Thread(e.to_string()))?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// What this trainer does from now on.
    pub(super) fn says(&self, state: State, bucket: Option<Bucket>) {
        let mut beat = lock(&self.shared.beat);
        (beat.state, beat.bucket) = (state, bucket);
    }

    /// What its last bucket gave.
    pub(super) fn trained(&self, trained: &Trained) {
        let stood = trained.io.stood_still();
        let whole = (trained.seconds + stood).max(f64::MIN_POSITIVE);
        let mut beat = lock(&self.shared.beat);
        beat.edges_per_second = trained.stats.count as f64 / whole;
        beat.waited = stood / whole;
    }

    /// What happened since this was asked last.
    pub(super) fn notices(&self) -> Vec<Event> {
        std::mem::take(&mut *lock(&self.shared.notices))
    }

    /// Trainers whose part this one has ended since this was asked last.
    pub(super) fn ended(&self) -> Vec<Token> {
        std::mem::take(&mut *lock(&self.shared.ended))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.shared.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // What it panicked with was printed; there is nobody left to tell.
            let _panicked = thread.join();
        }
    }
}

struct Watcher {
    shared: Arc<Shared>,
    ledger: Arc<Ledger>,
    live: Arc<dyn Live>,
    heartbeat: Duration,
    lease: Duration,
    /// When each trainer of the record was first seen there: one that never says anything is silent since then.
    met: BTreeMap<Token, Instant>,
}

impl Watcher {
    fn run(mut self) {
        while !self.shared.ends.load(Ordering::Relaxed) {
            let beat = lock(&self.shared.beat).clone();
            self.live.beat(&beat);
            if let Some(record) = self.ledger.seen() {
                self.end_silent(&record);
            }
            thread::park_timeout(self.heartbeat);
        }
    }

    /// Ends the part of trainers that were silent for the time of a lease. Who does not hear itself is cut off, and
    /// says nothing about others.
    fn end_silent(&mut self, record: &Record) {
        let heard: BTreeMap<Token, Duration> = self
            .live
            .heard()
            .into_iter()
            .map(|heard| (heard.beat.token, heard.ago))
            .collect();
        let is_fresh = |ago: &Duration| *ago < 3 * self.heartbeat;
        self.met
            .retain(|token, _| record.trainers().contains_key(token));
        for token in record.trainers().keys() {
            self.met.entry(*token).or_insert_with(Instant::now);
        }
        if !heard.get(&self.ledger.token()).is_some_and(is_fresh) {
            // Time that passed meanwhile is not held against anybody.
            self.met.clear();
            return;
        }
        for (token, trainer) in record.trainers() {
            let met = self.met.get(token).map_or(Duration::ZERO, Instant::elapsed);
            let silent = heard.get(token).map_or(met, |ago| (*ago).min(met));
            if *token == self.ledger.token() || silent < self.lease {
                continue;
            }
            // Another trainer may have been faster.
            if self.ledger.submit(Action::Revoke(*token)).is_ok() {
                lock(&self.shared.ended).push(*token);
                lock(&self.shared.notices).push(Event::TrainerLost {
                    name: trainer.name.clone(),
                    rank: trainer.rank,
                    silent_seconds: silent.as_secs_f64(),
                    buckets: trainer.leases.clone(),
                });
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
