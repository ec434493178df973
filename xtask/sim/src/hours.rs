//! Simulates seeds on all cores for a given time.

use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use anyhow::Result;
use pbg_core::lock::lock;
use pbg_sim::SimTotals;

use crate::programs::{SEEDS, simulate_some};

/// Totals of all seeds.
#[derive(Default)]
struct Totals {
    seeds: u64,
    failed: u64,
    sum: SimTotals,
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
    let has_failed = AtomicBool::new(false);
    let work = || -> Result<()> {
        while pbg_clock::elapsed(started) < time && !has_failed.load(Ordering::Relaxed) {
            let seed = next.fetch_add(SEEDS, Ordering::Relaxed);
            let simulated = simulate_some(None, seed, folder)
                .inspect_err(|_| has_failed.store(true, Ordering::Relaxed))?;
            let mut totals = lock(&totals);
            totals.seeds += SEEDS;
            totals.failed += simulated.failed;
            totals.sum.add(&simulated.totals);
            simulated.lines.iter().for_each(|line| println!("{line}"));
            println!(
                "{} seeds, {} with a violation; {}",
                totals.seeds, totals.failed, totals.sum
            );
        }
        Ok(())
    };
    let ended = thread::scope(|scope| {
        let workers: Vec<_> = (0..cores).map(|_| scope.spawn(work)).collect();
        let ended = workers.into_iter().map(|worker| {
            worker
                .join()
                .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        ended.collect::<Result<()>>()
    });
    let totals = lock(&totals);
    print!("{}", totals.sum.table());
    ended.map(|()| totals.failed == 0)
}
