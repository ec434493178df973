//! A register and live traffic within one process, with the faults of networks.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use pbg_ledger::transport::{
    Heartbeat, LastHeartbeat, LiveTraffic, NoAnswer, QuestionHandler, Register, RegisterEntry,
    WriteReply,
};
use pbg_ledger::{LedgerRecord, Token};
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Function of a test that is called with every written record.
pub(crate) type Hook = Box<dyn FnMut(&LedgerRecord) -> Option<LedgerRecord> + Send>;

/// State shared by all connections.
#[derive(Default)]
pub(crate) struct Hub {
    values: Mutex<Vec<Vec<u8>>>,
    /// Receives every record that is written; a record that it returns is written next.
    hook: Mutex<Option<Hook>>,
    beats: Mutex<BTreeMap<Token, (Heartbeat, Instant)>>,
    wakes: (Mutex<u64>, Condvar),
    answers: Mutex<BTreeMap<Token, QuestionHandler>>,
}

impl Hub {
    /// Returns every record that was ever the newest.
    pub(crate) fn history(&self) -> Vec<LedgerRecord> {
        let values = self.values.lock().unwrap();
        let record = |value: &Vec<u8>| serde_json::from_slice(value).unwrap();
        values.iter().map(record).collect()
    }

    /// Calls `hook` with every record that is written from now on.
    pub(crate) fn watch(
        &self,
        hook: impl FnMut(&LedgerRecord) -> Option<LedgerRecord> + Send + 'static,
    ) {
        *self.hook.lock().unwrap() = Some(Box::new(hook));
    }

    fn written(&self, values: &mut Vec<Vec<u8>>) {
        let mut hook = self.hook.lock().unwrap();
        let (Some(hook), Some(value)) = (&mut *hook, values.last()) else {
            return;
        };
        let more = hook(&serde_json::from_slice(value).unwrap());
        values.extend(more.map(|record| serde_json::to_vec(&record).unwrap()));
    }

    /// Writes a change that an operator orders.
    pub(crate) fn order(&self, change: impl Fn(&LedgerRecord) -> LedgerRecord) {
        let mut values = self.values.lock().unwrap();
        let record: LedgerRecord = serde_json::from_slice(values.last().unwrap()).unwrap();
        values.push(serde_json::to_vec(&change(&record)).unwrap());
    }
}

/// Connection of one trainer.
pub(crate) struct Connection {
    hub: Arc<Hub>,
    /// Whether no message gets through.
    pub(crate) is_cut: AtomicBool,
    /// Number of writes in 100 that get no answer, half of which are applied; as many are refused without a reason.
    pub(crate) faults: AtomicU64,
    dice: Mutex<Xoshiro256PlusPlus>,
    woken: Mutex<u64>,
}

impl Connection {
    pub(crate) fn new(hub: &Arc<Hub>, seed: u64) -> Arc<Self> {
        Arc::new(Self {
            hub: Arc::clone(hub),
            is_cut: AtomicBool::new(false),
            faults: AtomicU64::new(0),
            dice: Mutex::new(Xoshiro256PlusPlus::seed_from_u64(seed)),
            woken: Mutex::new(0),
        })
    }

    fn reach(&self) -> Result<(), NoAnswer> {
        match self.is_cut.load(Ordering::Relaxed) {
            true => Err(NoAnswer("the line is cut".to_owned())),
            false => Ok(()),
        }
    }

    fn percent(&self) -> u64 {
        self.dice.lock().unwrap().random_range(0..100)
    }
}

impl Register for Connection {
    fn read(&self) -> Result<Option<RegisterEntry>, NoAnswer> {
        self.reach()?;
        let values = self.hub.values.lock().unwrap();
        let revision = values.len() as u64;
        let entry = |value: &Vec<u8>| RegisterEntry {
            revision,
            value: value.clone(),
        };
        Ok(values.last().map(entry))
    }

    fn write(&self, after: Option<u64>, value: &[u8], _id: &str) -> Result<WriteReply, NoAnswer> {
        self.reach()?;
        let (percent, faults) = (self.percent(), self.faults.load(Ordering::Relaxed));
        let mut values = self.hub.values.lock().unwrap();
        let lost = || Err(NoAnswer("the answer was lost".to_owned()));
        if percent < faults / 2 {
            return lost();
        }
        if values.len() as u64 != after.unwrap_or(0) || (faults..2 * faults).contains(&percent) {
            return Ok(WriteReply::Refused);
        }
        values.push(value.to_vec());
        let revision = values.len() as u64;
        self.hub.written(&mut values);
        match percent < faults {
            true => lost(),
            false => Ok(WriteReply::Accepted(revision)),
        }
    }
}

impl LiveTraffic for Connection {
    fn beat(&self, beat: &Heartbeat) {
        if self.reach().is_ok() {
            let mut beats = self.hub.beats.lock().unwrap();
            beats.insert(beat.token, (beat.clone(), Instant::now()));
        }
    }

    fn heartbeats(&self) -> Vec<LastHeartbeat> {
        let beats = self.hub.beats.lock().unwrap();
        let heard = |(beat, at): &(Heartbeat, Instant)| LastHeartbeat {
            beat: beat.clone(),
            ago: at.elapsed(),
        };
        beats.values().map(heard).collect()
    }

    fn wake(&self) {
        *self.hub.wakes.0.lock().unwrap() += 1;
        self.hub.wakes.1.notify_all();
    }

    fn wait(&self, at_most: Duration) -> bool {
        let mut woken = self.woken.lock().unwrap();
        let wakes = self.hub.wakes.0.lock().unwrap();
        let same = |wakes: &mut u64| *wakes == *woken;
        let waited = self.hub.wakes.1.wait_timeout_while(wakes, at_most, same);
        let (wakes, timeout) = waited.unwrap();
        *woken = *wakes;
        !timeout.timed_out()
    }

    fn ask(&self, whom: Token, question: &[u8], _within: Duration) -> Result<Vec<u8>, NoAnswer> {
        self.reach()?;
        let answers = self.hub.answers.lock().unwrap().get(&whom).cloned();
        let answers = answers.ok_or_else(|| NoAnswer("nobody is there".to_owned()))?;
        let answer = answers(question);
        // The limit of a NATS server.
        assert!(question.len().max(answer.len()) <= 1 << 20, "too long");
        Ok(answer)
    }

    fn answer(&self, me: Token, answers: QuestionHandler) -> Result<(), NoAnswer> {
        self.hub.answers.lock().unwrap().insert(me, answers);
        Ok(())
    }
}
