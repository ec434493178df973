//! Live traffic over objects that every trainer reads again and again: a heartbeat is an object that its trainer replaces,
//! and the register's object tells whether its value has changed. Questions are not answered, so models with shared
//! parameters need another transport.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use pbg_core::lock::lock;
use pbg_files::remote::{ContentTag, RemoteFolder};
use pbg_ledger::Token;
use pbg_ledger::transport::{Heartbeat, LastHeartbeat, LiveTraffic, NoAnswer, QuestionHandler};

use crate::error::ConnectError;
use crate::heartbeats::{HeartbeatLog, MAX_BEAT};
use crate::object_register::ObjectRegister;

/// Beginning of the names of heartbeats.
const BEATS: &str = "ledger/beats/";
/// Largest size of the object of a heartbeat in bytes: its number, a line feed, and the heartbeat.
const MAX_CONTENT: u64 = 32 + MAX_BEAT as u64;
/// Interval at which the register and the heartbeats are looked up.
pub(crate) const POLL: Duration = Duration::from_secs(1);
/// Time after which the heartbeat of a trainer that has ended is removed.
const OLD: Duration = Duration::from_secs(3600);

/// Live traffic of a run without a server.
pub(crate) struct PolledTraffic {
    beats: Arc<HeartbeatLog>,
    outbox: SyncSender<(Token, Vec<u8>)>,
    woken: Arc<WakeUp>,
    stops: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

/// Wake-up that counts until somebody has waited for it.
#[derive(Default)]
struct WakeUp {
    woken: Mutex<bool>,
    changed: Condvar,
}

impl WakeUp {
    fn wake(&self) {
        *lock(&self.woken) = true;
        self.changed.notify_all();
    }

    fn wait(&self, at_most: Duration) -> bool {
        let waited = self
            .changed
            .wait_timeout_while(lock(&self.woken), at_most, |woken| !*woken);
        let mut woken = waited.unwrap_or_else(PoisonError::into_inner).0;
        std::mem::take(&mut woken)
    }
}

impl PolledTraffic {
    /// Starts the threads that send and read heartbeats in `folder` and look at `register`.
    ///
    /// # Errors
    /// Fails if a thread cannot be started.
    pub(crate) fn start(
        folder: &Arc<dyn RemoteFolder>,
        register: &Arc<ObjectRegister>,
    ) -> Result<Self, ConnectError> {
        let (outbox, told) = sync_channel(1);
        let mut traffic = Self {
            beats: Arc::default(),
            outbox,
            woken: Arc::default(),
            stops: Arc::default(),
            threads: Vec::new(),
        };
        let (to, stops) = (Arc::clone(folder), Arc::clone(&traffic.stops));
        traffic.spawn("send-beats", move || send(&*to, &told, &stops))?;
        let mut reader = BeatReader {
            folder: Arc::clone(folder),
            beats: Arc::clone(&traffic.beats),
            seen: HashMap::new(),
            has_looked: false,
        };
        let (register, woken) = (Arc::clone(register), Arc::clone(&traffic.woken));
        let stops = Arc::clone(&traffic.stops);
        traffic.spawn("poll", move || {
            let mut tag = None;
            while !stops.load(Ordering::Relaxed) {
                reader.look();
                // A store that does not answer is reported by whoever reads the register.
                if let Ok(now) = register.tag()
                    && now != tag
                {
                    tag = now;
                    woken.wake();
                }
                thread::park_timeout(POLL);
            }
        })?;
        Ok(traffic)
    }

    fn spawn(
        &mut self,
        name: &str,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<(), ConnectError> {
        let thread = thread::Builder::new().name(name.to_owned()).spawn(work);
        let failed = |error| ConnectError::System(format!("start a thread: {error}"));
        self.threads.push(thread.map_err(failed)?);
        Ok(())
    }
}

impl LiveTraffic for PolledTraffic {
    /// If the last heartbeat is not sent yet, this one is lost.
    fn beat(&self, beat: &Heartbeat) {
        if let Ok(bytes) = serde_json::to_vec(beat) {
            self.outbox.try_send((beat.token, bytes)).ok();
        }
    }

    fn heartbeats(&self) -> Vec<LastHeartbeat> {
        self.beats.all(pbg_clock::now())
    }

    /// The others see that the register has changed.
    fn wake(&self) {}

    fn wait(&self, at_most: Duration) -> bool {
        self.woken.wait(at_most)
    }

    fn carries_questions(&self) -> bool {
        false
    }

    fn ask(&self, whom: Token, _: &[u8], _: Duration) -> Result<Vec<u8>, NoAnswer> {
        Err(NoAnswer(format!(
            "asking {whom}: trainers without a server exchange no parameters"
        )))
    }

    fn answer(&self, _: Token, _: QuestionHandler) -> Result<(), NoAnswer> {
        Ok(())
    }
}

impl Drop for PolledTraffic {
    fn drop(&mut self) {
        self.stops.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            thread.thread().unpark();
            // The message of a panic has been printed already.
            let _panicked = thread.join();
        }
    }
}

/// Sends heartbeats until the traffic ends, and then removes the last one. A number before each makes its content differ
/// from that of the last one, and so its tag.
fn send(folder: &dyn RemoteFolder, told: &Receiver<(Token, Vec<u8>)>, stops: &AtomicBool) {
    let mut sent = None;
    let mut number = 0_u64;
    while !stops.load(Ordering::Relaxed) {
        match told.recv_timeout(Duration::from_millis(100)) {
            Ok((token, beat)) => {
                number += 1;
                let content = [format!("{number}\n").as_bytes(), &beat].concat();
                // A heartbeat may be lost.
                folder.put(&name_of(token), &content).ok();
                sent = Some(token);
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    if let Some(token) = sent {
        folder.remove(&name_of(token)).ok();
    }
}

fn name_of(token: Token) -> String {
    format!("{BEATS}{token}")
}

/// Reader of all heartbeats.
struct BeatReader {
    folder: Arc<dyn RemoteFolder>,
    beats: Arc<HeartbeatLog>,
    /// What was last seen of each, and when it changed.
    seen: HashMap<String, (ContentTag, Instant)>,
    has_looked: bool,
}

impl BeatReader {
    /// Reads the heartbeats that have changed. What was there at the beginning may be of a trainer that has ended, so it
    /// counts only once it changes.
    fn look(&mut self) {
        let Ok(listed) = self.folder.list_below(BEATS) else {
            return;
        };
        let now = pbg_clock::now();
        let names: Vec<&String> = listed.iter().map(|file| &file.name).collect();
        self.seen.retain(|name, _| names.contains(&name));
        for file in &listed {
            match self.seen.get(&file.name) {
                Some((tag, since)) if *tag == file.tag => {
                    if now.saturating_duration_since(*since) > OLD {
                        self.folder.remove(&file.name).ok();
                    }
                    continue;
                }
                None if !self.has_looked => {}
                _ => {
                    if let Ok(content) = self.folder.read(&file.name, MAX_CONTENT)
                        && let Some(end) = content.bytes.iter().position(|byte| *byte == b'\n')
                    {
                        self.beats.take(&content.bytes[end..], pbg_clock::now());
                    }
                }
            }
            self.seen.insert(file.name.clone(), (file.tag.clone(), now));
        }
        self.has_looked = true;
    }
}
