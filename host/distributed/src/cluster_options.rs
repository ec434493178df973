//! Options with which a trainer takes part in a distributed run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use pbg_checkpoint::{PartitionServers, ServerConnector};
use pbg_core::event::Event;
use pbg_ledger::ServerTerms;
use pbg_ledger::transport::{LiveTraffic, Register};

use crate::exchange::SyncLimits;
use crate::server_presence::ServerPresence;

/// Settings and connections of a trainer of a distributed run.
#[derive(Clone)]
pub struct ClusterOptions {
    /// Register that holds the ledger, shared by all trainers.
    pub register: Arc<dyn Register>,
    /// Live messages between trainers: heartbeats, wake-ups and questions.
    pub live: Arc<dyn LiveTraffic>,
    /// Name of this trainer in messages to the user.
    pub name: String,
    /// Rank of this trainer, if it was started with one.
    pub rank: Option<u32>,
    /// Number of trainers that must have joined before the first bucket is trained.
    pub machines: u32,
    /// Whether every bucket of the first pass, except the first, must have a partition that was already leased in this
    /// pass.
    pub tree_init: bool,
    /// Duration of silence after which the other trainers consider a trainer dead.
    pub lease: Duration,
    /// Limits on how often, and how much of, the shared parameters are exchanged.
    pub sync_limits: SyncLimits,
    /// Interval between heartbeats.
    pub heartbeat: Duration,
    /// Time after which a register that does not answer is an error.
    pub patience: Duration,
    /// Whether to lease the next bucket when training of the current one starts, so that its partitions load meanwhile.
    /// If `None`, this is done while there are at least four times as many partitions as trainers.
    pub lease_ahead: Option<bool>,
    /// Partition servers; `None` if partitions are in the checkpoint folder between checkpoints.
    pub servers: Option<ServerOptions>,
    /// Receives events from the threads that detect that the register does not answer. These threads run independently
    /// of the training thread.
    pub on_event: Arc<dyn Fn(Event) + Send + Sync>,
}

/// How a trainer uses partition servers.
#[derive(Clone)]
pub struct ServerOptions {
    /// Number of servers and replicas.
    pub terms: ServerTerms,
    /// Connects to servers.
    pub connector: Arc<dyn ServerConnector>,
    /// Server of this process, if every trainer has one.
    pub own: Option<Arc<ServerPresence>>,
}

impl ServerOptions {
    /// Returns the view of a trainer that knows only the server of its own process yet.
    pub(crate) fn view(&self) -> PartitionServers {
        let own = self.own.as_ref();
        let own = own.map(|own| (own.token(), own.server().address.clone()));
        let replicas = self.terms.replicas as usize;
        PartitionServers::new(Arc::clone(&self.connector), replicas, own)
    }
}

impl ClusterOptions {
    /// Waits before a trainer rejoins, or until `stop` is set. The wait doubles with `failed_rejoins`, the number of
    /// consecutive times that the trainer was removed from the run before it had trained a bucket, since the cause may
    /// still exist.
    pub(crate) fn back_off(&self, failed_rejoins: u32, stop: &AtomicBool) {
        let (pause, started) = (self.backoff(failed_rejoins), pbg_clock::now());
        while pbg_clock::elapsed(started) < pause && !stop.load(Ordering::Relaxed) {
            pbg_clock::sleep(pause.min(Duration::from_millis(50)));
        }
    }

    fn backoff(&self, failed_rejoins: u32) -> Duration {
        match failed_rejoins {
            0 => Duration::ZERO,
            n => self
                .heartbeat
                .saturating_mul(2_u32.saturating_pow(n - 1))
                .min(self.lease),
        }
    }
}
