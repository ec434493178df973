//! The connection of a trainer to the others.

use std::time::Duration;

use pbg_ledger::Token;
use pbg_ledger::transport::{
    Heartbeat, LastHeartbeat, LiveTraffic, NoAnswer, QuestionHandler, Register, RegisterEntry,
    WriteReply,
};

use crate::error::ConnectError;
use crate::object_ledger::ObjectLedger;
use crate::options::ConnectionOptions;
use crate::polled_traffic::PolledTraffic;
use crate::register::{MAX_VALUE, StreamRegister};
use crate::secret::Secret;
use crate::server_transport::{self, ServerTransport};

/// Connection of a trainer to all others: a [`Register`] and [`LiveTraffic`].
///
/// Dropping it does not stop a server that it has started.
pub struct Connection {
    register: RegisterPlace,
    traffic: TrafficPlace,
}

/// Where the register is.
enum RegisterPlace {
    Server(Box<StreamRegister>),
    Objects(ObjectLedger),
}

/// What carries heartbeats, and questions if it can.
enum TrafficPlace {
    Server(Box<ServerTransport>),
    Objects(PolledTraffic),
}

/// Connects to the trainers of a run. `notice` receives each message about waiting or starting a server once.
///
/// # Errors
/// Fails if no connection can be made within `options.timeout`. The error says what to do if that is known.
pub fn connect(
    options: &ConnectionOptions,
    notice: &dyn Fn(&str),
) -> Result<Connection, ConnectError> {
    let objects = match &options.ledger_url {
        Some(url) => Some(ObjectLedger::open(url, options.creates_register)?),
        None => None,
    };
    let (transport, stream) = server_transport::connect(options, notice)?;
    let register = match objects {
        Some(objects) => RegisterPlace::Objects(objects),
        None => RegisterPlace::Server(Box::new(stream)),
    };
    Ok(Connection {
        register,
        traffic: TrafficPlace::Server(Box::new(transport)),
    })
}

/// Connects to the trainers of the run whose checkpoint is in the folder in an object store that `url` names. They need no
/// server, but exchange no parameters. Commands that only inspect a run do not create its register (`creates`).
///
/// # Errors
/// Fails if the store does not answer, or ignores the conditions of writes.
pub fn connect_by_objects(url: &str, creates: bool) -> Result<Connection, ConnectError> {
    let objects = ObjectLedger::open(url, creates)?;
    let traffic = TrafficPlace::Objects(objects.start_traffic()?);
    Ok(Connection {
        register: RegisterPlace::Objects(objects),
        traffic,
    })
}

impl Connection {
    /// Returns the server as `host:port`; `None` if trainers meet in an object store.
    #[must_use]
    pub fn server(&self) -> Option<&str> {
        Some(self.transport()?.server())
    }

    /// Returns the secret that all trainers of the run share; `None` with the user's servers or without one.
    #[must_use]
    pub fn secret(&self) -> Option<&Secret> {
        self.transport()?.secret()
    }

    /// Returns the URL of the folder in an object store that has the register; `None` if it is on the server.
    #[must_use]
    pub fn ledger_url(&self) -> Option<&str> {
        match &self.register {
            RegisterPlace::Server(_) => None,
            RegisterPlace::Objects(objects) => Some(&objects.url),
        }
    }

    fn transport(&self) -> Option<&ServerTransport> {
        match &self.traffic {
            TrafficPlace::Server(transport) => Some(transport),
            TrafficPlace::Objects(_) => None,
        }
    }

    /// Stops the server that rank 0 has started for the run, and waits until it has ended. To be called at the end of
    /// the run. Returns false if there is no such server, as with the user's servers, or if it is not running.
    ///
    /// # Errors
    /// Fails if it runs on another machine, or does not end.
    pub fn stop_server(&self) -> Result<bool, ConnectError> {
        self.transport()
            .map_or(Ok(false), ServerTransport::stop_server)
    }

    /// Whether the server that this machine started for the run has ended.
    #[must_use]
    pub fn server_is_gone(&self) -> bool {
        self.transport()
            .is_some_and(ServerTransport::server_is_gone)
    }

    /// Returns the newest revisions that the register has kept, at most [`crate::KEPT_REVISIONS`], in the order in which they
    /// were written; for `cluster history`. An object keeps only the newest.
    ///
    /// # Errors
    /// Fails if no reply arrives.
    pub fn history(&self) -> Result<Vec<RegisterEntry>, NoAnswer> {
        match &self.register {
            RegisterPlace::Server(stream) => stream.block("reading", stream.history()),
            RegisterPlace::Objects(objects) => objects.register.history(),
        }
    }

    /// Deletes the register with all its revisions, for `cluster forget`. The next read finds it empty.
    ///
    /// # Errors
    /// Fails if no reply arrives, or if a server has no register.
    pub fn forget(&self) -> Result<(), NoAnswer> {
        match &self.register {
            RegisterPlace::Server(stream) => stream.forget(),
            RegisterPlace::Objects(objects) => objects.register.forget(),
        }
    }

    fn traffic(&self) -> &dyn LiveTraffic {
        match &self.traffic {
            TrafficPlace::Server(transport) => &**transport,
            TrafficPlace::Objects(traffic) => traffic,
        }
    }
}

impl Register for Connection {
    /// A register whose stream does not exist reads as empty, and the stream is created again.
    fn read(&self) -> Result<Option<RegisterEntry>, NoAnswer> {
        match &self.register {
            RegisterPlace::Server(stream) => stream.block("reading", stream.read()),
            RegisterPlace::Objects(objects) => objects.register.read(),
        }
    }

    fn write(&self, after: Option<u64>, value: &[u8], id: &str) -> Result<WriteReply, NoAnswer> {
        if value.len() > MAX_VALUE {
            let size = value.len();
            return Err(NoAnswer(format!(
                "writing the ledger: a value of {size} bytes is too large"
            )));
        }
        match &self.register {
            RegisterPlace::Server(stream) => {
                let written = stream.block("writing", stream.write(after, value.to_vec(), id));
                stream.line.signals.wrote(written.is_ok());
                written
            }
            RegisterPlace::Objects(objects) => objects.register.write(after, value),
        }
    }

    fn is_shut_down(&self) -> bool {
        match &self.register {
            RegisterPlace::Server(_) => self
                .transport()
                .is_some_and(ServerTransport::server_was_ended),
            RegisterPlace::Objects(_) => false,
        }
    }
}

impl LiveTraffic for Connection {
    fn beat(&self, beat: &Heartbeat) {
        self.traffic().beat(beat);
    }

    fn heartbeats(&self) -> Vec<LastHeartbeat> {
        self.traffic().heartbeats()
    }

    fn wake(&self) {
        self.traffic().wake();
    }

    fn wait(&self, at_most: Duration) -> bool {
        self.traffic().wait(at_most)
    }

    fn delay(&self) -> Duration {
        self.traffic().delay()
    }

    fn carries_questions(&self) -> bool {
        self.traffic().carries_questions()
    }

    fn ask(&self, whom: Token, question: &[u8], within: Duration) -> Result<Vec<u8>, NoAnswer> {
        self.traffic().ask(whom, question, within)
    }

    fn answer(&self, me: Token, answers: QuestionHandler) -> Result<(), NoAnswer> {
        self.traffic().answer(me, answers)
    }
}
