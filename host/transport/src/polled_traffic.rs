//! Live traffic over objects that every trainer reads again and again: a heartbeat is an object that its trainer replaces,
//! and the register's object tells whether its value has changed. Questions are not answered, so models with shared
//! parameters need another transport.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pbg_clock::{JoinHandle, Monitor};
use pbg_files::remote::{ContentTag, RemoteFile, RemoteFolder};
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
const POLL: Duration = Duration::from_secs(1);
/// Most heartbeats that are looked at.
const MAX_TRAINERS: usize = 512;
/// Most heartbeats that are remembered. The one that has not changed for the longest time is forgotten.
const MAX_SEEN: usize = 4 * MAX_TRAINERS;
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
        let reader = BeatReader::new(Arc::clone(folder), Arc::clone(&traffic.beats));
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

    fn delay(&self) -> Duration {
        POLL
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
            // A trainer that joins again has another token.
            if let Some(before) = sent.replace(token).filter(|before| *before != token) {
                folder.remove(&name_of(before)).ok();
            }
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
pub(crate) struct BeatReader {
    folder: Arc<dyn RemoteFolder>,
    beats: Arc<HeartbeatLog>,
    seen: HashMap<String, SeenBeat>,
    has_looked: bool,
}

/// What was last seen of a trainer's heartbeats.
struct SeenBeat {
    /// Tag of the last content that was read, or of the first that was listed.
    tag: ContentTag,
    /// Number of the last heartbeat that was read.
    number: u64,
    /// When that was.
    since: Instant,
}

impl BeatReader {
    /// Creates a reader that has looked at nothing yet.
    pub(crate) fn new(folder: Arc<dyn RemoteFolder>, beats: Arc<HeartbeatLog>) -> Self {
        Self {
            folder,
            beats,
            seen: HashMap::new(),
            has_looked: false,
        }
    }

    fn forget_oldest(&mut self) {
        let oldest = self.seen.iter().min_by_key(|(_, seen)| seen.since);
        if let Some(oldest) = oldest.map(|(name, _)| name.clone()) {
            self.seen.remove(&oldest);
        }
    }

    /// Returns the number of objects that are remembered.
    pub(crate) fn remembered(&self) -> usize {
        self.seen.len()
    }

    /// Reads the heartbeats that have changed. What was there at the beginning may be of a trainer that has ended, so it
    /// counts only once a heartbeat with a higher number follows. A listing may be old: what it lacks, or shows again,
    /// changes nothing.
    pub(crate) fn look(&mut self) {
        let Ok(listed) = self.folder.list_below(BEATS) else {
            return;
        };
        let now = pbg_clock::now();
        let is_first = !std::mem::replace(&mut self.has_looked, true);
        let is_beat = |file: &RemoteFile| {
            let token = file.name.strip_prefix(BEATS);
            token.is_some_and(|text| Token::try_from(text.to_owned()).is_ok())
        };
        let listed: Vec<RemoteFile> = listed.into_iter().filter(is_beat).collect();
        for file in listed.into_iter().take(MAX_TRAINERS) {
            if self.seen.len() >= MAX_SEEN && !self.seen.contains_key(&file.name) {
                self.forget_oldest();
            }
            let seen = self.seen.entry(file.name.clone()).or_insert_with(|| {
                let tag = match is_first {
                    true => file.tag.clone(),
                    false => ContentTag::default(),
                };
                let (number, since) = (0, now);
                SeenBeat { tag, number, since }
            });
            if seen.tag != file.tag
                && let Ok(content) = self.folder.read(&file.name, MAX_CONTENT)
                && let Some((number, beat)) = parse(&content.bytes)
            {
                seen.tag = content.tag;
                if number > seen.number {
                    (seen.number, seen.since) = (number, pbg_clock::now());
                    self.beats.take(beat, seen.since);
                }
            }
            if now.saturating_duration_since(seen.since) > OLD {
                self.folder.remove(&file.name).ok();
            }
        }
        let is_new = |seen: &SeenBeat| now.saturating_duration_since(seen.since) <= 2 * OLD;
        self.seen.retain(|_, seen| is_new(seen));
    }
}

/// Splits the content of a heartbeat's object into its number and the heartbeat.
fn parse(content: &[u8]) -> Option<(u64, &[u8])> {
    let end = content.iter().position(|byte| *byte == b'\n')?;
    let number = std::str::from_utf8(&content[..end]).ok()?.parse().ok()?;
    Some((number, &content[end + 1..]))
}
