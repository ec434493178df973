//! Supervision of the server that rank 0 has started: it is restarted if its process has ended, or if it no longer
//! writes after its disk was full.
//!
//! Only rank 0 does this, and only on the machine on which its server ran, where the lock of the store shows that no
//! server is running. The address and the secret stay the same, so trainers reconnect by themselves. A server that was
//! stopped on purpose at the end of the run is not restarted.

use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pbg_core::lock::lock;

use crate::client::NatsConnection;
use crate::error::ConnectError;
use crate::hosting::{ServerHost, listen_at, own_address};
use crate::init_method::{Address, InitMethod};
use crate::notice::ServerNotice;
use crate::options::ConnectionOptions;
use crate::secret::Secret;
use crate::server::{self, Health, ServerRecord, StoreLock};
use crate::server_files::ServerFiles;

/// Interval between two checks of the server.
const LOOK: Duration = Duration::from_millis(200);
/// Time without a connection after which the server's process is checked.
const AWAY: Duration = Duration::from_secs(1);
/// Pause after a failed attempt.
const REST: Duration = Duration::from_secs(5);
/// Number of consecutive unanswered writes after which a server that answers reads is restarted.
const UNANSWERED: u32 = 2;
/// Free bytes below which a disk counts as full: a record of the ledger and the server's own files need that much.
const ROOM: u64 = 256 << 10;

/// Process of the server, if this process has started it. It is kept so that it can be waited for and does not remain a
/// zombie.
pub(crate) type OwnChild = Arc<Mutex<Option<Child>>>;

/// Handle of the thread that supervises the server.
pub(crate) struct ServerSupervisor {
    ends: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl ServerSupervisor {
    /// Starts the supervision for rank 0 of a run without the user's servers, if the options have a listener. Returns
    /// `None` otherwise.
    ///
    /// # Errors
    /// Fails if no thread can be started.
    pub(crate) fn start(
        options: &ConnectionOptions,
        place: Option<&ServerFiles>,
        line: &NatsConnection,
        child: &OwnChild,
    ) -> Result<Option<Self>, ConnectError> {
        let (Some(listener), Some(place)) = (&options.server_listener, place) else {
            return Ok(None);
        };
        if !options.starts() {
            return Ok(None);
        }
        let ends = Arc::new(AtomicBool::new(false));
        let mut watch = Watch {
            options: options.clone(),
            place: place.clone(),
            line: line.clone(),
            child: Arc::clone(child),
            listener: listener.clone(),
            ends: Arc::clone(&ends),
            away: None,
            rests: None,
            was_full: false,
            said: String::new(),
        };
        let thread = thread::Builder::new()
            .name("nats-keeper".to_owned())
            .spawn(move || watch.run())
            .map_err(|error| ConnectError::System(format!("start a thread: {error}")))?;
        Ok(Some(Self {
            ends,
            thread: Mutex::new(Some(thread)),
        }))
    }

    /// Asks the thread to end, without waiting for it.
    pub(crate) fn request_stop(&self) {
        self.ends.store(true, Ordering::SeqCst);
    }

    /// Ends the thread and waits for it, so that it starts no server any more.
    pub(crate) fn end(&self) {
        self.request_stop();
        let thread = lock(&self.thread).take();
        if let Some(thread) = thread {
            // The message of a panic has already been printed.
            let _panicked = thread.join();
        }
    }
}

struct Watch {
    options: ConnectionOptions,
    place: ServerFiles,
    line: NatsConnection,
    child: OwnChild,
    listener: ServerNotice,
    ends: Arc<AtomicBool>,
    /// Time since which there is no connection.
    away: Option<Instant>,
    /// Time until which no attempt is made.
    rests: Option<Instant>,
    /// Whether the disk has been full since the server was started. A server whose write has failed once never writes
    /// again.
    was_full: bool,
    said: String,
}

impl Watch {
    fn run(&mut self) {
        while !self.ends.load(Ordering::SeqCst) {
            pbg_clock::sleep(LOOK);
            if self.rests.is_some_and(|until| pbg_clock::now() < until) {
                continue;
            }
            self.rests = None;
            if let Err(error) = self.look() {
                self.say(&error.to_string());
                self.rests = Some(pbg_clock::now() + REST);
            }
        }
    }

    /// Reports a message, unless it repeats the last one.
    fn say(&mut self, what: &str) {
        if self.said != what {
            (self.listener.0)(what);
            what.clone_into(&mut self.said);
        }
    }

