//! A simulated trainer: the training of a distributed run, with simulated connections.

use std::fmt::Write as _;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pbg_checkpoint::CheckpointError;
use pbg_clock::Monitor;
use pbg_core::event::Event;
use pbg_core::lock::lock;
use pbg_distributed::{
    ClusterOptions, ServerOptions, ServerPresence, SyncLimits, server_token, train_distributed,
};
use pbg_files::FileError;
use pbg_ledger::transport::{LiveTraffic, Register};
use pbg_ledger::{PartitionServer, ServerTerms};
use pbg_model::compatibility::AllowedChanges;
use pbg_model::error::RunError;
use pbg_model::resolved::ResolvedConfig;
use pbg_train::RunOutcome;
use pbg_transport::{ConnectError, connect_by_objects};

use crate::graph;
use crate::live::{Network, SimTraffic};
use crate::partition_memory::{SimServerConnector, SimServers};
use crate::register::{RegisterConnection, SharedRegister};
use crate::store_connection::OpenedStore;
use crate::world::{Disturbances, Process, SimWorld};

/// Time for which trainers wait for a register that does not answer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(120);

/// What all trainers of a run share.
pub(crate) struct SharedRun {
    pub(crate) world: Arc<SimWorld>,
    /// The object store that the trainers share instead of a folder, the register and the network.
    pub(crate) store: Option<OpenedStore>,
    pub(crate) register: Arc<SharedRegister>,
    pub(crate) network: Arc<Network>,
    pub(crate) servers: Arc<SimServers>,
    /// Number of partition servers that each partition is sent to; `None` if there are none.
    pub(crate) replicas: Option<u32>,
    pub(crate) resolved: ResolvedConfig,
    /// Number of trainers.
    pub(crate) trainers: u32,
    pub(crate) lease: Duration,
    /// Longest time that training a bucket takes.
    pub(crate) bucket: Duration,
    pub(crate) lease_ahead: Option<bool>,
    pub(crate) narrator: Narrator,
    /// What was violated so far, a line each.
    pub(crate) violations: Arc<Mutex<String>>,
    pub(crate) trained: Mutex<TrainedBuckets>,
}

/// Buckets that the trainers of a run have trained, whether they were settled or not.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TrainedBuckets {
    pub(crate) buckets: u64,
    /// Time that they took.
    pub(crate) time: Duration,
}

/// Connections of a trainer to what has the ledger, and to the other trainers.
type Connections = (Arc<dyn Register>, Arc<dyn LiveTraffic>);

/// Receiver of a line about what happens in a run.
pub type Narrator = fn(Duration, &str);

/// A trainer's process.
pub(crate) struct TrainerProcess {
    pub(crate) process: Process,
    outcome: Arc<Monitor<Option<Result<RunOutcome, RunError>>>>,
    stop: Arc<AtomicBool>,
}

impl TrainerProcess {
    /// Starts the trainer of a rank.
    ///
    /// # Errors
    /// When the operating system cannot create a thread.
    pub(crate) fn start(
        run: &Arc<SharedRun>,
        rank: u32,
        disturbed: Disturbances,
    ) -> io::Result<Self> {
        let outcome = Arc::new(Monitor::new(None));
        let stop = Arc::new(AtomicBool::new(false));
        let (into, run, stopping) = (Arc::clone(&outcome), Arc::clone(run), Arc::clone(&stop));
        let world = Arc::clone(&run.world);
        let train = move || {
            let ended = run.train(rank, &stopping);
            into.change(|outcome| *outcome = Some(ended));
        };
        let process = world.start_process(disturbed, train)?;
        Ok(Self {
            process,
            outcome,
            stop,
        })
    }

    /// Asks the trainer to stop, as Ctrl-C does.
    pub(crate) fn ask_to_stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Returns the outcome, once, if the trainer has ended by itself.
    pub(crate) fn take_outcome(&self) -> Option<Result<RunOutcome, RunError>> {
        self.outcome.lock().take()
    }
}

impl SharedRun {
    /// Records that something is violated now.
    pub(crate) fn violate(&self, what: &str) {
        let at = self.world.time().as_secs_f64();
        let _infallible = writeln!(lock(&self.violations), "at {at:.3} s: {what}");
    }

