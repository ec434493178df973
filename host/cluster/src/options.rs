//! What a caller says about a connection.

use std::fmt;
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use crate::error::ClusterError;
use crate::keeper::Listener;
use crate::method::Method;
use crate::secret::Secret;

/// The name of a run, which is a part of subjects and of a stream's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunName(String);

impl RunName {
    /// Checks a name: 1 to 64 of `a` to `z`, digits, `-` and `_`.
    ///
    /// # Errors
    /// [`ClusterError::RunName`].
    pub fn new(name: &str) -> Result<Self, ClusterError> {
        let is_allowed =
            |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
        match (1..=64).contains(&name.len()) && name.chars().all(is_allowed) {
            true => Ok(Self(name.to_owned())),
            false => Err(ClusterError::RunName(name.to_owned())),
        }
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The longest token: more would be a wrong file.
pub(crate) const LONGEST_TOKEN: usize = 1024;

/// What the user's servers ask for. It is not shown, not even for debugging.
#[derive(Clone, PartialEq, Eq)]
pub struct AccessToken(String);

impl AccessToken {
    /// Takes a text of 1 to 1024 characters without spaces.
    ///
    /// # Errors
    /// [`ClusterError::Token`].
    pub fn new(text: &str) -> Result<Self, ClusterError> {
        let is_wrong = |c: char| c.is_whitespace() || c.is_control();
        match (1..=LONGEST_TOKEN).contains(&text.len()) && !text.contains(is_wrong) {
            true => Ok(Self(text.to_owned())),
            false => Err(ClusterError::Token),
        }
    }

    /// The text.
    pub(crate) fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AccessToken")
    }
}

/// What a connection is made of. [`Options::new`] gives the usual values.
#[derive(Clone, Debug)]
pub struct Options {
    /// How trainers find each other.
    pub method: Method,
    /// The run: who names another one hears nothing of this one.
    pub run: RunName,
    /// Which trainer this is. Only rank 0 starts a server.
    pub rank: Option<u32>,
    /// The program that rank 0 starts (`distributed.nats_server`); if none, it is looked for.
    pub nats_server: Option<PathBuf>,
    /// Folders in which `nats-server` is looked for before those of `PATH`.
    pub search: Vec<PathBuf>,
    /// Where the server of `tcp://` keeps its files; `file://` has a folder beside its file.
    pub folder: Option<PathBuf>,
    /// The address on which rank 0's server listens. If none: for `file://`, that of the interface by which this machine
    /// reaches others; for `tcp://`, what the method names.
    pub listen: Option<IpAddr>,
    /// How long to wait for others and for servers before giving up.
    pub patience: Duration,
    /// How long a request to the register may take.
    pub answer: Duration,
    /// What all trainers of the run know. `tcp://`: needed beyond one machine.
    pub secret: Option<Secret>,
    /// What servers of `nats://` and `tls://` ask for.
    pub token: Option<AccessToken>,
    /// A file of credentials (`.creds`) for `nats://` and `tls://`.
    pub credentials: Option<PathBuf>,
    /// Certificates (PEM) that servers of `tls://` are checked by, instead of the system's.
    pub authority: Option<PathBuf>,
    /// A certificate and its key (PEM) that servers of `tls://` may ask for.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// Whether traffic to other machines may go without encryption and secret.
    pub insecure: bool,
    /// Set by whoever wants no connection any more. What the register is asked gets 2 more seconds then.
    pub stop: Option<Arc<AtomicBool>>,
    /// Whether rank 0 keeps its server alive for as long as the connection lives, and who is told about that.
    pub keeps: Option<Listener>,
    /// Whether a register is made where there is none. Who only looks at a run makes none.
    pub makes: bool,
    /// On how many of the user's servers the register lies: 1 or 3.
    pub replicas: usize,
}

impl Options {
    /// Patience of 600 s, answers within 5 s, one replica, a register that is made; nothing else is set.
    #[must_use]
    pub fn new(method: Method, run: RunName) -> Self {
        Self {
            method,
            run,
            rank: None,
            nats_server: None,
            search: Vec::new(),
            folder: None,
            listen: None,
            patience: Duration::from_secs(600),
            answer: Duration::from_secs(5),
            secret: None,
            token: None,
            credentials: None,
            authority: None,
            identity: None,
            insecure: false,
            stop: None,
            keeps: None,
            makes: true,
            replicas: 1,
        }
    }

    /// Whether this trainer starts a server where the method asks for one.
    pub(crate) fn starts(&self) -> bool {
        self.rank == Some(0)
    }

    /// Refuses what must not be done without being asked for.
    ///
    /// # Errors
    /// [`ClusterError::Insecure`], [`ClusterError::NoSecret`], [`ClusterError::Replicas`].
    pub(crate) fn check(&self) -> Result<(), ClusterError> {
        if !matches!(self.replicas, 1 | 3) {
            return Err(ClusterError::Replicas(self.replicas));
        }
        match &self.method {
            Method::Nats {
                servers,
                tls: false,
            } if !self.insecure => match servers.iter().find(|server| !server.is_loopback()) {
                Some(server) => Err(ClusterError::Insecure(server.clone())),
                None => Ok(()),
            },
            Method::Tcp(address)
                if self.secret.is_none() && !self.insecure && !address.is_loopback() =>
            {
                Err(ClusterError::NoSecret(address.clone()))
            }
            _ => Ok(()),
        }
    }
}
