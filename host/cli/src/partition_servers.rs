//! Partition servers of a run: the server of this process, and connections to all of them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use pbg_checkpoint::ServerConnector;
use pbg_config::Config;
use pbg_core::graph::Side;
use pbg_distributed::{ServerOptions, ServerPresence, server_token};
use pbg_files::remote::RemoteFolder;
use pbg_ledger::transport::{LiveTraffic, Register};
use pbg_ledger::{PartitionServer, ServerTerms, Token};
use pbg_model::layout::Layout;
use pbg_objects::PartitionServerAccess;
use pbg_partition_server::{AccessKey, MemoryServer, ServerError, ServerTls};
use pbg_transport::{Connection, Secret, outgoing_address};

use crate::failure::{Failure, Result};
use crate::kind::FailureKind;

/// Name of the key with which requests are signed.
const KEY_ID: &str = "pbg-host";
/// Environment variable with the secret of partition servers where the trainers' server has none for all of them.
const SECRET: &str = "PBG_HOST_SERVER_SECRET";

/// Returns the size of the memory of each of `servers` partition servers: a share of all partitions, twice, since a new
/// file is there before the old one goes, and at least two of the largest partition.
pub(crate) fn memory_of_server(layout: &Layout, replicas: u64, servers: u64) -> u64 {
    let sides = [
        (Side::Lhs, layout.lhs_partitions),
        (Side::Rhs, layout.rhs_partitions),
    ];
    let sides = sides.iter().take(if layout.shared { 1 } else { 2 });
    let groups = sides.flat_map(|(side, count)| (0..*count).map(|partition| (*side, partition)));
    let sizes: Vec<u64> = groups
        .map(|group| layout.stored_group_bytes(group))
        .collect();
    let largest = sizes.iter().max().copied().unwrap_or_default();
    let share = (replicas * sizes.iter().sum::<u64>()).div_ceil(servers.max(1));
    2 * share.max(largest)
}

/// What the partition servers of a run and their clients have in common.
#[derive(Clone)]
pub(crate) struct ServerKeys {
    secret: Option<Secret>,
    insecure: bool,
}

impl ServerKeys {
    /// Returns the keys of the run of a connection.
    ///
    /// # Errors
    /// When the environment variable has no secret.
    pub(crate) fn new(connection: &Connection, config: &Config) -> Result<Self> {
        let of_environment = match std::env::var(SECRET) {
            Ok(text) => Some(Secret::new(&text).map_err(|error| {
                Failure::message(FailureKind::Usage, format!("{SECRET}: {error}"))
            })?),
            Err(_) => None,
        };
        Ok(Self {
            secret: of_environment.or_else(|| connection.secret().cloned()),
            insecure: config.distributed.insecure,
        })
    }

    /// Checks that a server at `ip` is safe: encrypted and with a key unless it is on this machine or the user allows
    /// otherwise.
    fn check(&self, ip: IpAddr) -> Result<()> {
        if ip.is_loopback() || self.insecure || self.secret.is_some() {
            return Ok(());
        }
        let what = format!(
            "a partition server at {ip} needs a secret that all servers and trainers share"
        );
        Err(Failure::message(FailureKind::Usage, what).help(format!(
            "set {SECRET} to 64 random hexadecimal digits everywhere (`openssl rand -hex 32`), or listen on 127.0.0.1"
        )))
    }

    /// Returns the certificate of a server at `ip`; `None` if its connections are not encrypted.
    fn tls(&self, ip: IpAddr) -> Result<Option<ServerTls>> {
        match &self.secret {
            Some(secret) if !ip.is_loopback() => {
                let (certificate, key) = secret.certificate(&ip.to_string())?;
                Ok(Some(ServerTls { certificate, key }))
            }
            _ => Ok(None),
        }
    }
}

