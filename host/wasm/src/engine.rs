//! The compiler and the clock that all plugins of a sandbox share.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use serde::{Deserialize, Serialize};
use wasmtime::{Config, Engine, OptLevel};

use crate::limits::Limits;

/// How often the clock ticks: the grain of every deadline.
pub(crate) const TICK: Duration = Duration::from_millis(10);

/// What decides how code is compiled, besides the code: the same for the process that compiles
/// and the one that runs it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Settings {
    stack_bytes: usize,
    /// Whether the first content of a memory is a file in memory that is mapped.
    images: bool,
    /// Whether as many addresses are reserved for a memory as it could ever have.
    reserves: bool,
}

impl Settings {
    /// What suits this process.
    fn of_here(limits: &Limits) -> Self {
        Self {
            stack_bytes: limits.stack_bytes,
            // Where this process may write small files only, filling a file in memory would end
            // the process with a signal.
            images: getrlimit(Resource::Fsize).current.is_none(),
            // Where addresses are limited (`ulimit -v`), they are for what is used.
            reserves: getrlimit(Resource::As).current.is_none(),
        }
    }
}

/// An engine whose epoch a thread of its own advances; the thread ends with it.
pub(crate) struct Runtime {
    pub(crate) engine: Engine,
    pub(crate) settings: Settings,
    /// Dropping the sender tells the thread to end.
    stop: Option<Sender<()>>,
    ticker: Option<JoinHandle<()>>,
}

impl Runtime {
    pub(crate) fn new(limits: &Limits) -> wasmtime::Result<Self> {
        let settings = Settings::of_here(limits);
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

impl Drop for Runtime {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(ticker) = self.ticker.take() {
            // It cannot panic: it only waits and counts.
            let _ = ticker.join();
        }
    }
}

pub(crate) fn config(settings: &Settings) -> Config {
    let mut config = Config::new();
    // Reserved, not used: addresses beyond the memory fault by themselves, so that the compiled
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
        // Guests come optimised by their own compiler: doing it again makes loading one fifth
        // longer and calls one twentieth shorter.
        .cranelift_opt_level(OptLevel::None)
        // Relaxed SIMD rounds differently from machine to machine.
        .wasm_relaxed_simd(false)
        .wasm_memory64(false)
        // What a composed component passes from one part to the other, generated code copies between
        // the memories of both; the limits are on all of them together.
        .wasm_multi_memory(true)
        .wasm_tail_call(false);
    config
}
