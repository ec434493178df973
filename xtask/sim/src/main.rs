//! Simulates the runs of a range of seeds.

#![expect(
    clippy::print_stdout,
    reason = "a terminal program prints its messages"
)]

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Parser;
use pbg_sim::{SimFault, SimOptions, SimOutcome, SimTotals, simulate};
use serde::Deserialize as _;
use serde::de::IntoDeserializer as _;
use serde::de::value::Error as NameError;

use rustix::thread::{CpuSet, sched_getcpu, sched_setaffinity};

mod hours;
mod mutations;
mod programs;
mod shrink;

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
    /// Build mutated copies of the program, and count the seeds until each fault is found. TEXT selects those whose name
    /// contains it.
    #[arg(long, value_name = "TEXT", num_args = 0..=1, default_missing_value = "", conflicts_with_all = ["count", "hours"])]
    mutations: Option<String>,
    /// Kinds of faults that are not injected.
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = parse_fault)]
    without: Vec<SimFault>,
    /// End the disturbances after this much virtual time, in seconds.
    #[arg(long, value_name = "SECONDS")]
    disturbed: Option<f64>,
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

fn parse_fault(name: &str) -> Result<SimFault, NameError> {
    SimFault::deserialize(name.into_deserializer())
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
    if let Some(text) = &args.mutations {
        return Ok(exit_code(mutations::find_all(text, &args.folder)?));
    }
    stay_on_one_core();
    let place = tempfile::Builder::new()
        .prefix("pbg-sim-")
        .tempdir_in(&args.folder);
    let place = place.with_context(|| format!("cannot write to {}", args.folder.display()))?;
    let datasets = place.path().join("datasets");
    std::fs::create_dir(&datasets)?;
    pbg_sim::import_datasets(&datasets)?;
    let (mut failed, mut totals) = (0_u64, SimTotals::default());
    for seed in args.seed..args.seed.saturating_add(args.count) {
        let shrinks = failed == 0 && !args.verbose;
        let (holds, outcome) = check_seed(seed, &args, shrinks, &datasets)?;
        failed += u64::from(!holds);
        totals.add(&outcome.totals);
    }
    match args.json {
        true => println!("{}", serde_json::to_string(&(failed, &totals))?),
        false => println!("{} seeds, {failed} with a violation; {totals}", args.count),
    }
    Ok(exit_code(failed == 0))
}

fn exit_code(holds: bool) -> ExitCode {
    match holds {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    }
}

/// Simulates a seed, and prints what is violated and how to see it, in a simpler run if it `shrinks` the run. Returns
/// whether everything held, and the outcome.
fn check_seed(
    seed: u64,
    args: &Args,
    shrinks: bool,
    datasets: &Path,
) -> Result<(bool, SimOutcome)> {
    let disturbed = args.disturbed.map(Duration::try_from_secs_f64);
    let options = SimOptions {
        seed,
        without: BTreeSet::from_iter(args.without.iter().copied()),
        disturbed: disturbed.transpose().context("--disturbed")?,
        datasets: datasets.to_owned(),
        narrator: match args.verbose {
            true => |time: Duration, what: &str| println!("{:10.3} {what}", time.as_secs_f64()),
            false => |_: Duration, _: &str| (),
        },
    };
    let outcome = run(&options)?;
    let again = args.twice.then(|| run(&options)).transpose()?;
    let differs = again.is_some_and(|again| again.digest != outcome.digest);
    if differs {
        println!("seed {seed}: two runs of it differ");
    }
    if let Some(violation) = &outcome.violation {
        print!("seed {seed}: {violation}");
        println!("  see what happens: {}", shrink::command(&options));
        if shrinks {
            let smallest = shrink::shrink(&options, &outcome, run)?;
            println!("  or in a simpler run: {}", shrink::command(&smallest));
        }
    }
    Ok((!differs && outcome.violation.is_none(), outcome))
}

fn run(options: &SimOptions) -> Result<SimOutcome> {
    let folder = tempfile::tempdir_in(&options.datasets)?;
    simulate(options, folder.path())
}

/// Keeps all threads on the current core. Only one runs at a time, and passing the turn to another core takes longer.
fn stay_on_one_core() {
    let mut cores = CpuSet::new();
    cores.set(sched_getcpu());
    // Without it, the simulation is only slower.
    let _slower = sched_setaffinity(None, &cores);
}