impl ServerConnector for ServerKeys {
    fn connect(&self, token: Token, address: &str) -> io::Result<Arc<dyn RemoteFolder>> {
        let parsed: Option<SocketAddr> = address.parse().ok();
        let is_here = parsed.is_some_and(|address| address.ip().is_loopback());
        let authority = match &self.secret {
            Some(secret) if !is_here => {
                Some(secret.authority_certificate().map_err(io::Error::other)?)
            }
            None if !is_here && !self.insecure => {
                let what = format!("it is on another machine; set {SECRET}");
                return Err(io::Error::other(what));
            }
            _ => None,
        };
        let key = self.secret.as_ref();
        let access = PartitionServerAccess {
            key: key.map(|secret| (KEY_ID.to_owned(), secret.partition_key())),
            authority,
        };
        pbg_objects::open_server(address, &token.to_string(), &access)
    }
}

/// Partition server in this process.
pub(crate) struct OwnServer {
    pub(crate) server: MemoryServer,
    pub(crate) presence: Arc<ServerPresence>,
}

impl OwnServer {
    /// Starts a server with `memory` bytes at `listen`, and adds it to the run. Others reach it at `advertised`, if that is
    /// another address.
    ///
    /// # Errors
    /// When it cannot listen, or is not safe.
    pub(crate) fn start(
        connection: &Arc<Connection>,
        keys: &ServerKeys,
        config: &Config,
        (listen, advertised): (SocketAddr, Option<IpAddr>),
        memory: u64,
        name: &str,
    ) -> Result<Self> {
        let ip = advertised.unwrap_or_else(|| listen.ip());
        if ip.is_unspecified() {
            let what =
                format!("{listen} is every address of this machine, but not the one of a server");
            return Err(Failure::message(FailureKind::Usage, what)
                .help("add --advertise with the address at which trainers reach this machine"));
        }
        if ip.is_loopback() != listen.ip().is_loopback() {
            let what = format!("{listen} and {ip} are not both of this machine alone, or both not");
            return Err(Failure::message(FailureKind::Usage, what)
                .help("listen on 127.0.0.1 if trainers reach the server there, for example through a tunnel"));
        }
        keys.check(ip)?;
        let token = server_token()?;
        let secret = keys.secret.as_ref();
        let server = MemoryServer::start(pbg_partition_server::MemoryServerOptions {
            listen,
            bucket: token.to_string(),
            memory,
            key: secret.map(|secret| AccessKey {
                id: KEY_ID.to_owned(),
                secret: secret.partition_key(),
            }),
            tls: keys.tls(ip)?,
        });
        let server = server.map_err(|error| {
            let kind = match error {
                ServerError::Listen { .. } => FailureKind::Io,
                _ => FailureKind::Internal,
            };
            Failure::new(kind, error)
        })?;
        let address = SocketAddr::new(ip, server.address().port()).to_string();
        let register = Arc::clone(connection) as Arc<dyn Register>;
        let live = Arc::clone(connection) as Arc<dyn LiveTraffic>;
        let entry = (token, PartitionServer { address, memory });
        let heartbeat = Duration::from_secs_f64(config.distributed.heartbeat);
        let presence = ServerPresence::start((register, live), name, entry, heartbeat)?;
        Ok(Self {
            server,
            presence: Arc::new(presence),
        })
    }
}

/// Returns the address of this machine for the server of a trainer: the one by which it reaches others, or that of the
/// machine alone if its trainers meet there.
pub(crate) fn trainers_address(connection: &Connection) -> SocketAddr {
    let is_here = |server: &str| {
        let parsed: Option<SocketAddr> = server.parse().ok();
        server.starts_with("localhost:") || parsed.is_some_and(|a| a.ip().is_loopback())
    };
    let here = IpAddr::V4(Ipv4Addr::LOCALHOST);
    let ip = match connection.server() {
        Some(server) if is_here(server) => here,
        _ => outgoing_address().unwrap_or(here),
    };
    SocketAddr::new(ip, 0)
}

/// Returns the settings of a trainer that uses the partition servers of `config`; `None` if the run has none.
pub(crate) fn options(
    config: &Config,
    keys: &ServerKeys,
    own: Option<&OwnServer>,
) -> Option<ServerOptions> {
    let count = match config.num_partition_servers {
        0 => return None,
        -1 => None,
        count => u32::try_from(count).ok(),
    };
    Some(ServerOptions {
        terms: ServerTerms {
            count,
            replicas: config.distributed.partition_replicas,
        },
        connector: Arc::new(keys.clone()),
        own: own.map(|own| Arc::clone(&own.presence)),
    })
}
