//! `pbg-host bench train`.

use std::io::{self, Write};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use pbg_bench::process_cpu_seconds;
use pbg_config::Config;
use pbg_core::event::{Event, PartitionIo};
use pbg_model::{AllowedChanges, ResolvedConfig};
use serde::Serialize;

use super::libtorch;
use crate::failure::Result;
use crate::options::ConfigArgs;
use crate::plugins::{self, StrategyOverrides};
use crate::scratch::BenchFolder;
use crate::terminal::{self, Terminal};
use crate::{format, load};

/// Measure the speed of training a configuration, in a temporary folder.
///
/// Start-up, that is, opening files and loading plugins, is not counted.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host bench train pbg.toml
  pbg-host bench train pbg.toml --profile --set workers=1
  pbg-host bench train pbg.toml --epochs 3 --json")]
pub(crate) struct Args {
    /// Arguments that name the configuration.
    #[command(flatten)]
    config: ConfigArgs,
    /// Use this plugin instead of the configured strategy of its kind, as for `train`; can be repeated.
    #[arg(long = "plugin", value_name = "FILE|NAME")]
    plugins: Vec<String>,
    /// Number of epochs to train.
    #[arg(long, value_name = "N", default_value_t = 1)]
    epochs: u32,
    /// Show the time of each stage of a step.
    #[arg(long)]
    profile: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Result of the measurement.
#[derive(Serialize)]
struct Report {
    edges: u64,
    workers: u32,
    wall_seconds: f64,
    cpu_seconds: f64,
    /// CPU time of the process before training started.
    start_up_cpu_seconds: f64,
    edges_per_cpu_second: f64,
    edges_per_second: f64,
    /// Edges per CPU-second if a step consisted of its matrix products only.
    ceiling: f64,
    io: PartitionIo,
    /// Peak memory of the process.
    peak_bytes: Option<u64>,
    /// Total seconds of all workers in each stage.
    stages: Vec<(String, f64)>,
}

/// Runs the command.
///
/// # Errors
/// The failure that ended the run.
pub(crate) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    libtorch::load_for_comparison()?;
    let config = load::without_formulas(&args.config, terminal)?;
    let (resolved, watch) = train(config, args.epochs, &args.plugins, terminal)?;
    let report = watch.report(pbg_bench::ceiling(&resolved)?);
    let print = |out: &mut dyn Write| print_report(out, &report, args.profile);
    terminal::print_result(args.json, &report, print)
}

/// Trains `epochs` epochs of a configuration in a temporary folder.
///
/// # Errors
/// The failure that ended the run.
pub(super) fn train(
    mut config: Config,
    epochs: u32,
    plugins: &[String],
    terminal: Terminal,
) -> Result<(ResolvedConfig, TrainingTimer)> {
    let folder = BenchFolder::create(Path::new(&config.checkpoint_path))?;
    config.checkpoint_path = folder.path().display().to_string();
    config.num_epochs = epochs;
    let given = plugins::given_formulas(&mut config, plugins, None, &terminal)?;
    let named = StrategyOverrides::named(&given.others);
    let filled = plugins::fill(&config, named, None, None, &terminal)?;
    let mut watch = TrainingTimer::default();
    let never = AtomicBool::new(false);
    let resolved = ResolvedConfig::new(config)?;
    pbg_train::train(
        &resolved,
        filled.strategies,
        AllowedChanges::default(),
        &never,
        &mut |event| {
            watch.see(&event);
        },
    )?;
    Ok((resolved, watch))
}

/// Wall and CPU clocks that run from the start to the end of training.
#[derive(Default)]
pub(super) struct TrainingTimer {
    started: Option<(Instant, f64)>,
    workers: u32,
    pub(super) edges: u64,
    pub(super) wall: f64,
    cpu: f64,
    pub(super) io: PartitionIo,
    stages: Vec<(String, f64)>,
}

impl TrainingTimer {
    fn see(&mut self, event: &Event) {
        match event {
            Event::RunStarted { workers, .. } => {
                self.started = Some((pbg_clock::now(), process_cpu_seconds()));
                self.workers = *workers;
            }
            Event::RunFinished {
                edges, io, stages, ..
            } => {
                if let Some((wall, cpu)) = self.started {
                    self.wall = wall.elapsed().as_secs_f64();
                    self.cpu = process_cpu_seconds() - cpu;
                }
                (self.edges, self.io) = (*edges, *io);
                self.stages.clone_from(stages);
            }
            _ => {}
        }
    }

    fn report(self, ceiling: f64) -> Report {
        let edges = self.edges as f64;
        Report {
            edges: self.edges,
            workers: self.workers,
            wall_seconds: self.wall,
            cpu_seconds: self.cpu,
            start_up_cpu_seconds: self.started.map_or(0.0, |(_, cpu)| cpu),
            edges_per_cpu_second: edges / self.cpu,
            edges_per_second: edges / self.wall,
            ceiling,
            io: self.io,
            peak_bytes: pbg_model::memory::peak_bytes(),
            stages: self.stages,
        }
    }
}

fn print_report(out: &mut dyn Write, report: &Report, profile: bool) -> io::Result<()> {
    let rate = |x: f64| format::count(x);
    writeln!(
        out,
        "{} edges per CPU-second, {:.0} % of the {} that libtorch's bmm alone would allow",
        rate(report.edges_per_cpu_second),
        100.0 * report.edges_per_cpu_second / report.ceiling,
        rate(report.ceiling),
    )?;
    writeln!(
        out,
        "{} edges in {} with {} ({} edges/s), {:.1} CPU-seconds after {:.1} of start-up; waited {:.1} s, {} read, {} written",
        format::count(report.edges as f64),
        format::seconds(report.wall_seconds),
        format::plural(report.workers as u64, "worker"),
        rate(report.edges_per_second),
        report.cpu_seconds,
        report.start_up_cpu_seconds,
        report.io.waited(),
        format::bytes(report.io.bytes_read),
        format::bytes(report.io.bytes_written),
    )?;
    if let Some(peak) = report.peak_bytes {
        writeln!(out, "peak memory {}", format::bytes(peak))?;
    }
    if profile {
        let total: f64 = report.stages.iter().map(|(_, s)| s).sum();
        for (stage, seconds) in &report.stages {
            let share = 100.0 * seconds / total.max(f64::MIN_POSITIVE);
            let per_edge = 1e6 * seconds / report.edges.max(1) as f64;
            writeln!(
                out,
                "  {stage:<14} {share:>5.1} %  {per_edge:>8.2} us per edge"
            )?;
        }
    }
    Ok(())
}