    /// Cuts a process off from what has the ledger, or restores its connection.
    pub(crate) fn cut_off(&self, process: Process, is_cut: bool) {
        match &self.store {
            Some(opened) => opened.store.cut_off(process, is_cut),
            None => self.register.cut_off(process, is_cut),
        }
    }

    /// Makes what has the ledger silent until a moment.
    pub(crate) fn silence_until(&self, time: Duration) {
        match &self.store {
            Some(opened) => opened.store.stop_until(time),
            None => self.register.stop_until(time),
        }
    }

    /// Ends all faults of what has the ledger.
    pub(crate) fn restore_register(&self) {
        match &self.store {
            Some(opened) => opened.store.restore(),
            None => self.register.restore(),
        }
    }

    /// Whether anything was violated so far.
    pub(crate) fn is_violated(&self) -> bool {
        !lock(&self.violations).is_empty()
    }

    /// Connects the calling process to the other trainers.
    ///
    /// # Errors
    /// When the object store does not answer.
    fn connect(&self) -> Result<Connections, RunError> {
        let Some(opened) = &self.store else {
            return Ok((
                Arc::new(RegisterConnection::new(&self.world, &self.register)),
                Arc::new(SimTraffic::new(&self.world, &self.network)),
            ));
        };
        let connected = connect_by_objects(&opened.url, true).map_err(|error| match error {
            ConnectError::Store(error) => CheckpointError::from(error),
            error => {
                self.violate(&format!("a trainer cannot connect: {error}"));
                let cause = std::io::Error::other(error);
                FileError::new("open", Path::new(&opened.url), cause).into()
            }
        });
        let connection = Arc::new(connected?);
        Ok((Arc::clone(&connection) as Arc<dyn Register>, connection))
    }

    /// Starts the partition server of a trainer, if the trainers have servers.
    ///
    /// # Errors
    /// When no thread can be started.
    fn start_server(
        &self,
        rank: u32,
        connections: &Connections,
    ) -> Result<Option<ServerOptions>, RunError> {
        let Some(replicas) = self.replicas else {
            return Ok(None);
        };
        let token = server_token()?;
        self.servers.start(token);
        let server = PartitionServer {
            address: format!("server {rank}"),
            memory: u64::MAX,
        };
        let connections = connections.clone();
        let name = format!("server {rank}");
        let presence = ServerPresence::start(connections, &name, (token, server), self.lease / 10);
        Ok(Some(ServerOptions {
            terms: ServerTerms {
                count: None,
                replicas,
            },
            connector: Arc::new(SimServerConnector(Arc::clone(&self.servers))),
            own: Some(Arc::new(presence?)),
        }))
    }

    fn train(&self, rank: u32, stop: &Arc<AtomicBool>) -> Result<RunOutcome, RunError> {
        let connections = self.connect()?;
        let servers = self.start_server(rank, &connections)?;
        let (register, live) = connections;
        let options = ClusterOptions {
            servers,
            register,
            live,
            name: format!("trainer {rank}"),
            rank: Some(rank),
            machines: self.trainers,
            tree_init: true,
            lease: self.lease,
            sync_limits: SyncLimits {
                rounds: 10.0,
                bytes: 1e9,
            },
            heartbeat: self.lease / 10,
            patience: PATIENCE,
            lease_ahead: self.lease_ahead,
            on_event: {
                let (world, narrate) = (Arc::clone(&self.world), self.narrator);
                Arc::new(move |event| narrate(world.time(), &told(rank, &event)))
            },
        };
        let mut emit = |event: Event| {
            (self.narrator)(self.world.time(), &told(rank, &event));
            // Training itself takes no virtual time.
            if matches!(event, Event::BucketStarted { .. }) {
                let time = self.world.draw(|dice| dice.duration(self.bucket));
                pbg_clock::sleep(time);
                let mut trained = lock(&self.trained);
                trained.buckets += 1;
                trained.time += time;
            }
        };
        let (resolved, allowed) = (&self.resolved, AllowedChanges::default());
        let strategies = graph::strategies();
        train_distributed(resolved, strategies, &options, allowed, stop, &mut emit)
    }
}

/// Returns a line about an event of a trainer.
fn told(rank: u32, event: &Event) -> String {
    let event = serde_json::to_string(event).unwrap_or_default();
    format!("trainer {rank}: {event}")
}
