//! Simulates seeds on all cores for a given time, in programs of a few seeds each: the threads of killed processes stay
//! until the program ends.

use std::env;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use pbg_core::lock::lock;
use pbg_sim::SimOutcome;

/// Number of seeds of a program.
const SEEDS: u64 = 50;

/// Totals of all seeds.
#[derive(Default)]
struct Totals {
    seeds: u64,
    failed: u64,
    sum: SimOutcome,
}

/// Simulates seeds from `first` for `time`. Returns whether nothing was violated.
///
/// # Errors
/// When a program cannot be started, or fails.
pub(crate) fn simulate_for(time: Duration, first: u64, folder: &Path) -> Result<bool> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    let (started, next, totals) = (
        pbg_clock::now(),
        AtomicU64::new(first),
        Mutex::<Totals>::default(),
    );
    let work = || -> Result<()> {
        while pbg_clock::elapsed(started) < time {
            let seed = next.fetch_add(SEEDS, Ordering::Relaxed);
            let (failed, sum) = simulate_some(seed, folder)?;
            let mut totals = lock(&totals);
            totals.seeds += SEEDS;
            totals.failed += failed;
            totals.sum.add(&sum);
            println!(
                "{} seeds, {} with a violation; {}",
                totals.seeds, totals.failed, totals.sum
            );
        }
        Ok(())
    };
    thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        let ended = workers.into_iter().map(|worker| {
            worker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        ended.collect::<Result<()>>()
    })?;
    Ok(lock(&totals).failed == 0)
}

/// Simulates some seeds in another program. Returns how many violate something, and the sum of all.
fn simulate_some(seed: u64, folder: &Path) -> Result<(u64, SimOutcome)> {
    let mut command = Command::new(env::current_exe()?);
    let (seed, count) = (seed.to_string(), SEEDS.to_string());
    command.args(["--seed", &seed, "--count", &count, "--json", "--folder"]);
    let output = command.arg(folder).stderr(Stdio::inherit()).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let mut lines: Vec<&str> = text.lines().collect();
    let last = lines.pop().unwrap_or_default();
    lines.iter().for_each(|line| println!("{line}"));
    serde_json::from_str(last).with_context(|| format!("the seeds from {seed} ended early"))
}
