//! Two threads of a trainer: one sends heartbeats, the other removes trainers that are silent.
//!
//! They are separate so that heartbeats continue while the other thread waits for a ledger that does not answer.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use pbg_clock::{JoinHandle, Monitor};
use pbg_core::event::Event;
use pbg_core::graph::Bucket;
use pbg_core::lock::lock;
use pbg_ledger::transport::{Heartbeat, LiveTraffic, TrainerActivity};
use pbg_ledger::{LedgerAction, LedgerRecord, SilentTrainer, Token};
use pbg_model::error::RunError;
use pbg_train::bucket_trainer::BucketResult;

use crate::cluster_options::ClusterOptions;
use crate::ledger::LedgerClient;

/// State shared by the threads and the trainer.
struct Shared {
    beat: Mutex<Heartbeat>,
    notices: Mutex<Vec<Event>>,
    ends: Monitor<bool>,
}

/// The threads. Dropping it ends and joins them.
pub(super) struct Heartbeats {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle>,
}

impl Heartbeats {
    /// Starts the threads of a trainer that has joined.
    ///
    /// # Errors
    /// When the operating system cannot create a thread.
    pub(super) fn start(
        cluster: &ClusterOptions,
        ledger: &Arc<LedgerClient>,
    ) -> Result<Self, RunError> {
        let beat = Heartbeat {
            token: ledger.token(),
            name: cluster.name.clone(),
            rank: cluster.rank,
            state: TrainerActivity::Waiting,
            bucket: None,
            edges_per_second: 0.0,
            waited: 0.0,
            parameters: None,
        };
        let shared = Arc::new(Shared {
            beat: Mutex::new(beat),
            notices: Mutex::default(),
            ends: Monitor::new(false),
        });
        let watcher = SilenceDetector {
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
        let started = pbg_clock::spawn(name, work);
        let thread = started.map_err(|e| RunError::Thread(e.to_string()))?;
        self.threads.push(thread);
        Ok(())
    }

    /// Sets the state and bucket that the next heartbeats report.
    pub(super) fn set_state(&self, state: TrainerActivity, bucket: Option<Bucket>) {
        let mut beat = lock(&self.shared.beat);
        (beat.state, beat.bucket) = (state, bucket);
    }

    /// Sets the speed of the last bucket and the duration of the last parameter exchange, which the next heartbeats
    /// report.
    pub(super) fn trained(&self, trained: &BucketResult, parameters: Option<Duration>) {
        let stood = trained.io.waited();
        let whole = (trained.seconds + stood).max(f64::MIN_POSITIVE);
        let mut beat = lock(&self.shared.beat);
        beat.edges_per_second = trained.stats.count as f64 / whole;
        beat.waited = stood / whole;
        beat.parameters = parameters.map(|took| took.as_secs_f64());
    }

    /// Returns the events since the last call.
    pub(super) fn notices(&self) -> Vec<Event> {
        std::mem::take(&mut *lock(&self.shared.notices))
    }

    /// Ends the threads. The next call of [`Heartbeats::notices`] returns the last events.
    pub(super) fn end(&mut self) {
        self.shared.ends.change(|ends| *ends = true);
        for thread in self.threads.drain(..) {
            // The panic message is already printed, and nobody is left to handle the error.
            let _panicked = thread.join();
        }
    }
}

impl Drop for Heartbeats {
    fn drop(&mut self) {
        self.end();
    }
}

impl Shared {
    /// Sends a heartbeat to all trainers at every `heartbeat` interval.
    fn tell(&self, live: &dyn LiveTraffic, heartbeat: Duration) {
        while !*self.ends.lock() {
            let beat = lock(&self.beat).clone();
            live.beat(&beat);
            self.wait(heartbeat);
        }
    }

    /// Waits for at most `at_most`, until the threads must end.
    fn wait(&self, at_most: Duration) {
        drop(self.ends.wait_while(at_most, |ends| !*ends));
    }
}

struct SilenceDetector {
    shared: Arc<Shared>,
    ledger: Arc<LedgerClient>,
    live: Arc<dyn LiveTraffic>,
    heartbeat: Duration,
    lease: Duration,
    /// When each trainer of the record was first seen there. A trainer that never sends anything counts as silent since
    /// then.
    met: BTreeMap<Token, Instant>,
}

impl SilenceDetector {
    fn run(mut self) {
        while !*self.shared.ends.lock() {
            if let Some(record) = self.ledger.last_record() {
                self.evict_silent(&record);
            }
            self.shared.wait(self.heartbeat);
        }
    }

    /// Removes trainers that were silent for the duration of a lease.
    fn evict_silent(&mut self, record: &LedgerRecord) {
        let is_known = |token: &Token| {
            record.trainers().contains_key(token) || record.servers().contains_key(token)
        };
        self.met.retain(|token, _| is_known(token));
        for token in record.trainers().keys().chain(record.servers().keys()) {
            self.met.entry(*token).or_insert_with(pbg_clock::now);
        }
        if !self.hears_itself() {
            // Time that passed meanwhile must not count as silence of the others.
            self.met.clear();
            return;
        }
        self.remove_silent_servers(record);
        let others = record.trainers().iter();
        for (token, trainer) in others.filter(|(token, _)| **token != self.ledger.token()) {
            let silent = self.silent(*token);
            if silent < self.lease {
                continue;
            }
            // If the ledger answers late, a trainer that was heard meanwhile must not be removed.
            let is_silent = || self.hears_itself() && self.silent(*token) >= self.lease;
            let revoke = LedgerAction::Revoke(SilentTrainer {
                token: *token,
                last: trainer.last,
            });
            // Another trainer may have removed it already.
            if self.ledger.submit_while(revoke, &is_silent).is_ok() {
                lock(&self.shared.notices).push(Event::TrainerLost {
                    name: trainer.name.clone(),
                    rank: trainer.rank,
                    silent_seconds: silent.as_secs_f64(),
                    buckets: trainer.leases.clone(),
                });
            }
        }
    }

    /// Removes partition servers that were silent for the duration of a lease. Files that only they had are lost.
    fn remove_silent_servers(&self, record: &LedgerRecord) {
        for (token, server) in record.servers() {
            let silent = self.silent(*token);
            if silent < self.lease || !self.hears_itself() {
                continue;
            }
            // Another trainer may have removed it already.
            if matches!(self.ledger.remove_server(*token), Ok(true)) {
                lock(&self.shared.notices).push(Event::ServerLost {
                    address: server.address.clone(),
                    silent_seconds: silent.as_secs_f64(),
                });
            }
        }
    }

    /// Returns the time since `token` was last heard or, if it never was, since it was first seen in the record.
    fn silent(&self, token: Token) -> Duration {
        let met = self.met.get(&token).copied().map(pbg_clock::elapsed);
        let met = met.unwrap_or(Duration::ZERO);
        self.heard(token).map_or(met, |ago| ago.min(met))
    }

    /// Whether this trainer receives its own heartbeats. If not, it is cut off and must not judge others.
    fn hears_itself(&self) -> bool {
        let own = self.heard(self.ledger.token());
        own.is_some_and(|ago| ago < 3 * (self.heartbeat + self.live.delay()))
    }

    fn heard(&self, token: Token) -> Option<Duration> {
        let heard = self.live.heartbeats();
        let of_token = heard.into_iter().find(|heard| heard.beat.token == token);
        of_token.map(|heard| heard.ago)
    }
}
