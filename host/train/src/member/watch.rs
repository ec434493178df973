//! The threads that tell others that this trainer lives, and end the part of those that do not.
//!
//! They are two: while one waits for a ledger that does not answer, the other goes on telling.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pbg_core::cluster::{Beat, Live, State};
use pbg_core::event::Event;
use pbg_core::graph::Bucket;
use pbg_core::ledger::{Action, Record, Silent, Token};

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

/// The threads; dropping it ends them.
pub(super) struct Watch {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Watch {
    /// Starts the threads for a trainer that has joined.
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
            parameters: None,
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
        let mut watch = Self {
            shared: Arc::clone(&shared),
            threads: Vec::new(),
        };
        let (live, heartbeat) = (Arc::clone(&cluster.live), cluster.heartbeat);
        watch.start_thread("heartbeat", move || shared.tell(&*live, heartbeat))?;
        watch.start_thread("watch", move || watcher.run())?;
        Ok(watch)
    }

    fn start_thread(
        &mut self,
        name: &str,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<(), RunError> {
        let started = thread::Builder::new().name(name.to_owned()).spawn(work);
        let thread = started.map_err(|e| RunError::Thread(e.to_string()))?;
        self.threads.push(thread);
        Ok(())
    }

    /// What this trainer does from now on.
    pub(super) fn says(&self, state: State, bucket: Option<Bucket>) {
        let mut beat = lock(&self.shared.beat);
        (beat.state, beat.bucket) = (state, bucket);
    }

    /// What its last bucket gave, and how long parameters took last.
    pub(super) fn trained(&self, trained: &Trained, parameters: Option<Duration>) {
        let stood = trained.io.stood_still();
        let whole = (trained.seconds + stood).max(f64::MIN_POSITIVE);
        let mut beat = lock(&self.shared.beat);
        beat.edges_per_second = trained.stats.count as f64 / whole;
        beat.waited = stood / whole;
        beat.parameters = parameters.map(|took| took.as_secs_f64());
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
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            // What it panicked with was printed; there is nobody left to tell.
            let _panicked = thread.join();
        }
    }
}

impl Shared {
    /// Tells all trainers every `heartbeat` that this one lives.
    fn tell(&self, live: &dyn Live, heartbeat: Duration) {
        while !self.ends.load(Ordering::Relaxed) {
            let beat = lock(&self.beat).clone();
            live.beat(&beat);
            thread::park_timeout(heartbeat);
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
            if let Some(record) = self.ledger.seen() {
                self.end_silent(&record);
            }
            thread::park_timeout(self.heartbeat);
        }
    }

    /// Ends the part of trainers that were silent for the time of a lease.
    fn end_silent(&mut self, record: &Record) {
        self.met
            .retain(|token, _| record.trainers().contains_key(token));
        for token in record.trainers().keys() {
            self.met.entry(*token).or_insert_with(Instant::now);
        }
        if !self.hears_itself() {
            // Time that passed meanwhile is not held against anybody.
            self.met.clear();
            return;
        }
        let others = record.trainers().iter();
        for (token, trainer) in others.filter(|(token, _)| **token != self.ledger.token()) {
            let silent = self.silent(*token);
            if silent < self.lease {
                continue;
            }
            // A ledger that answers late must not end the part of one that has spoken since.
            let is_silent = || self.hears_itself() && self.silent(*token) >= self.lease;
            let revoke = Action::Revoke(Silent {
                token: *token,
                last: trainer.last,
            });
            // Another trainer may have been faster.
            if self.ledger.submit_while(revoke, &is_silent).is_ok() {
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

    /// How long ago `token` was heard; since it was met, if it never was.
    fn silent(&self, token: Token) -> Duration {
        let met = self.met.get(&token).map(Instant::elapsed);
        let met = met.unwrap_or(Duration::ZERO);
        self.heard(token).map_or(met, |ago| ago.min(met))
    }

    /// Who does not hear itself is cut off, and says nothing about others.
    fn hears_itself(&self) -> bool {
        let own = self.heard(self.ledger.token());
        own.is_some_and(|ago| ago < 3 * self.heartbeat)
    }

    fn heard(&self, token: Token) -> Option<Duration> {
        let heard = self.live.heard();
        let of_token = heard.into_iter().find(|heard| heard.beat.token == token);
        of_token.map(|heard| heard.ago)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
