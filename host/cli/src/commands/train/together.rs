//! One trainer of several: how it finds the others.

use std::env;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use pbg_cluster::{Connection, Method, Options, RunName, Secret, connect};
use pbg_config::Config;
use pbg_core::cluster::{Live, Register};
use pbg_core::ledger::Record;
use pbg_train::{Cluster, Outcome};

use crate::exit_codes::Kind;
use crate::failure::{Failure, Result};
use crate::terminal::Terminal;

/// The environment variable with what all trainers of a run know.
const SECRET: &str = "PBG_HOST_SECRET";
/// The environment variable with the address on which rank 0's server listens.
const LISTEN: &str = "PBG_HOST_LISTEN";
/// How long rank 0 waits for the others to leave before it leaves its server running.
const LEAVE_WITHIN: Duration = Duration::from_secs(10);

/// A trainer that is connected to the others.
pub(super) struct Meeting {
    connection: Arc<Connection>,
    rank: Option<u32>,
    machines: u32,
}

/// Finds the other trainers where the configuration says that there are some.
///
/// # Errors
/// When it says something wrong, or they cannot be reached.
pub(super) fn meet(
    config: &Config,
    rank: Option<u32>,
    terminal: Terminal,
) -> Result<Option<Meeting>> {
    let Some(method) = &config.distributed_init_method else {
        return match rank {
            None => Ok(None),
            Some(_) => Err(Failure::message(
                Kind::Usage,
                "--rank is for a run of several trainers",
            )
            .help("set distributed_init_method, which says how they find each other")),
        };
    };
    let lookup = |name: &str| env::var(name).ok();
    let found = Method::parse(method, lookup).map_err(|error| {
        Failure::new(Kind::Config, error).context("distributed_init_method cannot be used")
    })?;
    let machines = match config.num_machines {
        1 => found.world_size.unwrap_or(1),
        machines => machines,
    };
    let rank = rank.or(found.rank);
    if rank.is_none() && !matches!(found.method, Method::Nats { .. }) {
        let what = format!("{method} needs a rank for each trainer");
        return Err(Failure::message(Kind::Usage, what)
            .help("add --rank 0 to the trainer that starts the server, --rank 1 to the next"));
    }
    if let Some(rank) = rank.filter(|rank| config.num_machines > 1 && *rank >= machines) {
        let what = format!("--rank is {rank}, but there are {machines} trainers, counted from 0");
        return Err(Failure::message(Kind::Usage, what));
    }
    let options = options(config, found.method, rank)?;
    let notice = |text: &str| terminal.say(text);
    let connection = Arc::new(connect(&options, &notice)?);
    terminal.detail(format_args!("the ledger is on {}", connection.server()));
    Ok(Some(Meeting {
        connection,
        rank,
        machines,
    }))
}

fn options(config: &Config, method: Method, rank: Option<u32>) -> Result<Options> {
    let rules = &config.distributed;
    let checkpoint = Path::new(&config.checkpoint_path);
    let usage = |text: String| Failure::message(Kind::Usage, text);
    let secret = match env::var(SECRET) {
        Ok(text) => Some(Secret::new(&text).map_err(|e| usage(format!("{SECRET}: {e}")))?),
        Err(_) => None,
    };
    let listen = match env::var(LISTEN) {
        Ok(text) => {
            let address: Option<IpAddr> = text.parse().ok();
            Some(address.ok_or_else(|| usage(format!("{LISTEN}: {text:?} is no IP address")))?)
        }
        Err(_) => None,
    };
    let run = match &method {
        // Their server is their own.
        Method::File(_) | Method::Tcp(_) => RunName::new("run")?,
        Method::Nats { .. } => run_name(checkpoint)?,
    };
    Ok(Options {
        rank,
        nats_server: rules.nats_server.as_ref().map(PathBuf::from),
        search: search(),
        folder: Some(checkpoint.join("nats")),
        listen,
        patience: Duration::from_secs_f64(rules.patience),
        secret,
        credentials: rules.credentials.as_ref().map(PathBuf::from),
        insecure: rules.insecure,
        replicas: rules.replicas as usize,
        ..Options::new(method, run)
    })
}

/// A name for the run on servers that others use, too: by its checkpoint, which has the same path on every machine.
fn run_name(checkpoint: &Path) -> Result<RunName> {
    let path = std::path::absolute(checkpoint)
        .map_err(|e| Failure::new(Kind::Io, e).context("cannot find the working folder"))?;
    let hash = pbg_core::seed::of_text(
        0,
        pbg_core::seed::Purpose::Order,
        path.as_os_str().as_encoded_bytes(),
    );
    Ok(RunName::new(&format!("run-{hash:016x}"))?)
}

/// Where `nats-server` may be before `PATH` is asked: beside the program, and where the repository's set-up puts it.
fn search() -> Vec<PathBuf> {
    let program = env::current_exe().unwrap_or_default();
    let folders = program.ancestors().skip(1).take(4);
    folders
        .flat_map(|folder| [folder.to_owned(), folder.join(".deps/nats")])
        .collect()
}

impl Meeting {
    /// How this trainer takes part.
    pub(super) fn cluster(&self, config: &Config) -> Cluster {
        let rules = &config.distributed;
        let name = match self.rank {
            Some(rank) => format!("{} ({rank})", host_name()),
            None => format!("{}:{}", host_name(), std::process::id()),
        };
        Cluster {
            register: Arc::clone(&self.connection) as Arc<dyn Register>,
            live: Arc::clone(&self.connection) as Arc<dyn Live>,
            name,
            rank: self.rank,
            machines: self.machines,
            tree_init: config.distributed_tree_init_order,
            lease: Duration::from_secs_f64(rules.lease),
            exchange: Duration::from_secs_f64(1.0 / rules.sync_rounds),
            heartbeat: Duration::from_secs_f64(rules.heartbeat),
            patience: Duration::from_secs_f64(rules.patience),
            ahead: rules.ahead,
        }
    }

    /// Ends the server that rank 0 has started, once nobody takes part any more.
    ///
    /// # Errors
    /// When it does not end.
    pub(super) fn end(&self, outcome: &Outcome) -> Result<()> {
        if self.rank != Some(0) {
            return Ok(());
        }
        let started = Instant::now();
        let others = matches!(outcome, Outcome::Finished { .. });
        while !self.is_empty() {
            if !others || started.elapsed() > LEAVE_WITHIN {
                return Ok(());
            }
            thread::sleep(Duration::from_millis(50));
        }
        self.connection.stop_server()?;
        Ok(())
    }

    /// Whether nobody takes part.
    fn is_empty(&self) -> bool {
        let Ok(Some(entry)) = self.connection.read() else {
            return false;
        };
        serde_json::from_slice::<Record>(&entry.value)
            .is_ok_and(|record| record.trainers().is_empty())
    }
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    match name.trim() {
        "" => "trainer".to_owned(),
        name => name.chars().take(40).collect(),
    }
}
