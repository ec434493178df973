//! A register that answers late, twice, never or wrongly, and that may lose its last writes.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use pbg_core::lock::lock;
use pbg_ledger::transport::{NoAnswer, Register, RegisterEntry, WriteReply};

use crate::fault::SimFault;
use crate::world::{Process, SimWorld};

/// Time after which a client no longer waits for an answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Probabilities of faults, for each request.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RegisterFaults {
    /// The request does not arrive.
    pub(crate) lost_request: f64,
    /// The request is carried out, but its answer does not arrive.
    pub(crate) lost_answer: f64,
    /// The request is carried out only after the client has given up.
    pub(crate) late: f64,
    /// A write is refused for no reason.
    pub(crate) refused: f64,
    /// A write arrives twice.
    pub(crate) twice: f64,
    /// Longest duration of the way to the register, and of the way back.
    pub(crate) latency: Duration,
}

/// A value in the register.
#[derive(Clone)]
struct Written {
    value: Vec<u8>,
    id: String,
}

#[derive(Default)]
struct Contents {
    /// All values, the newest last; the revision of a value is its position, from 1.
    values: Vec<Written>,
    ids: BTreeSet<String>,
    faults: RegisterFaults,
    /// Processes that do not reach the register.
    cut_off: BTreeSet<Process>,
    /// Time until which the register does not answer.
    down_until: Duration,
    /// Whether writes were ever lost.
    has_lost: bool,
}

/// A write that the register has accepted.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegisterWrite<'a> {
    /// The value before.
    pub(crate) before: Option<&'a [u8]>,
    pub(crate) value: &'a [u8],
    pub(crate) revision: u64,
    /// Whether the register has ever lost writes.
    pub(crate) has_lost: bool,
}

/// Observer of all writes.
pub(crate) trait WriteObserver: Send + Sync {
    /// Called after each write that is accepted.
    fn written(&self, write: &RegisterWrite<'_>);
}

/// The register of a simulation.
pub(crate) struct SharedRegister {
    contents: Mutex<Contents>,
    observer: Box<dyn WriteObserver>,
}

impl SharedRegister {
    /// Creates an empty register.
    pub(crate) fn new(observer: impl WriteObserver + 'static) -> Self {
        Self {
            contents: Mutex::default(),
            observer: Box::new(observer),
        }
    }

    /// Sets the probabilities of faults.
    pub(crate) fn set_faults(&self, faults: RegisterFaults) {
        lock(&self.contents).faults = faults;
    }

    /// Cuts a process off from the register, or restores its connection.
    pub(crate) fn cut_off(&self, process: Process, is_cut: bool) {
        let mut contents = lock(&self.contents);
        match is_cut {
            true => contents.cut_off.insert(process),
            false => contents.cut_off.remove(&process),
        };
    }

    /// Makes the register silent until a moment.
    pub(crate) fn stop_until(&self, time: Duration) {
        lock(&self.contents).down_until = time;
    }

    /// Makes the register forget its last writes.
    pub(crate) fn lose_last(&self, count: usize) {
        let mut contents = lock(&self.contents);
        let left = contents.values.len().saturating_sub(count);
        contents.has_lost = true;
        for lost in contents.values.split_off(left) {
            contents.ids.remove(&lost.id);
        }
    }

    /// Ends all faults.
    pub(crate) fn restore(&self) {
        let mut contents = lock(&self.contents);
        contents.faults = RegisterFaults::default();
        contents.cut_off.clear();
        contents.down_until = Duration::ZERO;
    }

    fn read(&self) -> Option<RegisterEntry> {
        let contents = lock(&self.contents);
        let newest = contents.values.last()?;
        Some(RegisterEntry {
            revision: contents.values.len() as u64,
            value: newest.value.clone(),
        })
    }

    fn write(&self, after: Option<u64>, value: &[u8], id: &str) -> WriteReply {
        let mut contents = lock(&self.contents);
        let newest = contents.values.len() as u64;
        if after.unwrap_or(0) != newest || contents.ids.contains(id) {
            return WriteReply::Refused;
        }
        contents.ids.insert(id.to_owned());
        contents.values.push(Written {
            value: value.to_owned(),
            id: id.to_owned(),
        });
        let before = contents.values.iter().rev().nth(1);
        self.observer.written(&RegisterWrite {
            before: before.map(|written| &*written.value),
            value,
            revision: newest + 1,
            has_lost: contents.has_lost,
        });
        WriteReply::Accepted(newest + 1)
    }
}

/// A process's connection to the register.
pub(crate) struct RegisterConnection {
    world: Arc<SimWorld>,
    register: Arc<SharedRegister>,
    process: Process,
}

impl RegisterConnection {
    /// Connects the calling process.
    pub(crate) fn new(world: &Arc<SimWorld>, register: &Arc<SharedRegister>) -> Self {
        Self {
            world: Arc::clone(world),
            register: Arc::clone(register),
            process: world.current(),
        }
    }

    fn happens(&self, probability: f64, fault: SimFault) -> bool {
        let is_drawn = probability > 0.0 && self.world.draw(|dice| dice.chance(probability));
        is_drawn && self.world.inject(fault)
    }

    fn travel(&self, faults: &RegisterFaults) {
        let longest = faults.latency.max(Duration::from_millis(1));
        pbg_clock::sleep(self.world.draw(|dice| dice.duration(longest)));
    }

    fn is_reached(&self) -> bool {
        let contents = lock(&self.register.contents);
        !contents.cut_off.contains(&self.process) && contents.down_until <= self.world.time()
    }

    /// Makes a request. `late` is called instead of `request` if the request is carried out after the client has given
    /// up.
    fn request<T>(&self, request: impl FnOnce() -> T, late: impl FnOnce()) -> Result<T, NoAnswer> {
        let faults = lock(&self.register.contents).faults;
        self.travel(&faults);
        let timed_out = || {
            pbg_clock::sleep(TIMEOUT);
            Err(NoAnswer("no answer in time".to_owned()))
        };
        if !self.is_reached() || self.happens(faults.lost_request, SimFault::LostRequest) {
            return timed_out();
        }
        if self.happens(faults.late, SimFault::LateWrite) {
            late();
            return timed_out();
        }
        let answer = request();
        self.travel(&faults);
        match !self.is_reached() || self.happens(faults.lost_answer, SimFault::LostAnswer) {
            true => timed_out(),
            false => Ok(answer),
        }
    }

    /// Carries out a write after a while.
    fn write_later(&self, after: Option<u64>, value: &[u8], id: &str) {
        let (register, value, id) = (Arc::clone(&self.register), value.to_owned(), id.to_owned());
        let delay = self.world.draw(|dice| dice.duration(4 * TIMEOUT));
        let write = move || {
            pbg_clock::sleep(delay);
            register.write(after, &value, &id);
        };
        // The packet is on its way even if the process that has sent it dies.
        let _packet = self.world.start_process(Default::default(), write);
    }
}

impl Register for RegisterConnection {
    fn read(&self) -> Result<Option<RegisterEntry>, NoAnswer> {
        self.request(|| self.register.read(), || ())
    }

    fn write(&self, after: Option<u64>, value: &[u8], id: &str) -> Result<WriteReply, NoAnswer> {
        let faults = lock(&self.register.contents).faults;
        if self.happens(faults.twice, SimFault::RepeatedWrite) {
            self.write_later(after, value, id);
        }
        let write = || match self.happens(faults.refused, SimFault::RefusedWrite) {
            true => WriteReply::Refused,
            false => self.register.write(after, value, id),
        };
        self.request(write, || self.write_later(after, value, id))
    }
}
