//! Fuzzing of every reader with nearly valid input: it accepts the input or says what is wrong, and never panics, runs
//! forever, or allocates a disproportionate amount of memory.
//!
//! By default each target reads a fixed number of inputs. `cargo xtask fuzz --minutes N` sets `PBG_TEST_MINUTES`, and
//! each target continues for that long with other inputs. An input that fails remains in the build folder under
//! `tmp/fuzz`, and `PBG_FUZZ=SEED` generates only the inputs of that seed.

#![expect(
    clippy::disallowed_methods,
    reason = "tests wait for programs and threads"
)]
#![expect(clippy::unwrap_used, reason = "a test whose own files fail has failed")]
#![expect(clippy::print_stderr, reason = "tests say which input failed")]

mod checkpoints;
mod components;
mod configuration;
mod datasets;
mod events;
mod exchanges;
mod forge;
mod heartbeats;
mod imports;
mod indexes;
mod ledgers;
mod losses;
mod partition_servers;
mod registries;
mod replays;
mod servers;

use std::alloc::System;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pbg_fuzz::Dice;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Lock that lets one input be read at a time, so that all allocations belong to it.
static ONE: Mutex<()> = Mutex::new(());

/// Waits until no input is read, and returns what keeps it so: a target prepares its files and servers meanwhile.
fn turn() -> MutexGuard<'static, ()> {
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}
/// Start of reading the current input, in seconds since the process started its clock; 0: there is none.
static BEGUN: AtomicU64 = AtomicU64::new(0);

/// Inputs that a reader has failed at, by target and seed.
const FOUND: [(&str, u64); 1] = [
    // A column of a Parquet file that begins before the file does.
    ("parquet_edges", 120_001_386_251_880),
];

/// Longest time for one input, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(120);

/// Generates inputs and reads them: `cases` inputs, or as many as fit the time. `memory` is the number of bytes that a
/// reader may allocate in total for one input. `target` returns whether it accepted the input. `prepared` is the turn
/// in which what it needs was prepared.
fn fuzz(
    prepared: MutexGuard<'static, ()>,
    name: &str,
    cases: u64,
    memory: usize,
    target: impl Fn(&mut Dice, &Path) -> bool,
) {
    drop(prepared);
    watch();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fuzz");
    fs::create_dir_all(&folder).unwrap();
    let note = folder.join(name);
    let only: Option<u64> = std::env::var("PBG_FUZZ")
        .ok()
        .map(|seed| seed.parse().unwrap());
    let minutes: Option<u64> = std::env::var("PBG_TEST_MINUTES")
        .ok()
        .map(|m| m.parse().unwrap());
    let end = minutes.map(|minutes| Instant::now() + Duration::from_secs(60 * minutes));
    // Other inputs than those of the test command.
    let first = only.unwrap_or_else(|| minutes.map_or(0, |_| std::process::id().into()) << 32);
    let (mut seed, mut taken) = (first, 0_u64);
    if only.is_none() {
        let found = FOUND.iter().filter(|(target, _)| *target == name);
        found.for_each(|&(_, seed)| {
            one(name, seed, memory, &target);
        });
    }
    loop {
        let more = match (only, end) {
            (Some(only), _) => seed == only,
            (None, Some(end)) => Instant::now() < end,
            (None, None) => seed < first + cases,
        };
        if !more {
            break;
        }
        // If the process ends, this file remains and names the input.
        fs::write(&note, format!("{name}: PBG_FUZZ={seed}\n")).unwrap();
        taken += u64::from(one(name, seed, memory, &target));
        seed += 1;
    }
    fs::remove_file(&note).unwrap();
    eprintln!("{name}: {} inputs, {taken} of them taken", seed - first);
    // If every input is refused, nothing behind the first check was tested.
    assert!(
        taken > 0 || only.is_some(),
        "{name}: every input is refused"
    );
}

fn one(name: &str, seed: u64, memory: usize, target: &impl Fn(&mut Dice, &Path) -> bool) -> bool {
    let place = tempfile::tempdir().unwrap();
    let turn = turn();
    BEGUN.store(now().max(1), Ordering::Relaxed);
    let region = Region::new(ALLOCATOR);
    let run = || target(&mut Dice::new(seed), place.path());
    let outcome = catch_unwind(AssertUnwindSafe(run));
    let allocated = region.change().bytes_allocated;
    BEGUN.store(0, Ordering::Relaxed);
    drop(turn);
    match outcome {
        Ok(taken) if allocated <= memory => taken,
        Ok(_) => panic!("{name}: PBG_FUZZ={seed} allocated {allocated} bytes, of {memory}"),
        Err(_) => panic!("{name}: PBG_FUZZ={seed} panicked"),
    }
}

fn now() -> u64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_secs()
}

/// Aborts the process when an input takes too long, since a thread cannot be stopped.
fn watch() {
    static WATCH: std::sync::Once = std::sync::Once::new();
    WATCH.call_once(|| {
        now();
        std::thread::spawn(|| {
            loop {
                std::thread::sleep(Duration::from_secs(1));
                let begun = BEGUN.load(Ordering::Relaxed);
                if begun > 0 && now() - begun > PATIENCE.as_secs() {
                    eprintln!(
                        "an input takes too long: its seed is in the build folder's tmp/fuzz"
                    );
                    std::process::abort();
                }
            }
        });
    });
}
