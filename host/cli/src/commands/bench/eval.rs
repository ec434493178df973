//! `pbg-host bench eval`.

use std::io::{self, Write};

use pbg_bench::EvalBenchReport;
use pbg_query::{CandidateSet, EvalOptions};

use super::libtorch;
use crate::failure::Result;
use crate::options::TrainedArgs;
use crate::terminal::{self, Terminal};
use crate::{format, load};

/// Measure how fast the edges of an edge set are ranked among all entities, with an existing checkpoint.
///
/// The speed is compared with a ceiling: the speed if ranking consisted only of the matrix products that score
/// candidates. They are computed by libtorch with the same dimension, in the same run.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host bench eval pbg.toml
  pbg-host bench eval pbg.toml --edges valid --filter train,valid --limit 1000 --json")]
pub(crate) struct Args {
    /// Model to evaluate.
    #[command(flatten)]
    model: TrainedArgs,
    /// Edge set to rank.
    #[arg(long, value_name = "NAME", default_value = "test")]
    edges: String,
    /// Edge sets whose edges do not count as negatives, separated by commas.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    filter: Vec<String>,
    /// Rank only a random sample of this many edges.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Number of threads [default: one per core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    threads: Option<u32>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// When the edge set or the checkpoint does not exist, or cannot be read.
pub(crate) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    libtorch::load_for_comparison()?;
    let resolved = load::trained(&args.model, terminal)?;
    let options = EvalOptions {
        edges: args.edges.clone(),
        filter: args.filter.clone(),
        candidates: CandidateSet::All,
        threads: args.threads.map(|n| n as usize),
        limit: args.limit.map(|n| n as usize),
        by: None,
        seen: false,
    };
    let speed = pbg_bench::eval(&resolved, &options, &mut |_, _| ())?;
    terminal::print_result(args.json, &speed, |out| print_speed(out, &speed))
}

fn print_speed(out: &mut dyn Write, speed: &EvalBenchReport) -> io::Result<()> {
    writeln!(
        out,
        "{} scores per CPU-second, {:.0} % of the {} that the matrix products alone would allow",
        format::count(speed.scores_per_cpu_second),
        100.0 * speed.scores_per_cpu_second / speed.ceiling,
        format::count(speed.ceiling),
    )?;
    writeln!(
        out,
        "both sides of {} edges ranked in {} ({} scores, {:.1} CPU-seconds), including reading the model and the edges",
        format::count(speed.report.raw.count as f64),
        format::seconds(speed.wall_seconds),
        format::count(speed.scores),
        speed.cpu_seconds,
    )?;
    match speed.peak_bytes {
        Some(peak) => writeln!(out, "peak memory {}", format::bytes(peak)),
        None => Ok(()),
    }
}
