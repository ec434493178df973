//! Options for the connection to the other trainers of a run, from the configuration and environment variables.

use std::env;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pbg_config::{Config, LedgerPlace};
use pbg_files::remote;
use pbg_ledger::LedgerRecord;
use pbg_ledger::transport::Register as _;
use pbg_transport::{
    AccessToken, Connection, ConnectionOptions, InitMethod, ResolvedMethod, RunName, Secret,
};

use crate::failure::{Failure, Result};
use crate::kind::FailureKind;

/// Environment variable with the secret that all trainers of a run share.
const SECRET: &str = "PBG_HOST_SECRET";
/// Environment variable with the address on which rank 0's server listens.
const LISTEN: &str = "PBG_HOST_LISTEN";

/// Parses `distributed_init_method`.
///
/// # Errors
/// When the text is invalid, or when it is `env://` and one of the environment variables that it reads is missing or
/// invalid.
pub(crate) fn method(text: &str) -> Result<ResolvedMethod> {
    let lookup = |name: &str| env::var(name).ok();
    InitMethod::parse(text, lookup).map_err(|error| {
        Failure::new(FailureKind::Config, error).context("distributed_init_method cannot be used")
    })
}

/// Describes where the ledger of a run is, and what carries the heartbeats of its trainers.
pub(crate) fn meeting_place(connection: &Connection) -> String {
    match (connection.ledger_url(), connection.server()) {
        (None, server) => format!("the ledger is on {}", server.unwrap_or_default()),
        (Some(url), Some(server)) => {
            format!("the ledger is in {url}; heartbeats go through {server}")
        }
        (Some(url), None) => {
            format!("the ledger is in {url}; trainers look there once a second for heartbeats")
        }
    }
}

/// Reads and checks the record of a run from the ledger; `None` if the ledger is empty.
///
/// # Errors
/// When the ledger does not answer, or is damaged.
pub(crate) fn record(connection: &Connection) -> Result<Option<LedgerRecord>> {
    let failed = |error: &dyn std::fmt::Display| {
        Failure::message(
            FailureKind::Cluster,
            format!("the ledger cannot be read: {error}"),
        )
    };
    let Some(entry) = connection.read().map_err(|no| failed(&no))? else {
        return Ok(None);
    };
    let record: LedgerRecord = serde_json::from_slice(&entry.value).map_err(|e| failed(&e))?;
    record.check().map_err(|damage| failed(&damage))?;
    Ok(Some(record))
}

/// Returns the options of a connection, from the configuration and the environment variables. `PBG_HOST_SECRET` is the
/// access token of the server if the init method is `nats://`, and otherwise the secret that all trainers share.
///
/// # Errors
/// When an environment variable is invalid.
pub(crate) fn options(
    config: &Config,
    method: InitMethod,
    rank: Option<u32>,
) -> Result<ConnectionOptions> {
    let rules = &config.distributed;
    let checkpoint = Path::new(&config.checkpoint_path);
    let usage = |text: String| Failure::message(FailureKind::Usage, text);
    let wrong = |error: pbg_transport::ConnectError| usage(format!("{SECRET}: {error}"));
    let (mut secret, mut token) = (None, None);
    match (env::var(SECRET), &method) {
        (Ok(text), InitMethod::Nats { .. }) => {
            token = Some(AccessToken::new(&text).map_err(wrong)?)
        }
        (Ok(text), _) => secret = Some(Secret::new(&text).map_err(wrong)?),
        (Err(_), _) => {}
    }
    let listen = match env::var(LISTEN) {
        Ok(text) => {
            let address: Option<IpAddr> = text.parse().ok();
            Some(address.ok_or_else(|| usage(format!("{LISTEN}: {text:?} is not an IP address")))?)
        }
        Err(_) => None,
    };
    let run = match &method {
        // The server of these methods belongs to this run alone.
        InitMethod::File(_) | InitMethod::Tcp(_) => RunName::new("run")?,
        InitMethod::Nats { .. } => run_name(checkpoint)?,
    };
    let (authority, identity) = certificates(config, &method)?;
    Ok(ConnectionOptions {
        rank,
        nats_server: rules.nats_server.as_ref().map(PathBuf::from),
        search: search(),
        folder: server_folder(checkpoint),
        listen,
        timeout: Duration::from_secs_f64(rules.patience),
        secret,
        token,
        credentials: rules.credentials.as_ref().map(PathBuf::from),
        authority,
        identity,
        insecure: rules.insecure,
        replicas: rules.replicas as usize,
        ledger_url: match config.ledger_place() {
            Some(LedgerPlace::Store(url)) => Some(url.to_owned()),
            _ => None,
        },
        ..ConnectionOptions::new(method, run)
    })
}

