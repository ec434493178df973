//! What lives in a store beside the instance: its caps and its log.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pbg_core::event::LogLevel;
use pbg_core::strategy::RunLength;
use rustix::time::{ClockId, clock_gettime};
use wasmtime::{ResourceLimiter, Store, UpdateDeadline};

use crate::bindings::{files as wit_files, log as wit_log, run as wit_run, types as wit_types};
use crate::engine::{Runtime, TICK};
use crate::grants::Folders;
use crate::limits::Limits;
use crate::log::GuestLog;

/// Memories, tables and core instances of one component. Guests of `componentize-py` link a
/// dozen modules; nothing needs hundreds.
pub(crate) const MEMORIES: usize = 8;
pub(crate) const TABLES: usize = 32;
pub(crate) const INSTANCES: usize = 128;

/// A plugin asked for more than its limits grant. The growth traps, so that the message names
/// the cause and not what the guest did without the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Denied {
    #[error("asked for {asked} bytes of memory, its limit is {limit}")]
    Memory { asked: usize, limit: usize },
    #[error("asked for {asked} table entries, its limit is {limit}")]
    Table { asked: usize, limit: usize },
}

/// Somebody asked for the end of the run while the plugin was at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("was interrupted")]
pub(crate) struct Interrupted;

/// How long a call may go on after somebody asked for the end: the bucket at hand is to be
/// finished, whose calls are short.
const GRACE: Duration = Duration::from_millis(300);

/// How many times its limit a call may take by the clock: where the processor is shared, or a
/// folder slow.
const PATIENCE: u32 = 10;

/// When a call has to end. Time is that of the processor, so that a busy machine stops no call; it is asked
/// for only at ticks, since that is slow beside a short call. A process that stands still (a signal, a machine
/// that sleeps) has no ticks: what lies between two of them counts as the limit at most.
pub(crate) struct Clock {
    limit: Duration,
    /// When this call began, or its last tick came.
    last: Instant,
    /// By the clock, from the begin of this call to its last tick.
    elapsed: Duration,
    /// At the first tick of this call: what it is taken to have used by then, and what its thread had used.
    used_before: Option<(Duration, Duration)>,
    /// Set once somebody asks for the end.
    stop: Option<Arc<AtomicBool>>,
    /// When this call first saw that it is set.
    asked: Option<Instant>,
}

impl Clock {
    fn new(limit: Duration, stop: Option<Arc<AtomicBool>>) -> Self {
        Self {
            limit,
            last: Instant::now(),
            elapsed: Duration::ZERO,
            used_before: None,
            stop,
            asked: None,
        }
    }

    /// A call begins.
    pub(crate) fn begin(&mut self) {
        self.last = Instant::now();
        self.elapsed = Duration::ZERO;
        self.used_before = None;
        self.asked = None;
    }

    /// What becomes of the call at a tick, which comes on the call's thread.
    fn tick(&mut self) -> wasmtime::Result<UpdateDeadline> {
        let now = Instant::now();
        let since = now.duration_since(self.last);
        self.last = now;
        if self.is_over(since, processor_time()) {
            return Ok(UpdateDeadline::Interrupt);
        }
        if self
            .stop
            .as_ref()
            .is_some_and(|stop| stop.load(Ordering::Relaxed))
        {
            let asked = *self.asked.get_or_insert(now);
            if now.duration_since(asked) >= GRACE {
                return Err(Interrupted.into());
            }
        }
        Ok(UpdateDeadline::Continue(1))
    }

    /// Whether a call has had its time, at a tick that comes `since` the last one or the call's begin, on a thread that has
    /// used `of_thread` of the processor.
    fn is_over(&mut self, since: Duration, of_thread: Duration) -> bool {
        self.elapsed += since.min(self.limit);
        let first = (since.min(TICK), of_thread);
        let (before, at_first) = *self.used_before.get_or_insert(first);
        let used = before + of_thread.saturating_sub(at_first);
        used >= self.limit || self.elapsed >= self.limit * PATIENCE
    }
}

/// Time of the processor that this thread has taken.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        time.tv_nsec.unsigned_abs() as u32,
    )
}

/// The data of a store.
pub(crate) struct Guest {
    pub(crate) clock: Clock,
    memory: Budget,
    /// The most that any instance of the program had.
    peak: Arc<AtomicUsize>,
    table: Budget,
    pub(crate) log: GuestLog,
    folders: Arc<Folders>,
    file_bytes: usize,
    /// What the call at hand may know of the run.
    pub(crate) run: RunLength,
}

/// What all memories, or all tables, have together.
struct Budget {
    used: usize,
    limit: usize,
}

