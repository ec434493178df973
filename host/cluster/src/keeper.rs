//! Keeps the server alive that rank 0 has started: starts it again where its process has ended, or where it takes nothing
//! any more since its disk was full.
//!
//! Only rank 0 does this, and only on the machine where its server ran: the lock of the store says that none is alive. The
//! address and the secret stay the same, so trainers find the new server by themselves. A server that was ended on purpose,
//! since the run is over, stays ended.

use std::fmt;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::error::ClusterError;
use crate::hosting::{Hosting, listen_at, own_address};
use crate::method::{Address, Method};
use crate::options::Options;
use crate::place::Place;
use crate::secret::Secret;
use crate::server::{self, Health, Lock, Record};
use crate::wire::Line;

/// How often the server is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// How long a connection may be away before the server's process is looked for.
const AWAY: Duration = Duration::from_secs(1);
/// The wait after an attempt that failed.
const REST: Duration = Duration::from_secs(5);
/// Writes in a row without an answer after which a server that answers reads is started again.
const UNANSWERED: u32 = 2;
/// Free bytes below which a disk counts as full: a record of the ledger and the server's own files need as much.
const ROOM: u64 = 256 << 10;

/// Takes a sentence about the server, from any thread.
#[derive(Clone)]
pub struct Listener(pub Arc<dyn Fn(&str) + Send + Sync>);

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Listener")
    }
}

/// The server's process, where this one has started it. Kept so that it does not stay a zombie.
pub(crate) type OwnChild = Arc<Mutex<Option<Child>>>;

/// The thread that keeps the server alive.
pub(crate) struct Keeper {
    ends: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Keeper {
    /// Starts it for rank 0 of a run without servers of its own, if the options name a listener; none otherwise.
    ///
    /// # Errors
    /// When the system has no thread.
    pub(crate) fn start(
        options: &Options,
        place: Option<&Place>,
        line: &Line,
        child: &OwnChild,
    ) -> Result<Option<Self>, ClusterError> {
        let (Some(listener), Some(place)) = (&options.keeps, place) else {
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
            .map_err(|error| ClusterError::System(format!("start a thread: {error}")))?;
        Ok(Some(Self {
            ends,
            thread: Mutex::new(Some(thread)),
        }))
    }

    /// Asks it to end, and does not wait for that.
    pub(crate) fn ends(&self) {
        self.ends.store(true, Ordering::SeqCst);
    }

    /// Ends it: it starts nothing any more.
    pub(crate) fn end(&self) {
        self.ends();
        if let Some(thread) = lock(&self.thread).take() {
            // What it panicked with was printed.
            let _panicked = thread.join();
        }
    }
}

struct Watch {
    options: Options,
    place: Place,
    line: Line,
    child: OwnChild,
    listener: Listener,
    ends: Arc<AtomicBool>,
    /// Since when there is no connection.
    away: Option<Instant>,
    /// Until when nothing is tried.
    rests: Option<Instant>,
    /// Whether the disk has been full since the server was started: a server that could not write once does not write again.
    was_full: bool,
    said: String,
}

impl Watch {
    fn run(&mut self) {
        while !self.ends.load(Ordering::SeqCst) {
            thread::sleep(LOOK);
            if self.rests.is_some_and(|until| Instant::now() < until) {
                continue;
            }
            self.rests = None;
            if let Err(error) = self.look() {
                self.say(&error.to_string());
                self.rests = Some(Instant::now() + REST);
            }
        }
    }

    /// Says something once.
    fn say(&mut self, what: &str) {
        if self.said != what {
            (self.listener.0)(what);
            what.clone_into(&mut self.said);
        }
    }

    fn look(&mut self) -> Result<(), ClusterError> {
        if self.is_full() {
            self.was_full = true;
            self.say(&format!(
                "the disk of {} is full: nats-server cannot write the ledger; it is started again once there is room",
                self.place.store.display()
            ));
            return Ok(());
        }
        if self.line.is_connected() {
            self.away = None;
            let takes_nothing = self.line.signals.unanswered_writes() >= UNANSWERED;
            return match (self.was_full, takes_nothing) {
                (true, _) => self.start_again("the disk was full and has room again"),
                (false, true) => self.start_again("it answers, but writes nothing any more"),
                (false, false) => Ok(()),
            };
        }
        let away = *self.away.get_or_insert_with(Instant::now);
        match away.elapsed() < AWAY {
            true => Ok(()),
            false => self.revive(),
        }
    }

    fn is_full(&self) -> bool {
        // A folder that is gone is made again.
        let folders = self.place.store.ancestors();
        let found = folders
            .filter_map(|folder| rustix::fs::statvfs(folder).ok())
            .next();
        found.is_some_and(|disk| disk.f_bavail.saturating_mul(disk.f_frsize) < ROOM)
    }

    /// The record of the server, if it is of this run and the server ran on this machine.
    fn record(&self) -> Result<Option<Record>, ClusterError> {
        let record = Record::read(&self.place.record)?;
        let is_own = |record: &Record| {
            record.run == self.options.run.as_str() && record.host == server::machine()
        };
        Ok(record.filter(is_own))
    }

    /// Ends the server, which answers but does not write, and starts it again.
    fn start_again(&mut self, why: &str) -> Result<(), ClusterError> {
        let Some(record) = self.record()? else {
            return Ok(());
        };
        self.say(&format!("starting nats-server again: {why}"));
        let stopped = server::stop(&record, &self.place.store);
        // Should this attempt fail, the next one finds a server that was not ended for good.
        server::is_wanted(&self.place.store);
        stopped?;
        self.reap();
        self.start_ended(&record)
    }

    fn reap(&self) {
        if let Some(child) = &mut *lock(&self.child) {
            // One that runs still is waited for later.
            child.try_wait().ok();
        }
    }

    /// Starts the server where its process has ended.
    fn revive(&mut self) -> Result<(), ClusterError> {
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
                    "nats-server, process {pid}, runs but does not answer"
                ));
                return Ok(());
            }
            Health::Stopped => {
                let pid = record.pid;
                self.say(&format!(
                    "nats-server, process {pid}, is stopped: `kill -CONT {pid}` has it go on"
                ));
                return Ok(());
            }
        }
        self.start_ended(&record)
    }

    /// Starts the server of `record`, whose process has ended.
    fn start_ended(&mut self, record: &Record) -> Result<(), ClusterError> {
        let Some(taken) = Lock::take(&self.place.store, Some(record))? else {
            return Ok(());
        };
        let address = Address::parse(&record.address, None).map_err(|what| {
            let path = self.place.record.clone();
            ClusterError::Content { path, what }
        })?;
        let running = self.start(record, &address, taken)?;
        *lock(&self.child) = Some(running);
        (self.away, self.was_full) = (None, false);
        self.line.signals.forget_writes();
        self.say(&format!("started nats-server again at {address}"));
        self.said.clear();
        Ok(())
    }

    fn start(
        &self,
        record: &Record,
        address: &Address,
        taken: Lock,
    ) -> Result<Child, ClusterError> {
        let recorded = record.secret.as_deref().map(Secret::new).transpose()?;
        let listen = match &self.options.method {
            Method::Tcp(address) => listen_at(&self.options, address),
            _ => own_address(&self.options).0,
        };
        let hosting = Hosting {
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

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
