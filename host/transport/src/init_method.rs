//! Init methods, the values of `distributed_init_method`, and the environment variables that `env://` reads.

use std::net::IpAddr;
use std::path::PathBuf;

/// Default port of NATS servers.
const NATS_PORT: u16 = 4222;

/// The allowed methods, for messages.
const ALLOWED: &str = "file:///PATH, tcp://HOST:PORT, env://, nats://HOST[:PORT][,HOST[:PORT]] and tls://HOST[:PORT][,HOST[:PORT]]";

/// Address of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// Host name or IP address; an IPv6 address has no brackets.
    pub host: String,
    /// The port, never 0.
    pub port: u16,
}

/// Init method: the way in which trainers find each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InitMethod {
    /// Rank 0 starts a server and writes its address and secret to this file.
    File(PathBuf),
    /// Rank 0 starts a server at this address.
    Tcp(Address),
    /// The user's servers.
    Nats {
        /// Servers, at least one.
        servers: Vec<Address>,
        /// Whether traffic is encrypted and the servers' certificates are checked.
        tls: bool,
    },
}

/// Init method, with the information about this process from the environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResolvedMethod {
    /// The method; `env://` has been resolved to `tcp://`.
    pub method: InitMethod,
    /// Rank of this process, if `env://` provides it.
    pub rank: Option<u32>,
    /// Number of processes, if `env://` provides it.
    pub world_size: Option<u32>,
}

/// Error for an invalid init method.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MethodError {
    /// The scheme is unknown.
    #[error("unknown init method \"{0}\"; known methods: {ALLOWED}")]
    Unknown(String),
    /// A part of the text is invalid.
    #[error("\"{text}\": {what}")]
    Malformed {
        /// The text.
        text: String,
        /// What is wrong, and what would be valid.
        what: String,
    },
    /// An environment variable that `env://` needs is not set, or has an invalid value.
    #[error("env://: {0}")]
    Surroundings(String),
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.host.contains(':') {
            true => write!(f, "[{}]:{}", self.host, self.port),
            false => write!(f, "{}:{}", self.host, self.port),
        }
    }
}

impl Address {
    /// Whether it is an address of the local machine.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        match self.host.parse::<IpAddr>() {
            Ok(ip) => ip.is_loopback(),
            Err(_) => self.host == "localhost",
        }
    }

    /// Parses `host:port` or `[host]:port`; `default` is the port if none is given.
    ///
    /// # Errors
    /// Returns what is wrong, as the end of a sentence.
    pub(crate) fn parse(text: &str, default: Option<u16>) -> Result<Self, String> {
        if text.contains('@') {
            return Err(
                "an address must not contain a user or a password; set distributed.credentials to a file instead"
                    .into(),
            );
        }
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, rest) = rest.split_once(']').ok_or("the closing \"]\" is missing")?;
                (host, rest.strip_prefix(':'))
            }
            None => match text.rsplit_once(':') {
                Some((host, port)) => (host, Some(port)),
                None => (text, None),
            },
        };
        let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_');
        let is_ip = host.parse::<IpAddr>().is_ok();
        if host.is_empty() || host.len() > 253 || !(is_ip || host.chars().all(is_name)) {
            return Err(format!(
                "\"{host}\" is not a host: it must be a name, an IP address or an IPv6 address in brackets"
            ));
        }
        let port = match (port, default) {
            (Some(port), _) => port.parse().ok().filter(|port| *port > 0),
            (None, Some(port)) => Some(port),
            (None, None) => return Err(format!("\"{text}\" has no port, as in HOST:29500")),
        };
        Ok(Self {
            host: host.to_owned(),
            port: port
                .ok_or_else(|| format!("the port of \"{text}\" is not in the range 1..=65535"))?,
        })
    }
}

