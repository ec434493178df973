//! `pbg-host bench scale-up`.

use std::io::{self, Write};
use std::time::Duration;

use indicatif::ProgressBar;
use pbg_config::Config;
use pbg_model::settings::cores;
use serde::Serialize;

use super::train;
use crate::failure::{Failure, Result};
use crate::kind::FailureKind;
use crate::options::ConfigArgs;
use crate::terminal::{self, Terminal};
use crate::{format, load, tables};

/// Measure how much faster training is with more workers.
///
/// Trains the configuration in a temporary folder with each number of workers in turn. Each speed is compared with that
/// of the first number, and with a ceiling: the speed if as many threads at once computed only the matrix products of
/// training, which share caches, memory and power as workers do. This measures waiting times, so it needs an idle
/// machine. The first run reads the edges from disk, later ones from memory: if it waited for files, measure again.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host bench scale-up pbg.toml
  pbg-host bench scale-up pbg.toml --workers 1,4,16 --epochs 3
  pbg-host bench scale-up pbg.toml --json > scale-up.json")]
pub(crate) struct Args {
    /// Arguments that name the configuration.
    #[command(flatten)]
    config: ConfigArgs,
    /// Use this plugin instead of the configured strategy of its kind, as for `train`; can be repeated.
    #[arg(long = "plugin", value_name = "FILE|NAME")]
    plugins: Vec<String>,
    /// Numbers of workers [default: 1, 2, 4 and so on, up to the number of cores].
    #[arg(long, value_name = "N,N,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=4096))]
    workers: Vec<u32>,
    /// Number of epochs to train with each number.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    epochs: u32,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Result of the measurement.
#[derive(Serialize)]
struct Report {
    /// Number of cores that this process may use.
    cores: usize,
    /// Number of edges trained with each number of workers.
    edges: u64,
    runs: Vec<Run>,
}

/// Speed with one number of workers.
#[derive(Serialize)]
struct Run {
    workers: u32,
    edges_per_second: f64,
    /// Speed divided by that of the first run.
    speed_up: f64,
    /// Speed per worker divided by that of the first run.
    efficiency: f64,
    /// Edges per second if as many threads at once computed only the matrix products; none if training has none in
    /// single precision.
    products_per_second: Option<f64>,
    /// Seconds for which training waited for files.
    waited_seconds: f64,
}

/// Runs the command.
///
/// # Errors
/// The failure that ended a run, and for training on a GPU.
pub(crate) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let config = load::without_formulas(&args.config, terminal)?;
    if config.execution.device != "cpu" {
        let what = "`bench scale-up` measures workers on cores, but execution.device is a GPU; \
                    set it to \"cpu\"";
        return Err(Failure::message(FailureKind::Config, what));
    }
    let numbers = match args.workers.is_empty() {
        true => doubled(cores() as u32),
        false => args.workers.clone(),
    };
    let mut report = Report {
        cores: cores(),
        edges: 0,
        runs: Vec::new(),
    };
    for workers in numbers {
        let bar = ProgressBar::new_spinner();
        let message = format!(
            "training with {}",
            format::plural(u64::from(workers), "worker")
        );
        let bar = terminal.shown(bar.with_message(message));
        bar.enable_steady_tick(Duration::from_millis(200));
        let measured = measure(&config, workers, args, terminal);
        bar.finish_and_clear();
        let (edges, mut run) = match measured {
            Ok(measured) => measured,
            Err(failure) => {
                // What was measured so far may have taken hours.
                if !report.runs.is_empty() {
                    terminal::print_result(args.json, &report, |out| print(out, &report))?;
                }
                return Err(failure);
            }
        };
        if let Some(first) = report.runs.first() {
            run.speed_up = run.edges_per_second / first.edges_per_second;
            run.efficiency = run.speed_up * f64::from(first.workers) / f64::from(workers);
        }
        report.edges = edges;
        report.runs.push(run);
    }
    terminal::print_result(args.json, &report, |out| print(out, &report))
}

/// Returns 1, 2, 4 and so on, up to `most`, which is the last number.
fn doubled(most: u32) -> Vec<u32> {
    let powers = (0..).map(|n| 1 << n).take_while(|&n| n < most);
    powers.chain([most]).collect()
}

/// Trains with a number of workers. Returns the number of edges and the speed.
fn measure(config: &Config, workers: u32, args: &Args, terminal: Terminal) -> Result<(u64, Run)> {
    let config = Config {
        workers: Some(workers),
        ..config.clone()
    };
    let (resolved, timer) = train::train(config, args.epochs, &args.plugins, terminal)?;
    let run = Run {
        workers,
        edges_per_second: timer.edges as f64 / timer.wall,
        speed_up: 1.0,
        efficiency: 1.0,
        products_per_second: pbg_bench::products_together(&resolved, workers as usize)?,
        waited_seconds: timer.io.waited(),
    };
    Ok((timer.edges, run))
}

fn print(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    let header = [
        "workers",
        "edges/s",
        "speed-up",
        "per worker",
        "products alone",
        "share of them",
        "waited for files",
    ];
    let rows = report.runs.iter().map(|run| {
        let share = |products| format!("{:.0} %", 100.0 * run.edges_per_second / products);
        let none = || "-".to_owned();
        [
            run.workers.to_string(),
            format::count(run.edges_per_second),
            format!("{:.2}", run.speed_up),
            format!("{:.0} %", 100.0 * run.efficiency),
            run.products_per_second.map_or_else(none, format::count),
            run.products_per_second.map_or_else(none, share),
            format!("{:.1} s", run.waited_seconds),
        ]
    });
    writeln!(out, "{}", tables::markdown(header, rows, 0))?;
    writeln!(
        out,
        "{} edges with each number of workers, on {}",
        format::count(report.edges as f64),
        format::plural(report.cores as u64, "core")
    )
}

#[cfg(test)]
mod tests {
    use super::doubled;

    #[test]
    fn numbers_of_workers_end_with_all_cores() {
        assert_eq!(doubled(1), [1]);
        assert_eq!(doubled(2), [1, 2]);
        assert_eq!(doubled(12), [1, 2, 4, 8, 12]);
        assert_eq!(doubled(16), [1, 2, 4, 8, 16]);
    }
}