impl Budget {
    /// Grants the growth, or says what was asked for in total.
    fn grow(&mut self, current: usize, desired: usize) -> Result<(), usize> {
        let total = self.used.saturating_add(desired.saturating_sub(current));
        if total > self.limit {
            return Err(total);
        }
        self.used = total;
        Ok(())
    }
}

impl Guest {
    /// A store with every limit set. The limiter must come before the instance: how many
    /// memories, tables and instances it grants is read once, when it is set.
    pub(crate) fn store(
        runtime: &Runtime,
        limits: &Limits,
        log: GuestLog,
        folders: Arc<Folders>,
        peak: Arc<AtomicUsize>,
        stop: Option<Arc<AtomicBool>>,
    ) -> Store<Self> {
        let guest = Self {
            clock: Clock::new(Duration::from_millis(limits.deadline_ms), stop),
            peak,
            memory: Budget {
                used: 0,
                limit: limits.memory_bytes,
            },
            table: Budget {
                used: 0,
                limit: limits.table_elements,
            },
            log,
            folders,
            file_bytes: limits.result_bytes,
            run: RunLength::NONE,
        };
        let mut store = Store::new(&runtime.engine, guest);
        store.limiter(|guest| guest);
        store.set_max_component_handles(limits.handles);
        store.set_epoch_deadline(1);
        store.epoch_deadline_callback(|mut store| store.data_mut().clock.tick());
        store
    }
}

impl ResourceLimiter for Guest {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false); // its own bound: fails by itself, and must not count
        }
        let limit = self.memory.limit;
        match self.memory.grow(current, desired) {
            Ok(()) => {
                self.peak.fetch_max(self.memory.used, Ordering::Relaxed);
                Ok(true)
            }
            Err(asked) => Err(Denied::Memory { asked, limit }.into()),
        }
    }

    fn table_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false);
        }
        let limit = self.table.limit;
        match self.table.grow(current, desired) {
            Ok(()) => Ok(true),
            Err(asked) => Err(Denied::Table { asked, limit }.into()),
        }
    }

    fn instances(&self) -> usize {
        INSTANCES
    }

    fn tables(&self) -> usize {
        TABLES
    }

    fn memories(&self) -> usize {
        MEMORIES
    }
}

impl wit_types::Host for Guest {}

impl wit_files::Host for Guest {
    fn read(&mut self, path: String) -> Result<Vec<u8>, String> {
        self.folders.read(&path, self.file_bytes)
    }

    fn list(&mut self, path: String) -> Result<Vec<wit_files::Entry>, String> {
        let entries = self.folders.list(&path)?;
        Ok(entries
            .into_iter()
            .map(|entry| wit_files::Entry {
                name: entry.name,
                folder: entry.folder,
                bytes: entry.bytes,
            })
            .collect())
    }
}

impl wit_run::Host for Guest {
    fn length(&mut self) -> wit_run::RunLength {
        let RunLength {
            epochs,
            edges_per_epoch,
            batches,
        } = self.run;
        wit_run::RunLength {
            epochs,
            edges_per_epoch,
            batches,
        }
    }
}

impl wit_log::Host for Guest {
    fn write(&mut self, level: wit_log::Level, message: String) {
        let level = match level {
            wit_log::Level::Debug => LogLevel::Debug,
            wit_log::Level::Info => LogLevel::Info,
            wit_log::Level::Warn => LogLevel::Warn,
            wit_log::Level::Error => LogLevel::Error,
        };
        self.log.write(level, &message);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(1);

    #[test]
    fn a_process_that_stood_still_costs_a_call_nothing() {
        let (day, ms) = (Duration::from_secs(86_400), Duration::from_millis);
        let mut clock = Clock::new(LIMIT, None);
        // Before the first tick, and between two others.
        assert!(!clock.is_over(day, ms(3)));
        assert!(!clock.is_over(TICK, ms(13)));
        assert!(!clock.is_over(day, ms(23)));
        assert!(clock.is_over(TICK, ms(1023)), "it has used its limit");
    }

    #[test]
    fn a_call_ends_by_its_processor_time_or_where_it_waits_too_long() {
        let mut clock = Clock::new(LIMIT, None);
        let ticks = |clock: &mut Clock, used: Duration| {
            clock.begin();
            (0..5000).find(|tick| clock.is_over(TICK, used * *tick))
        };
        assert_eq!(ticks(&mut clock, TICK), Some(99));
        assert_eq!(ticks(&mut clock, TICK / 2), Some(198));
        assert_eq!(ticks(&mut clock, Duration::ZERO), Some(999));
    }
}
