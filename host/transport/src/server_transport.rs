//! Live traffic over a NATS server, and the start of everything that it needs.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pbg_core::lock::lock;
use pbg_ledger::Token;
use pbg_ledger::transport::{Heartbeat, LastHeartbeat, LiveTraffic, NoAnswer, QuestionHandler};

use crate::answers::{AnswerThread, question_subject};
use crate::client::{DialFailure, Dialer, NatsConnection, ServerAccess};
use crate::discovery::{ServerConnection, ServerDiscovery};
use crate::error::ConnectError;
use crate::init_method::{Address, InitMethod};
use crate::limits::MAX_PAYLOAD;
use crate::live::{LiveConnection, Outgoing};
use crate::options::ConnectionOptions;
use crate::register::{MAX_VALUE, StreamRegister};
use crate::secret::Secret;
use crate::server::{self, ServerRecord, is_old};
use crate::server_files::ServerFiles;
use crate::supervisor::{OwnChild, ServerSupervisor};
use crate::waiting::Deadline;

/// Live traffic of a run over a NATS server.
///
/// Dropping it does not stop the server, even if this transport has started it.
pub(crate) struct ServerTransport {
    pub(crate) traffic: LiveConnection,
    server: String,
    place: Option<ServerFiles>,
    secret: Option<Secret>,
    child: OwnChild,
    keeper: Option<ServerSupervisor>,
}

/// Connects to the trainers of a run. Returns the register on the server too, which is not opened if the run's register
/// is in an object store. `notice` receives each message about waiting or starting a server once.
///
/// # Errors
/// Fails if no connection can be made within `options.timeout`. The error says what to do if that is known.
pub(crate) fn connect(
    options: &ConnectionOptions,
    notice: &dyn Fn(&str),
) -> Result<(ServerTransport, StreamRegister), ConnectError> {
    options.check()?;
    let dialer = Dialer::new(&options.run)?;
    let waiting = Deadline::new(options.timeout, notice, options.stop.clone());
    let mut meeting = ServerDiscovery {
        options,
        dialer: &dialer,
        waiting,
    };
    let (reached, place) = match &options.method {
        InitMethod::File(path) => (meeting.at_file(path)?, Some(ServerFiles::of_file(path))),
        InitMethod::Tcp(address) => {
            let place = options.folder.as_deref().map(ServerFiles::of_folder);
            (meeting.at_address(address)?, place)
        }
        InitMethod::Nats { servers, tls } => {
            let reached = join(servers, *tls, options, &dialer, &meeting.waiting)?;
            (reached, None)
        }
    };
    let waiting = meeting.waiting;
    let who = format!("the server at {}", reached.address);
    check_server(&reached.line, &who)?;
    let replicas = if place.is_some() { 1 } else { options.replicas };
    let line = reached.line.clone();
    let register = StreamRegister::new(line, options, replicas);
    if options.ledger_url.is_none() {
        register.open(&who, &waiting)?;
    }
    let child = Arc::new(Mutex::new(reached.child));
    let keeper = ServerSupervisor::start(options, place.as_ref(), &reached.line, &child)?;
    let transport = ServerTransport {
        traffic: LiveConnection::open(reached.line, &options.run)?,
        server: reached.address.to_string(),
        secret: secret_of_run(options),
        place,
        child,
        keeper,
    };
    Ok((transport, register))
}

/// Returns the secret that all trainers of the run share, if it has one: the user's, or that in the file by which the
/// trainers have met.
fn secret_of_run(options: &ConnectionOptions) -> Option<Secret> {
    let InitMethod::File(path) = &options.method else {
        return options.secret.clone();
    };
    let record = ServerRecord::read(&ServerFiles::of_file(path).record).ok()??;
    Secret::new(record.secret.as_deref()?).ok()
}

/// Connects to the user's servers.
fn join(
    servers: &[Address],
    tls: bool,
    options: &ConnectionOptions,
    dialer: &Dialer,
    waiting: &Deadline<'_>,
) -> Result<ServerConnection, ConnectError> {
    let access = ServerAccess::of_user(options, tls)?;
    let names: Vec<String> = servers.iter().map(Address::to_string).collect();
    let names = names.join(", ");
    loop {
        match dialer.dial(servers, &access) {
            Ok(line) => {
                let info = line.client.server_info();
                let address = servers.iter().find(|server| server.port == info.port);
                let address = address.or(servers.first()).cloned();
                let none = || ConnectError::System("connect to no server".into());
                return Ok(ServerConnection {
                    line,
                    address: address.ok_or_else(none)?,
                    child: None,
                });
            }
            Err(DialFailure::Refused(what)) => {
                let who = format!("the server at {names}");
                return Err(ConnectError::Refused { who, what });
            }
            Err(DialFailure::Silent(what)) => {
                waiting.pause(&format!("waiting for {names}: {what}"))?
            }
        }
    }
}

