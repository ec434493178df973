//! Data of a store, next to the instance: limits, clock, log and folders.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pbg_core::event::LogLevel;
use pbg_core::strategy::RunLength;
use rustix::time::{ClockId, clock_gettime};
use wasmtime::{ResourceLimiter, Store, UpdateDeadline};

use crate::bindings::{files as wit_files, log as wit_log, run as wit_run, types as wit_types};
use crate::engine::{SandboxEngine, TICK};
use crate::grants::GrantedFolders;
use crate::limits::Limits;
use crate::log::InstanceLog;

/// Largest numbers of memories, tables and core instances of one component. Guests of `componentize-py` link a dozen
/// modules; nothing needs hundreds.
pub(crate) const MEMORIES: usize = 8;
pub(crate) const TABLES: usize = 32;
pub(crate) const INSTANCES: usize = 128;

/// Growth that exceeds a limit. It traps, so that the message names the cause and not what the guest did without the
/// memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LimitExceeded {
    #[error("asked for {asked} bytes of memory, its limit is {limit}")]
    Memory { asked: usize, limit: usize },
    #[error("asked for {asked} table entries, its limit is {limit}")]
    Table { asked: usize, limit: usize },
}

/// The user interrupted the run while the plugin was running.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("was interrupted")]
pub(crate) struct Interrupted;

/// Time for which a call may continue after an interruption, so that the current bucket can be finished. Its calls are
/// short.
const GRACE: Duration = Duration::from_millis(300);

/// Factor by which a call's wall-clock time may exceed its limit of processor time, for busy processors and slow
/// folders.
const WALL_CLOCK_FACTOR: u32 = 10;

/// Deadline of a call. It measures processor time, so that a busy machine does not stop a call. Reading that time is
/// slow compared with a short call, so it is read only at ticks. A process that is suspended (by a signal, or on a
/// machine that sleeps) has no ticks: the time between two ticks counts as the limit at most.
pub(crate) struct CallDeadline {
    limit: Duration,
    /// Start of the current call, or its last tick.
    last: Instant,
    /// Wall-clock time from the start of the current call to its last tick.
    elapsed: Duration,
    /// At the first tick of the current call: the processor time that the call is assumed to have used, and the
    /// processor time of its thread.
    used_before: Option<(Duration, Duration)>,
    /// Set when the user interrupts the run.
    stop: Option<Arc<AtomicBool>>,
    /// Time at which the current call first noticed the interruption.
    asked: Option<Instant>,
}

impl CallDeadline {
    fn new(limit: Duration, stop: Option<Arc<AtomicBool>>) -> Self {
        Self {
            limit,
            last: pbg_clock::now(),
            elapsed: Duration::ZERO,
            used_before: None,
            stop,
            asked: None,
        }
    }

    /// Begins a call.
    pub(crate) fn begin(&mut self) {
        self.last = pbg_clock::now();
        self.elapsed = Duration::ZERO;
        self.used_before = None;
        self.asked = None;
    }

    /// Decides at a tick, on the call's thread, whether the call may continue.
    fn tick(&mut self) -> wasmtime::Result<UpdateDeadline> {
        let now = pbg_clock::now();
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

    /// Returns whether a call has used up its time, at a tick `since` after the last one (or after the call's start),
    /// when its thread has used `of_thread` of processor time.
    fn is_over(&mut self, since: Duration, of_thread: Duration) -> bool {
        self.elapsed += since.min(self.limit);
        let first = (since.min(TICK), of_thread);
        let (before, at_first) = *self.used_before.get_or_insert(first);
        let used = before + of_thread.saturating_sub(at_first);
        used >= self.limit || self.elapsed >= self.limit * WALL_CLOCK_FACTOR
    }
}

/// Returns the processor time of this thread.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(
        time.tv_sec.unsigned_abs(),
        time.tv_nsec.unsigned_abs() as u32,
    )
}

/// Data of a store.
pub(crate) struct StoreData {
    pub(crate) clock: CallDeadline,
    memory: Budget,
    /// Largest amount of memory (bytes) of any instance of the program.
    peak: Arc<AtomicUsize>,
    table: Budget,
    pub(crate) log: InstanceLog,
    folders: Arc<GrantedFolders>,
    file_bytes: usize,
    /// Length of the run, as far as the current call may see it.
    pub(crate) run: RunLength,
}

/// Total of all memories, or of all tables, and its limit.
struct Budget {
    used: usize,
    limit: usize,
}

impl Budget {
    /// Grants the growth, or returns the total that was requested.
    fn grow(&mut self, current: usize, desired: usize) -> Result<(), usize> {
        let total = self.used.saturating_add(desired.saturating_sub(current));
        if total > self.limit {
            return Err(total);
        }
        self.used = total;
        Ok(())
    }
}

impl StoreData {
    /// Creates a store with every limit set. The limiter must be set before the instance is created: the numbers of
    /// memories, tables and instances are read once, when it is set.
    pub(crate) fn store(
        runtime: &SandboxEngine,
        limits: &Limits,
        log: InstanceLog,
        folders: Arc<GrantedFolders>,
        peak: Arc<AtomicUsize>,
        stop: Option<Arc<AtomicBool>>,
    ) -> Store<Self> {
        let guest = Self {
            clock: CallDeadline::new(Duration::from_millis(limits.deadline_ms), stop),
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

impl ResourceLimiter for StoreData {
    fn memory_growing(
        &mut self,
        current: usize,
        desired: usize,
        maximum: Option<usize>,
    ) -> wasmtime::Result<bool> {
        if maximum.is_some_and(|maximum| desired > maximum) {
            return Ok(false); // beyond the memory's own maximum: fails by itself, and must not be counted
        }
        let limit = self.memory.limit;
        match self.memory.grow(current, desired) {
            Ok(()) => {
                self.peak.fetch_max(self.memory.used, Ordering::Relaxed);
                Ok(true)
            }
            Err(asked) => Err(LimitExceeded::Memory { asked, limit }.into()),
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
            Err(asked) => Err(LimitExceeded::Table { asked, limit }.into()),
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

impl wit_types::Host for StoreData {}

impl wit_files::Host for StoreData {
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

impl wit_run::Host for StoreData {
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

impl wit_log::Host for StoreData {
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
        let mut clock = CallDeadline::new(LIMIT, None);
        // Before the first tick, and between two later ones.
        assert!(!clock.is_over(day, ms(3)));
        assert!(!clock.is_over(TICK, ms(13)));
        assert!(!clock.is_over(day, ms(23)));
        assert!(clock.is_over(TICK, ms(1023)), "it has used its limit");
    }

    #[test]
    fn a_call_ends_by_its_processor_time_or_where_it_waits_too_long() {
        let mut clock = CallDeadline::new(LIMIT, None);
        let ticks = |clock: &mut CallDeadline, used: Duration| {
            clock.begin();
            (0..5000).find(|tick| clock.is_over(TICK, used * *tick))
        };
        assert_eq!(ticks(&mut clock, TICK), Some(99));
        assert_eq!(ticks(&mut clock, TICK / 2), Some(198));
        assert_eq!(ticks(&mut clock, Duration::ZERO), Some(999));
    }
}
