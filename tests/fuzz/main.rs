//! Every reader, with input that is nearly right: it takes it or says what is wrong, and never panics, runs on
//! for ever, or takes memory that is out of proportion.
//!
//! Without more, each target reads a fixed number of inputs. `cargo xtask fuzz --minutes N` sets
//! `PBG_TEST_MINUTES`, and each goes on for so long with others. An input that fails is left in the build folder
//! under `tmp/fuzz`, and `PBG_FUZZ=SEED` makes the inputs of that seed alone.

#![expect(clippy::unwrap_used, reason = "a test whose own files fail has failed")]
#![expect(clippy::print_stderr, reason = "tests say which input failed")]

mod checkpoints;
mod components;
mod configuration;
mod datasets;
mod forge;
mod imports;
mod indexes;
mod losses;
mod replays;

use std::alloc::System;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use pbg_fuzz::Dice;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// One input at a time: what is allocated is then allocated for it.
static ONE: Mutex<()> = Mutex::new(());
/// When the input that is being read was begun, in seconds since the process looked first; 0: there is none.
static BEGUN: AtomicU64 = AtomicU64::new(0);

/// Inputs that a reader once failed at, by target and seed.
const FOUND: [(&str, u64); 1] = [
    // A column of a Parquet file that begins before the file does.
    ("parquet_edges", 120_001_386_251_880),
];

/// What no input takes, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(120);

/// Makes inputs and reads them: `cases` of them, or as many as the time allows. `memory` is what a reader may
/// allocate in all for one of them. `target` says whether it took the input.
fn fuzz(name: &str, cases: u64, memory: usize, target: impl Fn(&mut Dice, &Path) -> bool) {
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
    // Others than those of the test command.
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
        // A process that is ended leaves this behind.
        fs::write(&note, format!("{name}: PBG_FUZZ={seed}\n")).unwrap();
        taken += u64::from(one(name, seed, memory, &target));
        seed += 1;
    }
    fs::remove_file(&note).unwrap();
    eprintln!("{name}: {} inputs, {taken} of them taken", seed - first);
    // Where nothing is taken, nothing behind the first check was tried.
    assert!(
        taken > 0 || only.is_some(),
        "{name}: every input is refused"
    );
}

fn one(name: &str, seed: u64, memory: usize, target: &impl Fn(&mut Dice, &Path) -> bool) -> bool {
    let place = tempfile::tempdir().unwrap();
    let turn = ONE
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner);
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

/// Ends the process when an input takes too long: nothing else could.
fn watch() {
    static WATCH: std::sync::Once = std::sync::Once::new();
    WATCH.call_once(|| {
        now();
        std::thread::spawn(|| {
            loop {
                std::thread::sleep(Duration::from_secs(1));
                let begun = BEGUN.load(Ordering::Relaxed);
                if begun > 0 && now() - begun > PATIENCE.as_secs() {
                    eprintln!("an input takes for ever: the build folder's tmp/fuzz says which");
                    std::process::abort();
                }
            }
        });
    });
}