    fn look(&mut self) -> Result<(), ConnectError> {
        if self.is_full() {
            self.was_full = true;
            self.say(&format!(
                "the disk of {} is full: nats-server cannot write the ledger and will be restarted when there is free space",
                self.place.store.display()
            ));
            return Ok(());
        }
        if self.line.is_connected() {
            self.away = None;
            let takes_nothing = self.line.signals.unanswered_writes() >= UNANSWERED;
            return match (self.was_full, takes_nothing) {
                (true, _) => self.start_again("the disk was full and has free space again"),
                (false, true) => self.start_again("it answers, but no longer writes"),
                (false, false) => Ok(()),
            };
        }
        let away = *self.away.get_or_insert_with(pbg_clock::now);
        match away.elapsed() < AWAY {
            true => Ok(()),
            false => self.revive(),
        }
    }

    fn is_full(&self) -> bool {
        // If the folder does not exist, it will be created again in its parent.
        let folders = self.place.store.ancestors();
        let found = folders
            .filter_map(|folder| rustix::fs::statvfs(folder).ok())
            .next();
        found.is_some_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) < ROOM)
    }

    /// Returns the record of the server, if it belongs to this run and the server ran on this machine.
    fn record(&self) -> Result<Option<ServerRecord>, ConnectError> {
        let record = ServerRecord::read(&self.place.record)?;
        let is_own = |record: &ServerRecord| {
            record.run == self.options.run.as_str() && record.host == server::machine()
        };
        Ok(record.filter(is_own))
    }

    /// Stops the server, which answers but does not write, and starts it again.
    fn start_again(&mut self, why: &str) -> Result<(), ConnectError> {
        let Some(record) = self.record()? else {
            return Ok(());
        };
        self.say(&format!("restarting nats-server: {why}"));
        let stopped = server::stop(&record, &self.place.store);
        // If this attempt fails, the next one must not find the server marked as stopped on purpose.
        server::clear_stopped_mark(&self.place.store);
        stopped?;
        self.reap();
        self.start_ended(&record)
    }

    fn reap(&self) {
        if let Some(child) = &mut *lock(&self.child) {
            // A process that is still running is waited for later.
            child.try_wait().ok();
        }
    }

    /// Starts the server again if its process has ended.
    fn revive(&mut self) -> Result<(), ConnectError> {
        self.reap();
        if self.ends.load(Ordering::SeqCst) {
            return Ok(());
        }
        let Some(record) = self.record()? else {
            return Ok(());
        };
        match server::health(&record, &self.place.store) {
            Health::Gone => {}
            Health::Ended => return Ok(()),
            Health::Runs => {
                let pid = record.pid;
                self.say(&format!(
                    "nats-server (process {pid}) is running but does not answer"
                ));
                return Ok(());
            }
            Health::Stopped => {
                let pid = record.pid;
                self.say(&format!(
                    "nats-server (process {pid}) is stopped; `kill -CONT {pid}` resumes it"
                ));
                return Ok(());
            }
        }
        self.start_ended(&record)
    }

    /// Starts the server of `record` again, whose process has ended.
    fn start_ended(&mut self, record: &ServerRecord) -> Result<(), ConnectError> {
        let Some(taken) = StoreLock::take(&self.place.store, Some(record))? else {
            return Ok(());
        };
        let address = Address::parse(&record.address, None).map_err(|what| {
            let path = self.place.record.clone();
            ConnectError::Content { path, what }
        })?;
        let running = self.start(record, &address, taken)?;
        *lock(&self.child) = Some(running);
        (self.away, self.was_full) = (None, false);
        self.line.signals.forget_writes();
        self.say(&format!("restarted nats-server at {address}"));
        self.said.clear();
        Ok(())
    }

    fn start(
        &self,
        record: &ServerRecord,
        address: &Address,
        taken: StoreLock,
    ) -> Result<Child, ConnectError> {
        let recorded = record.secret.as_deref().map(Secret::new).transpose()?;
        let listen = match &self.options.method {
            InitMethod::Tcp(address) => listen_at(&self.options, address),
            _ => own_address(&self.options).0,
        };
        let hosting = ServerHost {
            options: &self.options,
            place: &self.place,
            listen,
            secret: recorded.as_ref().or(self.options.secret.as_ref()),
        };
        let program = hosting.program()?;
        let running = hosting.start(&program, address, Some(address.port), taken)?;
        hosting.leave_record(address, recorded.as_ref(), running.child.id())?;
        Ok(running.child)
    }
}
