//! The connection of a trainer to the others.

use std::time::Duration;

use pbg_ledger::Token;
use pbg_ledger::transport::{
    Heartbeat, LastHeartbeat, LiveTraffic, NoAnswer, QuestionHandler, Register, RegisterEntry,
    WriteReply,
};

use crate::error::ConnectError;
use crate::object_transport::{self, ObjectTransport};
use crate::options::ConnectionOptions;
use crate::server_transport::{self, ServerTransport};

/// Connection of a trainer to all others: a [`Register`] and [`LiveTraffic`].
///
/// Dropping it does not stop a server that it has started.
pub struct Connection(Transport);

enum Transport {
    Server(Box<ServerTransport>),
    Objects(ObjectTransport),
}

/// Connects to the trainers of a run. `notice` receives each message about waiting or starting a server once.
///
/// # Errors
/// Fails if no connection can be made within `options.timeout`. The error says what to do if that is known.
pub fn connect(
    options: &ConnectionOptions,
    notice: &dyn Fn(&str),
) -> Result<Connection, ConnectError> {
    let transport = server_transport::connect(options, notice)?;
    Ok(Connection(Transport::Server(Box::new(transport))))
}

/// Connects to the trainers of the run whose checkpoint is in the folder in an object store that `url` names. They need no
/// server, but exchange no parameters.
///
/// # Errors
/// Fails if the store does not answer, or ignores the conditions of writes.
pub fn connect_by_objects(url: &str) -> Result<Connection, ConnectError> {
    let transport = object_transport::open(url)?;
    Ok(Connection(Transport::Objects(transport)))
}

impl Connection {
    /// Returns the server as `host:port`, or the URL of the folder, for messages.
    #[must_use]
    pub fn server(&self) -> &str {
        match &self.0 {
            Transport::Server(transport) => transport.server(),
            Transport::Objects(transport) => transport.url(),
        }
    }

    /// Stops the server that rank 0 has started for the run, and waits until it has ended. To be called at the end of
    /// the run. Returns false if there is no such server, as with the user's servers, or if it is not running.
    ///
    /// # Errors
    /// Fails if it runs on another machine, or does not end.
    pub fn stop_server(&self) -> Result<bool, ConnectError> {
        match &self.0 {
            Transport::Server(transport) => transport.stop_server(),
            Transport::Objects(_) => Ok(false),
        }
    }

    /// Whether the server that this machine started for the run has ended.
    #[must_use]
    pub fn server_is_gone(&self) -> bool {
        match &self.0 {
            Transport::Server(transport) => transport.server_is_gone(),
            Transport::Objects(_) => false,
        }
    }

    /// Returns the newest revisions that the register has kept, in the order in which they were written; for `cluster
    /// history`. An object keeps only the newest.
    ///
    /// # Errors
    /// Fails if no reply arrives.
    pub fn history(&self) -> Result<Vec<RegisterEntry>, NoAnswer> {
        match &self.0 {
            Transport::Server(transport) => transport.history(),
            Transport::Objects(transport) => Ok(transport.read()?.into_iter().collect()),
        }
    }

    /// Deletes the register with all its revisions, for `cluster forget`. The next read finds it empty.
    ///
    /// # Errors
    /// Fails if no reply arrives, or if there is no register.
    pub fn forget(&self) -> Result<(), NoAnswer> {
        match &self.0 {
            Transport::Server(transport) => transport.forget(),
            Transport::Objects(transport) => transport.forget(),
        }
    }

    fn register(&self) -> &dyn Register {
        match &self.0 {
            Transport::Server(transport) => &**transport,
            Transport::Objects(transport) => transport,
        }
    }

    fn traffic(&self) -> &dyn LiveTraffic {
        match &self.0 {
            Transport::Server(transport) => &**transport,
            Transport::Objects(transport) => transport,
        }
    }
}

impl Register for Connection {
    fn read(&self) -> Result<Option<RegisterEntry>, NoAnswer> {
        self.register().read()
    }

    fn write(&self, after: Option<u64>, value: &[u8], id: &str) -> Result<WriteReply, NoAnswer> {
        self.register().write(after, value, id)
    }

    fn is_shut_down(&self) -> bool {
        self.register().is_shut_down()
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
