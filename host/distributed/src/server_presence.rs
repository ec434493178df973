//! Presence of a partition server in the run: its entry in the record, and its heartbeats.
//!
//! A server is no trainer: it submits no transactions, and changes nothing in the record but its own entry.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pbg_clock::{JoinHandle, Monitor};
use pbg_core::lock::lock;
use pbg_ledger::transport::{
    Heartbeat, LiveTraffic, NoAnswer, Register, TrainerActivity, WriteReply,
};
use pbg_ledger::{LedgerRecord, OperatorCommand, PartitionServer, Token, TransactionError};
use pbg_model::error::RunError;

use crate::ledger::{decode, encode};
use crate::random_token::random_token;

/// How often the removal of the entry is tried when a server ends. Otherwise others remove it once it is silent.
const ATTEMPTS: usize = 10;

/// Draws the token of a partition server.
///
/// # Errors
/// When the operating system has no random numbers.
pub fn server_token() -> Result<Token, RunError> {
    random_token()
}

/// Keeps a partition server in the record of its run, once it is announced, and sends its heartbeats. Dropping it removes
/// the entry.
pub struct ServerPresence {
    entry: Arc<ServerEntry>,
    thread: Mutex<Option<JoinHandle>>,
}

struct ServerEntry {
    register: Arc<dyn Register>,
    live: Arc<dyn LiveTraffic>,
    name: String,
    token: Token,
    server: PartitionServer,
    heartbeat: Duration,
    /// Whether the run is to use the server.
    is_announced: AtomicBool,
    ends: Monitor<bool>,
}

impl ServerPresence {
    /// Starts the thread of a server that is called `name` in messages.
    ///
    /// # Errors
    /// When the operating system cannot create a thread.
    pub fn start(
        (register, live): (Arc<dyn Register>, Arc<dyn LiveTraffic>),
        name: &str,
        (token, server): (Token, PartitionServer),
        heartbeat: Duration,
    ) -> Result<Self, RunError> {
        let entry = Arc::new(ServerEntry {
            register,
            live,
            name: name.to_owned(),
            token,
            server,
            heartbeat,
            is_announced: AtomicBool::new(false),
            ends: Monitor::new(false),
        });
        let work = Arc::clone(&entry);
        let started = pbg_clock::spawn("server", move || work.run());
        let thread = started.map_err(|e| RunError::Thread(e.to_string()))?;
        Ok(Self {
            entry,
            thread: Mutex::new(Some(thread)),
        })
    }

    /// Returns the token of the server.
    #[must_use]
    pub fn token(&self) -> Token {
        self.entry.token
    }

    /// Returns the server as the record has it.
    #[must_use]
    pub fn server(&self) -> &PartitionServer {
        &self.entry.server
    }

    /// Adds the server to the record. Its trainer has joined, or it needs none.
    pub fn announce(&self) {
        self.entry.is_announced.store(true, Ordering::Relaxed);
        self.entry.add();
    }

    /// Removes the server from the record, for good: no trainer settles files that only it has from then on. Returns
    /// whether the record is known to lack it.
    pub fn retire(&self) -> bool {
        self.entry.ends.change(|ends| *ends = true);
        let thread = lock(&self.thread).take();
        let Some(thread) = thread else {
            // It was retired before, and the register may have ended with the run.
            return true;
        };
        // Otherwise it might add the server again. The message of a panic is already printed.
        let _panicked = thread.join();
        self.entry.remove()
    }
}

impl Drop for ServerPresence {
    fn drop(&mut self) {
        // If the register does not answer, the trainers remove the server once it is silent.
        let _removed = self.retire();
    }
}

impl ServerEntry {
    fn run(&self) {
        while !*self.ends.lock() {
            self.live.beat(&Heartbeat {
                token: self.token,
                name: self.name.clone(),
                rank: None,
                state: TrainerActivity::Serving,
                bucket: None,
                edges_per_second: 0.0,
                waited: 0.0,
                parameters: None,
            });
            if !self.is_announced.load(Ordering::Relaxed) {
                drop(self.ends.wait_while(self.heartbeat, |ends| !*ends));
                continue;
            }
            self.add();
            drop(self.ends.wait_while(self.heartbeat, |ends| !*ends));
        }
    }

    /// Adds the entry to the record unless it is there. A register that does not answer now is asked again with the next
    /// heartbeat.
    fn add(&self) {
        let _added = self.change(|record| match record.servers().contains_key(&self.token) {
            true => None,
            false => {
                let add = OperatorCommand::AddServer(self.token, self.server.clone());
                Some(record.apply_command(add))
            }
        });
    }

    /// Removes the entry from the record. Returns whether the record is known to lack it.
    fn remove(&self) -> bool {
        if !self.is_announced.load(Ordering::Relaxed) || self.register.is_shut_down() {
            return true;
        }
        for attempt in 0..ATTEMPTS {
            if attempt > 0 {
                pbg_clock::sleep(self.heartbeat / 8);
            }
            let changed = self.change(|record| {
                let is_there = record.servers().contains_key(&self.token);
                is_there.then(|| record.apply_command(OperatorCommand::RemoveServer(self.token)))
            });
            match changed {
                // The entry was written away, or somebody else wrote first; the next attempt shows which.
                Ok(true) => {}
                Ok(false) => return true,
                Err(_) => return false,
            }
        }
        false
    }

    /// Changes the record if there is one that uses partition servers. Returns whether something was written, which may
    /// have come too late.
    fn change(
        &self,
        change: impl Fn(&LedgerRecord) -> Option<Result<LedgerRecord, TransactionError>>,
    ) -> Result<bool, NoAnswer> {
        let entry = self.register.read()?;
        let read = decode(entry.as_ref()).ok().flatten();
        let Some(seen) = read.filter(|seen| seen.record.terms().servers.is_some()) else {
            return Ok(false);
        };
        let Some(Ok(next)) = change(&seen.record) else {
            return Ok(false);
        };
        let Ok(encoded) = encode(&next) else {
            return Ok(false);
        };
        let id = format!("{}-{}", self.token, next.revision());
        if let WriteReply::Accepted(_) = self.register.write(Some(seen.revision), &encoded, &id)? {
            self.live.wake();
        }
        Ok(true)
    }
}
