//! Wasmtime engine and clock that all plugins of a sandbox share.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use serde::{Deserialize, Serialize};
use wasmtime::{Config, Engine, OptLevel};

use crate::limits::Limits;

/// Interval of the clock's ticks: the resolution of every deadline.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// Settings that the compiled code depends on: they are the same in the process that compiles and in the one that runs
/// the code.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct CodegenSettings {
    stack_bytes: usize,
    /// Whether the initial content of a linear memory is mapped from a file in memory.
    images: bool,
    /// Whether address space is reserved for the largest size that a linear memory can reach.
    reserves: bool,
}

impl CodegenSettings {
    /// Chooses the settings for this process.
    fn of_here(limits: &Limits) -> Self {
        Self {
            stack_bytes: limits.stack_bytes,
            // If the size of files is limited, filling a file in memory would end the process with a signal.
            images: getrlimit(Resource::Fsize).current.is_none(),
            // If address space is limited (`ulimit -v`), none is reserved beyond what is used.
            reserves: getrlimit(Resource::As).current.is_none(),
        }
    }
}

/// A wasmtime engine with a thread that advances its epoch. Dropping it ends the thread.
pub(crate) struct SandboxEngine {
    pub(crate) engine: Engine,
    pub(crate) settings: CodegenSettings,
    /// Dropping the sender tells the thread to end.
    stop: Option<Sender<()>>,
    ticker: Option<JoinHandle<()>>,
}

impl SandboxEngine {
    pub(crate) fn new(limits: &Limits) -> wasmtime::Result<Self> {
        let settings = CodegenSettings::of_here(limits);
        let engine = Engine::new(&config(&settings))?;
        let (stop, stopped) = channel();
        let clock = engine.clone();
        let ticker = thread::Builder::new()
            .name("plugin-clock".to_owned())
            .spawn(move || {
                while stopped.recv_timeout(TICK) == Err(RecvTimeoutError::Timeout) {
                    clock.increment_epoch();
                }
            })?;
        Ok(Self {
            engine,
            settings,
            stop: Some(stop),
            ticker: Some(ticker),
        })
    }
}

impl Drop for SandboxEngine {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(ticker) = self.ticker.take() {
            // The thread cannot panic: it only waits and counts.
            let _ = ticker.join();
        }
    }
}

pub(crate) fn config(settings: &CodegenSettings) -> Config {
    let mut config = Config::new();
    // The address space is reserved, not used: accesses beyond the memory fault by themselves, so that the compiled
    // code needs no bounds checks.
    let (reservation, guard, growth) = match settings.reserves {
        true => (4 << 30, 32 << 20, 2 << 30),
        false => (0, 64 << 10, 1 << 20),
    };
    config
        .wasm_component_model(true)
        .epoch_interruption(true)
        .max_wasm_stack(settings.stack_bytes)
        .memory_reservation(reservation)
        .memory_guard_size(guard)
        .memory_reservation_for_growth(growth)
        .memory_init_cow(settings.images)
        // Guests were optimised by their own compiler. Optimising again makes loading one fifth slower and calls only
        // one twentieth faster.
        .cranelift_opt_level(OptLevel::None)
        // Relaxed SIMD instructions round differently on different machines.
        .wasm_relaxed_simd(false)
        .wasm_memory64(false)
        // The parts of a composed component pass data through generated code that copies between their memories. The
        // limits cover all memories together.
        .wasm_multi_memory(true)
        .wasm_tail_call(false);
    config
}
