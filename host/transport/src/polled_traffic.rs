//! Live traffic over objects that every trainer reads again and again: a heartbeat is an object that its trainer replaces,
//! and the register's object tells whether its value has changed. Questions are not answered, so models with shared
//! parameters need another transport.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pbg_clock::{JoinHandle, Monitor};
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
/// Longest time that a thread waits before it looks again.
const LOOK: Duration = Duration::from_secs(60);
/// Time after which the heartbeat of a trainer that has ended is removed.
const OLD: Duration = Duration::from_secs(3600);

/// Live traffic of a run without a server.
pub(crate) struct PolledTraffic {
    beats: Arc<HeartbeatLog>,
    state: Arc<Monitor<TrafficState>>,
    threads: Vec<JoinHandle>,
}

/// What the threads of the traffic have to do, and have found.
#[derive(Default)]
struct TrafficState {
    /// Heartbeat that is not sent yet.
    outbox: Option<(Token, Vec<u8>)>,
    /// Whether the register has changed since somebody has waited for that.
    woken: bool,
    stops: bool,
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
        let mut traffic = Self {
            beats: Arc::default(),
            state: Arc::default(),
            threads: Vec::new(),
        };
        let (to, state) = (Arc::clone(folder), Arc::clone(&traffic.state));
        traffic.spawn("send-beats", move || send(&*to, &state))?;
        let reader = BeatReader {
            folder: Arc::clone(folder),
            beats: Arc::clone(&traffic.beats),
            seen: HashMap::new(),
            has_looked: false,
        };
        let (register, state) = (Arc::clone(register), Arc::clone(&traffic.state));
        traffic.spawn("poll", move || poll(reader, &register, &state))?;
        Ok(traffic)
    }

    fn spawn(
        &mut self,
        name: &str,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<(), ConnectError> {
        let failed = |error| ConnectError::System(format!("start a thread: {error}"));
        let thread = pbg_clock::spawn(name, work).map_err(failed)?;
        self.threads.push(thread);
        Ok(())
    }
}

impl LiveTraffic for PolledTraffic {
    /// A heartbeat that is not sent yet is replaced.
    fn beat(&self, beat: &Heartbeat) {
        if let Ok(bytes) = serde_json::to_vec(beat) {
            self.state
                .change(|state| state.outbox = Some((beat.token, bytes)));
        }
    }

    fn heartbeats(&self) -> Vec<LastHeartbeat> {
        self.beats.all(pbg_clock::now())
    }

    /// The others see that the register has changed.
    fn wake(&self) {}

    fn wait(&self, at_most: Duration) -> bool {
        let mut state = self.state.wait_while(at_most, |state| !state.woken);
        std::mem::take(&mut state.woken)
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
        self.state.change(|state| state.stops = true);
        for thread in self.threads.drain(..) {
            // The message of a panic has been printed already.
            let _panicked = thread.join();
        }
    }
}

/// Sends heartbeats until the traffic ends, and then removes the last one. A number before each makes its content differ
/// from that of the last one, and so its tag.
fn send(folder: &dyn RemoteFolder, state: &Monitor<TrafficState>) {
    let mut sent = None;
    let mut number = 0_u64;
    loop {
        let mut changed = state.wait_while(LOOK, |state| state.outbox.is_none() && !state.stops);
        let (beat, stops) = (changed.outbox.take(), changed.stops);
        drop(changed);
        if stops {
            break;
        }
        if let Some((token, beat)) = beat {
            number += 1;
            let content = [format!("{number}\n").as_bytes(), &beat].concat();
            // A heartbeat may be lost.
            folder.put(&name_of(token), &content).ok();
            sent = Some(token);
        }
    }
    if let Some(token) = sent {
        folder.remove(&name_of(token)).ok();
    }
}

/// Reads the heartbeats, and looks whether the register has changed, until the traffic ends.
fn poll(mut reader: BeatReader, register: &ObjectRegister, state: &Monitor<TrafficState>) {
    let mut tag = None;
    loop {
        reader.look();
        // A store that does not answer is reported when the register is read.
        if let Ok(now) = register.tag()
            && now != tag
        {
            tag = now;
            state.change(|state| state.woken = true);
        }
        if state.wait_while(POLL, |state| !state.stops).stops {
            return;
        }
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
