//! Options of a connection.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::error::ConnectError;
use crate::init_method::InitMethod;
use crate::limits::LONGEST_TOKEN;
use crate::notice::ServerNotice;
use crate::secret::Secret;

/// Name of a run, which is part of subjects and of a stream's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunName(String);

impl RunName {
    /// Checks a name: 1 to 64 characters, each of `a` to `z`, digits, `-` and `_`.
    ///
    /// # Errors
    /// [`ConnectError::RunName`].
    pub fn new(name: &str) -> Result<Self, ConnectError> {
        let is_allowed =
            |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
        match (1..=64).contains(&name.len()) && name.chars().all(is_allowed) {
            true => Ok(Self(name.to_owned())),
            false => Err(ConnectError::RunName(name.to_owned())),
        }
    }

    /// Returns the name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// Token that the user's servers require. It is never shown, not even in debug output.
#[derive(Clone, PartialEq, Eq)]
pub struct AccessToken(String);

impl AccessToken {
    /// Checks a token: 1 to 1024 characters without spaces.
    ///
    /// # Errors
    /// [`ConnectError::Token`].
    pub fn new(text: &str) -> Result<Self, ConnectError> {
        let is_wrong = |c: char| c.is_whitespace() || c.is_control();
        match (1..=LONGEST_TOKEN).contains(&text.len()) && !text.contains(is_wrong) {
            true => Ok(Self(text.to_owned())),
            false => Err(ConnectError::Token),
        }
    }

    /// Returns the token.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessToken")
    }
}

/// Options of a connection. [`ConnectionOptions::new`] sets the usual values.
#[derive(Clone, Debug)]
pub struct ConnectionOptions {
    /// Init method.
    pub method: InitMethod,
    /// Name of the run. Runs with different names receive nothing from each other.
    pub run: RunName,
    /// Rank of this trainer. Only rank 0 starts a server.
    pub rank: Option<u32>,
    /// Program that rank 0 starts (`distributed.nats_server`); if none, it is searched for.
    pub nats_server: Option<PathBuf>,
    /// Folders that are searched for `nats-server` before those in `PATH`.
    pub search: Vec<PathBuf>,
    /// Folder of the server's files for `tcp://`; with `file://`, they are in a folder next to the file.
    pub folder: Option<PathBuf>,
    /// Address on which rank 0's server listens. Default for `file://`: that of the interface through which this
    /// machine reaches others; for `tcp://`: the one in the method.
    pub listen: Option<IpAddr>,
    /// Longest time to wait for other trainers and for servers.
    pub timeout: Duration,
    /// Timeout of a request to the register.
    pub request_timeout: Duration,
    /// Secret shared by all trainers of the run. Required for `tcp://` beyond the local machine.
    pub secret: Option<Secret>,
    /// Token that servers of `nats://` and `tls://` require.
    pub token: Option<AccessToken>,
    /// Credentials file (`.creds`) for `nats://` and `tls://`.
    pub credentials: Option<PathBuf>,
    /// Root certificates (PEM) for servers of `tls://`, instead of those of the system.
    pub authority: Option<PathBuf>,
    /// Client certificate and key (PEM) that servers of `tls://` may require.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Whether traffic to other machines may be sent without encryption and secret.
    pub insecure: bool,
    /// Set to cancel the connection. A pending request to the register then has 2 more seconds.
    pub stop: Option<Arc<AtomicBool>>,
    /// Listener for messages about the server. If set, rank 0 restarts its server when necessary, as long as the
    /// connection lives.
    pub server_listener: Option<ServerNotice>,
    /// Whether the register is created if it does not exist. Commands that only inspect a run do not create it.
    pub creates_register: bool,
    /// Number of the user's servers that store the register: 1 or 3.
    pub replicas: usize,
    /// Folder in an object store that has the register; `None` if it is on the server.
    pub ledger_url: Option<String>,
}

impl ConnectionOptions {
    /// Creates options with a timeout of 600 s, replies within 5 s, one replica, and creation of the register; nothing
    /// else is set.
    #[must_use]
    pub fn new(method: InitMethod, run: RunName) -> Self {
        Self {
            method,
            run,
            rank: None,
            nats_server: None,
            search: Vec::new(),
            folder: None,
            listen: None,
            timeout: Duration::from_secs(600),
            request_timeout: Duration::from_secs(5),
            secret: None,
            token: None,
            credentials: None,
            authority: None,
            identity: None,
            insecure: false,
            stop: None,
            server_listener: None,
            creates_register: true,
            replicas: 1,
            ledger_url: None,
        }
    }

    /// Whether this trainer starts a server if the method requires one.
    pub(crate) fn starts(&self) -> bool {
        self.rank == Some(0)
    }

    /// Refuses options that are unsafe unless explicitly allowed.
    ///
    /// # Errors
    /// [`ConnectError::Insecure`], [`ConnectError::NoSecret`], [`ConnectError::Replicas`].
    pub(crate) fn check(&self) -> Result<(), ConnectError> {
        if !matches!(self.replicas, 1 | 3) {
            return Err(ConnectError::Replicas(self.replicas));
        }
        match &self.method {
            InitMethod::Nats {
                servers,
                tls: false,
            } if !self.insecure => match servers.iter().find(|server| !server.is_loopback()) {
                Some(server) => Err(ConnectError::Insecure(server.clone())),
                None => Ok(()),
            },
            InitMethod::Tcp(address)
                if self.secret.is_none() && !self.insecure && !address.is_loopback() =>
            {
                Err(ConnectError::NoSecret(address.clone()))
            }
            _ => Ok(()),
        }
    }
}
