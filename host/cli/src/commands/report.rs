//! `pbg-host report`.

mod model_contents;

use std::env;
use std::io::{self, Write};
use std::path::PathBuf;

use pbg_checkpoint::ReadCheckpoint;
use pbg_files::remote;
use pbg_model::RunError;
use pbg_report::run::RunReport;
use pbg_report::{pages, table, trace};
use pbg_session::load;
use pbg_session::stored_run::{METRICS, StoredRun};

use crate::failure::{Failure, Result};
use crate::kind::FailureKind;
use crate::terminal::{self, Terminal};
use crate::{format, output, tables};

/// Report on a training run.
///
/// Shows loss, ranks of held-out edges, speed, waiting for partitions, memory and plugins; the HTML report also
/// shows curves of all these, and the partition buffer over time. Works during the run too.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host report
  pbg-host report pbg.toml
  pbg-host report checkpoint --html run.html
  pbg-host report pbg.toml --html run.html --map --neighbors dog.n.01 --neighbors piano.n.01
  pbg-host report pbg.toml --html run.html --questions test.tsv --filter train
  pbg-host report checkpoint --csv buckets.csv
  pbg-host report pbg.toml --trace run.trace.json")]
pub(crate) struct Args {
    /// Checkpoint folder of the run, or its configuration [default: the working folder or the nearest parent
    /// folder that contains pbg.toml or is a checkpoint].
    #[arg(value_name = "CONFIG|CHECKPOINT")]
    run: Option<PathBuf>,
    /// Write a report with figures as one HTML file that needs no network.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Write one row per trained bucket as CSV.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Write when buckets were leased, waited for, trained and settled, in the trace event format that Perfetto
    /// (ui.perfetto.dev) and Chromium (chrome://tracing) show.
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
    /// Additional contents of the page.
    #[command(flatten)]
    ask: model_contents::ModelContentArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// When the run does not exist or cannot be read.
pub(crate) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let named = match &args.run {
        Some(named) => named.clone(),
        None => find_run()?,
    };
    let folder = match named.is_file() {
        false if remote::as_url(&named).is_some() => {
            let opened = ReadCheckpoint::open(&named).map_err(RunError::from)?;
            opened.path().to_owned()
        }
        false => named.clone(),
        true => load::config(Some(&named), &[], &terminal)?
            .checkpoint_path
            .into(),
    };
    let model = args.ask.open(&named, terminal)?;
    let version = model.as_ref().and_then(load::LoadedModel::version);
    let run = StoredRun::read(&folder, version, &terminal)?;
    let report = run.report;
    output::render(args.csv.as_deref(), terminal, || table::run_csv(&report))?;
    output::render(args.trace.as_deref(), terminal, || {
        serde_json::to_string(&trace::trace(&report))
    })?;
    // A model is open only with `--html`: its options require it.
    let mut asked = match model {
        Some(model) => args.ask.ask(&model.resolve()?, terminal)?,
        None => Default::default(),
    };
    if args.html.is_some() {
        model_contents::add_reliability(&folder, &mut asked, terminal);
    }
    output::render(args.html.as_deref(), terminal, || {
        pages::run::page(&report, run.first_pass.as_ref(), &asked)
    })?;
    terminal::print_result(args.json, &report, |out| print(out, &report))
}

/// Finds the run of the working folder: the nearest folder, from the working folder upwards, that contains a
/// configuration or is a checkpoint.
///
/// # Errors
/// When there is no such folder.
fn find_run() -> Result<PathBuf> {
    let depth = env::current_dir().map_or(1, |folder| folder.ancestors().count());
    let mut folder = PathBuf::new();
    for _ in 0..depth {
        let config = folder.join(load::DEFAULT_NAME);
        if config.is_file() {
            return Ok(config);
        }
        if folder.join(METRICS).is_file() {
            let here = folder.as_os_str().is_empty();
            return Ok(if here { PathBuf::from(".") } else { folder });
        }
        folder.push("..");
    }
    let text = format!(
        "no run is given, and neither the working folder nor a folder above it contains {} or is a checkpoint",
        load::DEFAULT_NAME
    );
    let help =
        "give the configuration of the run or its checkpoint folder: `pbg-host report checkpoint`";
    Err(Failure::message(FailureKind::Config, text).help(help))
}

fn print(out: &mut dyn Write, report: &RunReport) -> io::Result<()> {
    let names = report.summary.iter().map(|(name, _)| name.len());
    let width = names.max().unwrap_or(0);
    for (name, value) in &report.summary {
        writeln!(out, "{name:width$}  {value}")?;
    }
    if let Some(order) = pages::run::order(report) {
        writeln!(out, "{:width$}  {order}", "bucket order")?;
    }
    if let Some(peak) = report.peak_bytes() {
        writeln!(out, "{:width$}  {}", "measured memory", format::bytes(peak))?;
    }
    if !report.epochs.is_empty() {
        let calls = pages::run::calls(report);
        writeln!(out, "{:width$}  {calls}", "order and sampler")?;
    }
    for (group, times) in pages::run::groups(report) {
        writeln!(out, "{group:width$}  {times}")?;
    }
    let buckets = report.buckets.len();
    writeln!(out, "{:width$}  {buckets}", "buckets trained")?;
    if report.epochs.is_empty() {
        return writeln!(out, "no epoch has finished yet");
    }
    let (head, rows) = pages::run::epochs(report);
    writeln!(out, "{}", tables::markdown(head, rows, 0))
}