impl InitMethod {
    /// Parses an init method. `lookup` returns environment variables; it is called for `env://` only.
    ///
    /// `env://` reads the variables that `torchrun`, Slurm and Kubernetes set: `MASTER_ADDR` and `MASTER_PORT`; the
    /// rank from `RANK`, `SLURM_PROCID` or `JOB_COMPLETION_INDEX`, whichever is set first; and the number of processes
    /// from `WORLD_SIZE` or `SLURM_NTASKS`. If `torchrun` uses the port itself (`TORCHELASTIC_USE_AGENT_STORE`), the
    /// next port is used.
    ///
    /// # Errors
    /// Returns what is wrong with the text or the variables, and what is allowed.
    pub fn parse(
        text: &str,
        lookup: impl Fn(&str) -> Option<String>,
    ) -> Result<ResolvedMethod, MethodError> {
        if text == "env://" {
            return from_surroundings(lookup);
        }
        let malformed = |what: String| MethodError::Malformed {
            text: text.to_owned(),
            what,
        };
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(MethodError::Unknown(text.to_owned()));
        };
        let method = match scheme {
            "file" => Self::File(file(rest).map_err(malformed)?),
            "tcp" => Self::Tcp(Address::parse(rest, None).map_err(malformed)?),
            "nats" | "tls" => {
                let one = |host| Address::parse(host, Some(NATS_PORT));
                let servers: Result<_, _> = rest.split(',').map(one).collect();
                Self::Nats {
                    servers: servers.map_err(malformed)?,
                    tls: scheme == "tls",
                }
            }
            "env" => {
                return Err(malformed(
                    "nothing may follow env://, which reads MASTER_ADDR and MASTER_PORT".into(),
                ));
            }
            _ => return Err(MethodError::Unknown(text.to_owned())),
        };
        Ok(ResolvedMethod {
            method,
            rank: None,
            world_size: None,
        })
    }
}

/// Parses the path of `file://`, which must be absolute, because trainers on other machines have other working folders.
fn file(rest: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(rest);
    match path.is_absolute() && path.file_name().is_some() && !rest.ends_with('/') {
        true => Ok(path),
        false => Err(
            "file:// needs the absolute path of a file, from the root, as in file:///mnt/shared/rendezvous"
                .into(),
        ),
    }
}

fn from_surroundings(
    lookup: impl Fn(&str) -> Option<String>,
) -> Result<ResolvedMethod, MethodError> {
    let set = |name: &str| lookup(name).filter(|value| !value.is_empty());
    let number = |names: &[&str]| {
        let Some((name, value)) = names.iter().find_map(|name| Some((name, set(name)?))) else {
            return Ok(None);
        };
        let number: Option<u32> = value.parse().ok();
        let wrong = || MethodError::Surroundings(format!("{name} is \"{value}\", not a number"));
        number.ok_or_else(wrong).map(Some)
    };
    let needed = |name: &str| {
        let lacking = || {
            MethodError::Surroundings(format!(
                "{name} is not set; MASTER_ADDR and MASTER_PORT must be the address of rank 0"
            ))
        };
        set(name).ok_or_else(lacking)
    };
    let text = format!(
        "{}:{}",
        bracketed(&needed("MASTER_ADDR")?),
        needed("MASTER_PORT")?
    );
    let mut address = Address::parse(&text, None).map_err(|what| {
        MethodError::Surroundings(format!("MASTER_ADDR and MASTER_PORT: {what}"))
    })?;
    if set("TORCHELASTIC_USE_AGENT_STORE").is_some_and(|value| value == "True") {
        address.port = address.port.checked_add(1).ok_or_else(|| {
            MethodError::Surroundings(
                "MASTER_PORT is 65535 and used by torchrun itself, so there is no next port".into(),
            )
        })?;
    }
    let rank = number(&["RANK", "SLURM_PROCID", "JOB_COMPLETION_INDEX"])?;
    let world_size = number(&["WORLD_SIZE", "SLURM_NTASKS"])?;
    if let (Some(rank), Some(size)) = (rank, world_size)
        && rank >= size
    {
        return Err(MethodError::Surroundings(format!(
            "the rank is {rank}, but there are only {size} processes, whose ranks are counted from 0"
        )));
    }
    Ok(ResolvedMethod {
        method: InitMethod::Tcp(address),
        rank,
        world_size,
    })
}

fn bracketed(host: &str) -> String {
    match host.contains(':') && !host.starts_with('[') {
        true => format!("[{host}]"),
        false => host.to_owned(),
    }
}

#[cfg(test)]
mod tests;