fn check_server(line: &NatsConnection, who: &str) -> Result<(), ConnectError> {
    let info = line.client.server_info();
    if is_old(&info.version) {
        return Err(ConnectError::Old {
            what: format!("nats-server of {who}"),
            version: info.version,
        });
    }
    match info.max_payload > MAX_VALUE {
        true => Ok(()),
        false => Err(ConnectError::Unfit {
            who: who.to_owned(),
            what: format!(
                "its max_payload is {}, but 1048576 is needed",
                info.max_payload
            ),
        }),
    }
}

impl ServerTransport {
    /// Returns the secret that all trainers of the run share, if it has one.
    pub(crate) const fn secret(&self) -> Option<&Secret> {
        self.secret.as_ref()
    }

    /// Returns the server as `host:port`, for messages.
    pub(crate) fn server(&self) -> &str {
        &self.server
    }

    /// Stops the server that rank 0 has started for the run, and waits until it has ended. To be called at the end of
    /// the run. Returns false if there is no such server, as with the user's servers, or if it is not running.
    ///
    /// # Errors
    /// Fails if it runs on another machine, or does not end.
    pub(crate) fn stop_server(&self) -> Result<bool, ConnectError> {
        let Some(place) = &self.place else {
            return Ok(false);
        };
        let Some(mut record) = ServerRecord::read(&place.record)? else {
            return Ok(false);
        };
        if let Some(keeper) = &self.keeper {
            keeper.end();
        }
        // The trainer that started it may have died before it could write the record.
        if let Some((pid, _)) = server::listening(&place.store) {
            (record.pid, record.host) = (pid, server::machine());
        }
        let stopped = server::stop(&record, &place.store)?;
        let child = lock(&self.child).take_if(|child| child.id() == record.pid);
        if let Some(mut child) = child {
            // The process has ended; its log says whether by an error.
            child.wait().ok();
        }
        Ok(stopped)
    }

    /// Whether the server that this machine started for the run has ended.
    pub(crate) fn server_is_gone(&self) -> bool {
        let is_gone = |place: &ServerFiles| {
            // Its files may have been deleted while it runs.
            let record = ServerRecord::read(&place.record).ok().flatten();
            let is_alive = record.is_some_and(|record| server::is_alive(&record, &place.store));
            !is_alive && server::listening(&place.store).is_none()
        };
        self.place.as_ref().is_some_and(is_gone)
    }

    /// Whether the server of this connection was ended on purpose, as its folder says; false if another machine has the
    /// folder.
    pub(crate) fn server_was_ended(&self) -> bool {
        let was_ended = |place: &ServerFiles| {
            let record = ServerRecord::read(&place.record).ok().flatten();
            let is_ours = record.is_none_or(|record| record.address == self.server);
            is_ours && server::was_ended(&place.store)
        };
        self.place.as_ref().is_some_and(was_ended)
    }
}

impl Drop for ServerTransport {
    fn drop(&mut self) {
        if let Some(keeper) = &self.keeper {
            keeper.request_stop();
        }
        self.traffic.leave();
    }
}

impl LiveTraffic for ServerTransport {
    fn beat(&self, beat: &Heartbeat) {
        // Other trainers would reject a heartbeat with a number that JSON cannot represent.
        if let Ok(bytes) = serde_json::to_vec(beat) {
            self.traffic.enqueue(Outgoing::Beat(bytes));
        }
    }

    fn heartbeats(&self) -> Vec<LastHeartbeat> {
        self.traffic.beats.all(pbg_clock::now())
    }

    fn wake(&self) {
        self.traffic.enqueue(Outgoing::Wake);
    }

    /// A reconnection counts as a wake-up, because wake-ups may have been missed.
    fn wait(&self, at_most: Duration) -> bool {
        self.traffic.line.signals.wait(at_most)
    }

    fn ask(&self, whom: Token, question: &[u8], within: Duration) -> Result<Vec<u8>, NoAnswer> {
        let line = &self.traffic.line;
        let request = async_nats::Request::new()
            .payload(question.to_vec().into())
            .timeout(None);
        let subject = question_subject(&self.traffic.run, whom);
        let asked = async {
            line.connected().await;
            line.client.send_request(subject, request).await
        };
        match line.dialer.block(within, asked) {
            Some(Ok(answer)) if answer.payload.len() > MAX_PAYLOAD => {
                let size = answer.payload.len();
                Err(NoAnswer(format!(
                    "asking {whom}: an answer of {size} bytes is too large"
                )))
            }
            Some(Ok(answer)) => Ok(answer.payload.to_vec()),
            Some(Err(error)) => Err(NoAnswer(format!("asking {whom}: {error}"))),
            None => Err(NoAnswer(format!("asking {whom}: no answer"))),
        }
    }

    fn answer(&self, me: Token, answers: QuestionHandler) -> Result<(), NoAnswer> {
        let traffic = &self.traffic;
        let line = traffic.line.clone();
        lock(&traffic.answering).take();
        // Not locked: the server is waited for.
        let started = AnswerThread::start(line, &traffic.run, me, answers)?;
        *lock(&traffic.answering) = Some(started);
        Ok(())
    }
}
