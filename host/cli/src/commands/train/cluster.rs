//! Connects a trainer to the other trainers of a distributed run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pbg_config::{Config, LedgerPlace};
use pbg_core::event::Event;
use pbg_distributed::{ClusterOptions, SyncLimits};
use pbg_ledger::LedgerRecord;
use pbg_ledger::transport::{LiveTraffic, Register};
use pbg_model::error::RunError;
use pbg_model::memory;
use pbg_model::resolved::ResolvedConfig;
use pbg_train::RunOutcome;
use pbg_transport::{Connection, ConnectionOptions, InitMethod, ServerNotice};

use crate::cluster_status::{ClusterStatus, HeartbeatTimes, truncated_table};
use crate::failure::{Failure, Result};
use crate::kind::FailureKind;
use crate::partition_servers::{self, OwnServer, ServerKeys};
use crate::progress::Board;
use crate::terminal::Terminal;
use crate::{cluster_options, format};

/// Time that rank 0 waits for the other trainers to leave; afterwards it leaves its server running.
const LEAVE_WITHIN: Duration = Duration::from_secs(10);

/// Advice if there is too little memory for the partition server of a trainer.
const FEWER_BYTES: &str =
    "keep partitions in `checkpoint_path` (num_partition_servers = 0), or use more machines";

/// Connection of a trainer to the other trainers of its run.
pub(super) struct ClusterConnection {
    connection: Arc<Connection>,
    rank: Option<u32>,
    machines: u32,
    keys: ServerKeys,
}

/// Connects to the other trainers if the configuration is of a distributed run; returns `None` otherwise.
///
/// # Errors
/// When the configuration is invalid, or the ledger cannot be reached.
pub(super) fn connect(
    config: &Config,
    rank: Option<u32>,
    stop: &Arc<AtomicBool>,
    terminal: Terminal,
    teller: &Arc<dyn Fn(&Event) + Send + Sync>,
) -> Result<Option<ClusterConnection>> {
    let Some(method) = &config.distributed_init_method else {
        if let Some(LedgerPlace::Store(url)) = config.ledger_place() {
            return by_objects(url, config, rank, terminal).map(Some);
        }
        return match rank {
            None => Ok(None),
            Some(_) => Err(Failure::message(
                FailureKind::Usage,
                "--rank is for distributed runs only",
            )
            .help("set distributed_init_method, by which the trainers find each other")),
        };
    };
    let found = cluster_options::method(method)?;
    let machines = match config.num_machines {
        1 => found.world_size.unwrap_or(1),
        machines => machines,
    };
    let rank = rank.or(found.rank);
    if rank.is_none() && !matches!(found.method, InitMethod::Nats { .. }) {
        let what = format!("{method} needs a rank for each trainer");
        return Err(Failure::message(FailureKind::Usage, what)
            .help("add --rank 0 to the trainer that starts the server, --rank 1 to the next one"));
    }
    let listener = Arc::clone(teller);
    let tell = move |what: &str| {
        let what = what.to_owned();
        listener(&Event::LedgerServer { what });
    };
    let options = ConnectionOptions {
        stop: Some(Arc::clone(stop)),
        server_listener: Some(ServerNotice(Arc::new(tell))),
        ..cluster_options::options(config, found.method, rank)?
    };
    let notice = |text: &str| terminal.print_line(text);
    let connection = Arc::new(pbg_transport::connect(&options, &notice)?);
    terminal.detail(cluster_options::meeting_place(&connection));
    Ok(Some(ClusterConnection {
        keys: ServerKeys::new(&connection, config)?,
        connection,
        rank,
        machines,
    }))
}

/// Connects to the trainers that share the folder `url` in an object store. A run of one trainer is one of several in which
/// nobody else takes part; its rank keeps a second one out.
fn by_objects(
    url: &str,
    config: &Config,
    rank: Option<u32>,
    terminal: Terminal,
) -> Result<ClusterConnection> {
    let connection = Arc::new(pbg_transport::connect_by_objects(url, true)?);
    terminal.detail(cluster_options::meeting_place(&connection));
    let machines = config.num_machines;
    Ok(ClusterConnection {
        keys: ServerKeys::new(&connection, config)?,
        connection,
        rank: rank.or((machines == 1).then_some(0)),
        machines,
    })
}

impl ClusterConnection {
    /// Returns whether others may take part in the run.
    pub(super) fn is_shared(&self) -> bool {
        self.machines > 1 || self.connection.server().is_some()
    }

    /// Starts the partition server of this trainer, if every trainer of the run has one.
    ///
    /// # Errors
    /// When there is not enough memory, or it cannot listen.
    pub(super) fn own_server(
        &self,
        resolved: &ResolvedConfig,
        terminal: Terminal,
    ) -> Result<Option<OwnServer>> {
        let config = resolved.config();
        if config.num_partition_servers != -1 {
            return Ok(None);
        }
        let replicas = u64::from(config.distributed.partition_replicas);
        let layout = &resolved.blueprint().layout;
        let memory =
            partition_servers::memory_of_server(layout, replicas, u64::from(self.machines));
        memory::require_more("the partition server of this trainer", memory, FEWER_BYTES)
            .map_err(RunError::from)?;
        let address = (partition_servers::trainers_address(&self.connection), None);
        let name = format!("server of {}", self.name());
        let own = OwnServer::start(&self.connection, &self.keys, config, address, memory, &name)?;
        terminal.detail(format_args!(
            "partition server at {} with up to {}",
            own.presence.server().address,
            format::bytes(memory)
        ));
        Ok(Some(own))
    }

