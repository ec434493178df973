//! The compiler and the clock that all plugins of a sandbox share.

use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::process::{Resource, getrlimit};
use wasmtime::{Config, Engine, OptLevel};

use crate::limits::Limits;

/// How often the clock ticks: the grain of every deadline.
const TICK_MS: u64 = 10;

/// An engine whose epoch a thread of its own advances; the thread ends with it.
pub(crate) struct Runtime {
    pub(crate) engine: Engine,
    /// Dropping the sender tells the thread to end.
    stop: Option<Sender<()>>,
    ticker: Option<JoinHandle<()>>,
}

impl Runtime {
    pub(crate) fn new(limits: &Limits) -> wasmtime::Result<Self> {
        let engine = Engine::new(&config(limits))?;
        let (stop, stopped) = channel();
        let clock = engine.clone();
        let tick = Duration::from_millis(TICK_MS);
        let ticker = thread::Builder::new()
            .name("plugin-clock".to_owned())
            .spawn(move || {
                while stopped.recv_timeout(tick) == Err(RecvTimeoutError::Timeout) {
                    clock.increment_epoch();
                }
            })?;
        Ok(Self {
            engine,
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

/// Ticks that a call of `milliseconds` may last: one more, since the first may be about to end.
pub(crate) fn ticks(milliseconds: u64) -> u64 {
    milliseconds.div_ceil(TICK_MS).saturating_add(1)
}

fn config(limits: &Limits) -> Config {
    let mut config = Config::new();
    config
        .wasm_component_model(true)
        .epoch_interruption(true)
        .max_wasm_stack(limits.stack_bytes)
        // Reserved, not used: addresses beyond the memory fault by themselves, so that the
        // compiled code needs no bounds checks.
        .memory_reservation(4 << 30)
        .memory_guard_size(32 << 20)
        // A copy-on-write image is a file in memory: where this process may write small files
        // only, filling it would end the process with a signal.
        .memory_init_cow(getrlimit(Resource::Fsize).current.is_none())
        // Guests come optimised by their own compiler: doing it again makes loading one fifth
        // longer and calls one twentieth shorter.
        .cranelift_opt_level(OptLevel::None)
        // Relaxed SIMD rounds differently from machine to machine.
        .wasm_relaxed_simd(false)
        .wasm_memory64(false)
        .wasm_multi_memory(false)
        .wasm_tail_call(false);
    config
}
