//! Simulates the runs of a range of seeds.

#![expect(
    clippy::print_stdout,
    reason = "a terminal program prints its messages"
)]

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Parser;
use pbg_sim::{SimOutcome, simulate};

use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};

mod hours;

/// Simulate distributed runs with faults drawn by seeds, and check what must hold.
#[derive(Debug, Parser)]
#[command(name = "xtask-sim")]
struct Args {
    /// First seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Number of seeds.
    #[arg(long, default_value_t = 1)]
    count: u64,
    /// Simulate seeds on all cores for this many hours instead.
    #[arg(long, value_name = "N", conflicts_with = "count")]
    hours: Option<f64>,
    /// Print the totals as JSON.
    #[arg(long)]
    json: bool,
    /// Simulate every seed twice, and compare the two runs.
    #[arg(long)]
    twice: bool,
    /// Print what happens.
    #[arg(long, short)]
    verbose: bool,
    /// Folder for temporary files; one in memory is fastest.
    #[arg(long, value_name = "FOLDER", default_value = "/dev/shm")]
    folder: PathBuf,
}

fn main() -> Result<ExitCode> {
    let args = Args::parse();
    if let Some(hours) = args.hours {
        let time = Duration::try_from_secs_f64(3600.0 * hours).context("--hours")?;
        return Ok(exit_code(hours::simulate_for(
            time,
            args.seed,
            &args.folder,
        )?));
    }
    stay_on_one_core();
    let place = tempfile::Builder::new()
        .prefix("pbg-sim-")
        .tempdir_in(&args.folder);
    let place = place.with_context(|| format!("cannot write to {}", args.folder.display()))?;
    let datasets = place.path().join("datasets");
    std::fs::create_dir(&datasets)?;
    pbg_sim::import_datasets(&datasets)?;
    let (mut failed, mut sum) = (0_u64, SimOutcome::default());
    for seed in args.seed..args.seed.saturating_add(args.count) {
        let outcome = run(seed, &args, &datasets)?;
        let again = args
            .twice
            .then(|| run(seed, &args, &datasets))
            .transpose()?;
        let differs = again.is_some_and(|again| again.digest != outcome.digest);
        if let Some(violation) = &outcome.violation {
            print!("seed {seed}: {violation}");
        }
        if differs {
            println!("seed {seed}: two runs of it differ");
        }
        if differs || outcome.violation.is_some() {
            failed += 1;
            println!(
                "  see what happens with: cargo run --release -p xtask-sim -- --seed {seed} --verbose"
            );
        }
        sum.add(&outcome);
    }
    match args.json {
        true => println!("{}", serde_json::to_string(&(failed, &sum))?),
        false => println!("{} seeds, {failed} with a violation; {sum}", args.count),
    }
    Ok(exit_code(failed == 0))
}

fn exit_code(holds: bool) -> ExitCode {
    match holds {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

fn run(seed: u64, args: &Args, datasets: &Path) -> Result<SimOutcome> {
    let narrate = |time: Duration, what: &str| println!("{:10.3} {what}", time.as_secs_f64());
    let narrator = if args.verbose {
        narrate
    } else {
        |_: Duration, _: &str| ()
    };
    let folder = tempfile::tempdir_in(datasets)?;
    simulate(seed, datasets, folder.path(), narrator)
}

/// Keeps all threads on the current core. Only one runs at a time, and passing the turn to another core takes longer.
fn stay_on_one_core() {
    let mut cores = CpuSet::new();
    cores.set(sched_getcpu());
    // Without it, the simulation is only slower.
    let _slower = sched_setaffinity(None, &cores);
}
