//! Programs that simulate some seeds each: the threads of killed processes stay until a program ends.

use std::env;
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use pbg_sim::SimTotals;

/// Number of seeds of a program.
pub(crate) const SEEDS: u64 = 50;

/// Longest time for which a program may run. It usually takes less than a minute; one that takes longer stands still.
const LONGEST: Duration = Duration::from_secs(900);

/// Result of a program.
pub(crate) struct SimulatedSeeds {
    /// What it printed about violations, a line each.
    pub(crate) lines: Vec<String>,
    /// Number of seeds that violate something.
    pub(crate) failed: u64,
    pub(crate) totals: SimTotals,
}

/// Simulates the seeds from `seed` in a program of its own: `program`, or this one.
///
/// # Errors
/// When the program cannot be started, stands still, or fails.
pub(crate) fn simulate_some(
    program: Option<&Path>,
    seed: u64,
    folder: &Path,
) -> Result<SimulatedSeeds> {
    let program = program.map_or_else(env::current_exe, |program| Ok(program.to_owned()))?;
    let (seed, count) = (seed.to_string(), SEEDS.to_string());
    let mut command = Command::new(program);
    command.args(["--seed", &seed, "--count", &count, "--json", "--folder"]);
    let mut child = command.arg(folder).stdout(Stdio::piped()).spawn()?;
    let mut output = child.stdout.take().context("no output")?;
    let (text, stands_still) = thread::scope(|scope| {
        let reads = scope.spawn(move || {
            let mut text = String::new();
            output.read_to_string(&mut text).map(|_| text)
        });
        let (started, mut stands_still) = (pbg_clock::now(), false);
        while child.try_wait()?.is_none() {
            if pbg_clock::elapsed(started) > LONGEST {
                child.kill()?;
                stands_still = true;
            }
            pbg_clock::sleep(Duration::from_millis(50));
        }
        let text = reads
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        anyhow::Ok((text?, stands_still))
    })?;
    if stands_still {
        bail!("{text}the seeds from {seed} stand still");
    }
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    let last = lines.pop().unwrap_or_default();
    let ended = serde_json::from_str(&last);
    let (failed, totals) =
        ended.with_context(|| format!("{text}\nthe seeds from {seed} ended early"))?;
    Ok(SimulatedSeeds {
        lines,
        failed,
        totals,
    })
}