/// Certificate and key of a client.
type ClientIdentity = (PathBuf, PathBuf);

/// Returns the certificate of the authority of `tls://`, and the trainer's own certificate and key.
///
/// # Errors
/// When one of the two is set without the other, or one is set for servers that are not reached by `tls://`.
fn certificates(
    config: &Config,
    method: &InitMethod,
) -> Result<(Option<PathBuf>, Option<ClientIdentity>)> {
    let rules = &config.distributed;
    let path = |text: &Option<String>| text.as_ref().map(PathBuf::from);
    let (authority, certificate, key) = (
        path(&rules.authority),
        path(&rules.certificate),
        path(&rules.key),
    );
    let wrong = |what: &str, help: &str| {
        Err(Failure::message(FailureKind::Config, what).help(help.to_owned()))
    };
    let is_any = [&authority, &certificate, &key]
        .iter()
        .any(|path| path.is_some());
    if is_any && !matches!(method, InitMethod::Nats { tls: true, .. }) {
        return wrong(
            "distributed.authority, certificate and key are those of servers that are reached by tls://",
            "set distributed_init_method to tls://HOST:PORT, or leave these keys out",
        );
    }
    match (certificate, key) {
        (Some(certificate), Some(key)) => Ok((authority, Some((certificate, key)))),
        (None, None) => Ok((authority, None)),
        _ => wrong(
            "distributed.certificate and distributed.key belong together, but only one of them is set",
            "set both; `pbg-host cluster keys` makes them",
        ),
    }
}

/// Returns the folder in which a server that rank 0 starts for `tcp://` keeps its files; for a checkpoint in an object
/// store, in the working folder.
fn server_folder(checkpoint: &Path) -> Option<PathBuf> {
    match remote::as_url(checkpoint) {
        Some(url) => {
            let name = url.trim_end_matches('/').rsplit('/').next()?;
            Some(PathBuf::from(format!("{name}.nats")))
        }
        None => Some(checkpoint.join("nats")),
    }
}

/// Derives the name of a run on a server that it shares with other runs. The name is a hash of the path of the
/// checkpoint, which is the same on every machine of the run.
fn run_name(checkpoint: &Path) -> Result<RunName> {
    let path = match remote::as_url(checkpoint) {
        Some(url) => PathBuf::from(url.trim_end_matches('/')),
        None => std::path::absolute(checkpoint).map_err(|error| {
            Failure::new(FailureKind::Io, error).context("cannot find the working folder")
        })?,
    };
    let hash = pbg_core::seed::of_text(
        0,
        pbg_core::seed::StreamPurpose::Order,
        path.as_os_str().as_encoded_bytes(),
    );
    Ok(RunName::new(&format!("run-{hash:016x}"))?)
}

/// Returns the folders that are searched for `nats-server` before `PATH`: the folder of the program, three folders
/// above it, and `.deps/nats`, where `cargo xtask setup` installs it, in each of them.
pub(crate) fn search() -> Vec<PathBuf> {
    let program = env::current_exe().unwrap_or_default();
    let folders = program.ancestors().skip(1).take(4);
    folders
        .flat_map(|folder| [folder.to_owned(), folder.join(".deps/nats")])
        .collect()
}