    /// Returns the name of this trainer in messages.
    fn name(&self) -> String {
        match self.rank {
            Some(rank) => format!("{} ({rank})", host_name()),
            None => format!("{}:{}", host_name(), std::process::id()),
        }
    }

    /// Returns the settings with which this trainer takes part in the run.
    pub(super) fn cluster(
        &self,
        config: &Config,
        own: Option<&OwnServer>,
        teller: Arc<dyn Fn(&Event) + Send + Sync>,
    ) -> ClusterOptions {
        let rules = &config.distributed;
        ClusterOptions {
            servers: partition_servers::options(config, &self.keys, own),
            register: Arc::clone(&self.connection) as Arc<dyn Register>,
            live: Arc::clone(&self.connection) as Arc<dyn LiveTraffic>,
            name: self.name(),
            rank: self.rank,
            machines: self.machines,
            tree_init: config.distributed_tree_init_order,
            lease: Duration::from_secs_f64(rules.lease),
            sync_limits: SyncLimits {
                rounds: rules.sync_rounds,
                bytes: rules.sync_bytes,
            },
            heartbeat: Duration::from_secs_f64(rules.heartbeat),
            patience: Duration::from_secs_f64(rules.patience),
            lease_ahead: rules.ahead,
            on_event: Arc::new(move |event| teller(&event)),
        }
    }

    /// Starts a thread that shows the status of all trainers on `board` until the returned guard is dropped.
    ///
    /// # Errors
    /// When the thread cannot be started.
    pub(super) fn show(&self, config: &Config, board: Board) -> Result<StatusThread> {
        let (connection, rules) = (Arc::clone(&self.connection), HeartbeatTimes::of(config));
        let ends = Arc::new(AtomicBool::new(false));
        let shows = Arc::clone(&ends);
        let show = move || {
            while !shows.load(Ordering::Relaxed) {
                // Errors are ignored: the ledger may answer next time, and the trainer itself reports why it waits.
                if let Ok(status) = ClusterStatus::of(&connection) {
                    board(&truncated_table(&status.table(&rules)));
                }
                thread::park_timeout(rules.heartbeat);
            }
        };
        let thread = thread::Builder::new().name("board".to_owned()).spawn(show);
        let thread = thread.map_err(|e| Failure::new(FailureKind::Internal, e))?;
        Ok(StatusThread {
            ends,
            thread: Some(thread),
        })
    }

    /// Returns whether the run has no trainers; `None` if the register does not answer.
    fn connection_is_idle(&self) -> Option<bool> {
        let record = cluster_options::record(&self.connection).ok()?;
        Some(record.is_some_and(|record| record.trainers().is_empty()))
    }

    /// Stops the server that rank 0 has started if this trainer has failed and no other trainers are left.
    pub(super) fn abandon(&self) {
        let record = cluster_options::record(&self.connection);
        // Trainers that find each other in the object store do not use this server.
        let is_unused = |record: LedgerRecord| record.trainers().is_empty() || record.terms().polls;
        let is_unused = record.is_ok_and(|record| record.is_none_or(is_unused));
        if self.rank == Some(0) && is_unused {
            // Errors are ignored, since the earlier failure is the one to report.
            let _ended = self.connection.stop_server();
        }
    }

    /// Stops the server that rank 0 has started, once the run has no trainers. Rank 0 does so, or, if it left earlier,
    /// the last trainer, provided that it runs on the same machine.
    ///
    /// # Errors
    /// When the server does not stop.
    pub(super) fn stop_idle_server(&self, outcome: &RunOutcome, terminal: Terminal) -> Result<()> {
        let (is_first, started) = (self.rank == Some(0), pbg_clock::now());
        let waits = is_first && matches!(outcome, RunOutcome::Finished { .. });
        loop {
            if self.connection.server_is_gone() {
                return Ok(());
            }
            // A busy machine may answer late. If the last trainer took that for a run with trainers, its server would
            // stay.
            let asks_again = match self.connection_is_idle() {
                Some(true) => break,
                Some(false) => waits,
                None => true,
            };
            if !asks_again || started.elapsed() > LEAVE_WITHIN {
                return Ok(());
            }
            pbg_clock::sleep(Duration::from_millis(50));
        }
        match self.connection.stop_server() {
            Err(error) if is_first => Err(error.into()),
            // Other trainers may be unable to stop it. At the end of a run rank 0 does; if rank 0 has left, the server
            // stays.
            Err(error) => {
                if matches!(outcome, RunOutcome::Interrupted { .. }) {
                    terminal
                        .print_line(format_args!("the server of the run keeps running: {error}"));
                }
                Ok(())
            }
            Ok(_) => Ok(()),
        }
    }
}

/// Guard of the thread that shows the status of trainers; dropping it stops the thread.
pub(super) struct StatusThread {
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for StatusThread {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The message of a panic has been printed already.
            let _panicked = thread.join();
        }
    }
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "trainer".to_owned(),
        name => name.chars().take(40).collect(),
    }
}
