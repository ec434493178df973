//! What a user writes as `distributed_init_method`, and what the surroundings of a process say about it.

use std::net::IpAddr;
use std::path::PathBuf;

/// The port of NATS servers where none is named.
const NATS_PORT: u16 = 4222;

/// The methods, as messages name them.
const ALLOWED: &str = "file:///PATH, tcp://HOST:PORT, env://, nats://HOST[:PORT][,HOST[:PORT]] and tls://HOST[:PORT][,HOST[:PORT]]";

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// A name or an IP address; one of version 6 without brackets.
    pub host: String,
    /// The port, never 0.
    pub port: u16,
}

/// How trainers find each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Method {
    /// Rank 0 starts a server and leaves its address and secret in this file.
    File(PathBuf),
    /// Rank 0 starts a server there.
    Tcp(Address),
    /// The user's servers.
    Nats {
        /// At least one.
        servers: Vec<Address>,
        /// Whether everything is encrypted and the servers' certificates are checked.
        tls: bool,
    },
}

/// A method, and what the surroundings say about this process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The method; `env://` has become `tcp://`.
    pub method: Method,
    /// Which of all processes this is, where `env://` knows it.
    pub rank: Option<u32>,
    /// How many processes there are, where `env://` knows it.
    pub world_size: Option<u32>,
}

/// Why a text is no method.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MethodError {
    /// It begins like none of them.
    #[error("\"{0}\" is no method; these are: {ALLOWED}")]
    Unknown(String),
    /// A part of it is not as it has to be.
    #[error("\"{text}\": {what}")]
    Malformed {
        /// The method.
        text: String,
        /// What is wrong, and what would be right.
        what: String,
    },
    /// `env://` lacks a variable, or one has a value that it cannot have.
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
    /// Whether nobody on another machine is meant by it.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        match self.host.parse::<IpAddr>() {
            Ok(ip) => ip.is_loopback(),
            Err(_) => self.host == "localhost",
        }
    }

    /// Reads `host:port` or `[host]:port`; `default` is the port where none is named.
    ///
    /// # Errors
    /// What is wrong with it, as the end of a sentence.
    pub(crate) fn parse(text: &str, default: Option<u16>) -> Result<Self, String> {
        if text.contains('@') {
            return Err(
                "an address has no user and no password: name a file with distributed.credentials"
                    .into(),
            );
        }
        let (host, port) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, rest) = rest.split_once(']').ok_or("there is no \"]\"")?;
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
                "\"{host}\" is no host: a name, an IP address or an IPv6 address in brackets is"
            ));
        }
        let port = match (port, default) {
            (Some(port), _) => port.parse().ok().filter(|port| *port > 0),
            (None, Some(port)) => Some(port),
            (None, None) => return Err(format!("\"{text}\" names no port, as in HOST:29500")),
        };
        Ok(Self {
            host: host.to_owned(),
            port: port.ok_or_else(|| format!("the port of \"{text}\" is not in 1..=65535"))?,
        })
    }
}

impl Method {
    /// Reads a method. `lookup` gives the environment's variables; only `env://` asks for them.
    ///
    /// `env://` reads what `torchrun`, Slurm and Kubernetes set: `MASTER_ADDR` and `MASTER_PORT`; the rank from `RANK`,
    /// `SLURM_PROCID` or `JOB_COMPLETION_INDEX`, the first that is set; how many there are from `WORLD_SIZE` or
    /// `SLURM_NTASKS`. Where `torchrun` says that it uses the port itself (`TORCHELASTIC_USE_AGENT_STORE`), the next one
    /// is taken.
    ///
    /// # Errors
    /// What is wrong with the text or the variables, and what is allowed.
    pub fn parse(
        text: &str,
        lookup: impl Fn(&str) -> Option<String>,
    ) -> Result<Found, MethodError> {
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
        Ok(Found {
            method,
            rank: None,
            world_size: None,
        })
    }
}

/// The path of `file://`, which is absolute: trainers on other machines have other working folders.
fn file(rest: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(rest);
    match path.is_absolute() && path.file_name().is_some() && !rest.ends_with('/') {
        true => Ok(path),
        false => Err(
            "the path of a file has to follow, from the root, as in file:///mnt/shared/rendezvous"
                .into(),
        ),
    }
}

fn from_surroundings(lookup: impl Fn(&str) -> Option<String>) -> Result<Found, MethodError> {
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
                "{name} is not set; MASTER_ADDR and MASTER_PORT have to say where rank 0 is"
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
            MethodError::Surroundings("MASTER_PORT is 65535, and torchrun itself uses it".into())
        })?;
    }
    let rank = number(&["RANK", "SLURM_PROCID", "JOB_COMPLETION_INDEX"])?;
    let world_size = number(&["WORLD_SIZE", "SLURM_NTASKS"])?;
    if let (Some(rank), Some(size)) = (rank, world_size)
        && rank >= size
    {
        return Err(MethodError::Surroundings(format!(
            "the rank is {rank}, but there are {size} processes, counted from 0"
        )));
    }
    Ok(Found {
        method: Method::Tcp(address),
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
