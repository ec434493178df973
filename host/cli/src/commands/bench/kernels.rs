//! `pbg-host bench kernels`.

use std::io::{self, Write};
use std::time::Duration;

use pbg_bench::StepReport;
use pbg_core::model::Precision;

use super::libtorch;
use crate::commands::plugin;
use crate::failure::{Failure, Result};
use crate::format;
use crate::kind::FailureKind;
use crate::terminal::{self, Terminal};

/// Measure training steps on random edges, in fp32 and bf16.
///
/// Each speed is compared with a ceiling: the speed if a step consisted only of its matrix products, computed by
/// libtorch with the same shapes, on this machine in the same run. Also shows the time of each stage, and the page
/// faults of a batch after its buffers have grown.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host bench kernels
  pbg-host bench kernels --case distmult --seconds 10
  pbg-host bench kernels --json > kernels.json")]
pub(crate) struct Args {
    /// Measure only the cases whose names contain this text.
    #[arg(long, value_name = "TEXT")]
    case: Option<String>,
    /// Seconds for which each step is measured.
    #[arg(long, value_name = "N", default_value_t = 3.0, value_parser = seconds)]
    seconds: f64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// When a step cannot be measured.
pub(crate) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    libtorch::load_for_comparison()?;
    let wanted = args.case.as_deref().unwrap_or_default().to_lowercase();
    let mut cases = pbg_bench::step_cases();
    let names: Vec<&str> = cases.iter().map(|case| case.name).collect();
    if !names
        .iter()
        .any(|name| name.to_lowercase().contains(&wanted))
    {
        let message = format!("no case contains `{wanted}` in its name");
        let help = format!("the cases are: {}", names.join("; "));
        return Err(Failure::message(FailureKind::Usage, message).help(help));
    }
    cases.retain(|case| case.name.to_lowercase().contains(&wanted));
    let duration = Duration::from_secs_f64(args.seconds);
    let mut reports = Vec::new();
    for case in cases {
        let loss = plugin::loss_with_defaults(case.loss, terminal)?;
        for precision in [Precision::Fp32, Precision::Bf16] {
            terminal.detail(format_args!("measuring {}, {precision:?}", case.name));
            let report = pbg_bench::step(&case, loss.as_ref(), precision, duration)?;
            if !args.json {
                terminal::print(|out| print_report(out, &report))?;
            }
            reports.push(report);
        }
    }
    if args.json {
        terminal::print_json(&reports)?;
    }
    Ok(())
}

fn print_report(out: &mut dyn Write, report: &StepReport) -> io::Result<()> {
    let precision = match report.precision {
        Precision::Fp32 => "fp32",
        Precision::Bf16 => "bf16",
    };
    writeln!(out, "{}, {precision}", report.name)?;
    if let Some(reason) = &report.left_out {
        return writeln!(out, "  left out: {reason}");
    }
    let (rate, ceiling) = (report.edges_per_cpu_second, report.ceiling);
    writeln!(
        out,
        "  {} edges per CPU-second, {:.0} % of the {} that libtorch's bmm alone would allow; buffers {}",
        format::count(rate),
        100.0 * rate / ceiling,
        format::count(ceiling),
        format::bytes(report.buffer_bytes as u64),
    )?;
    let stages = report.stages.iter();
    let stages: Vec<String> = stages
        .map(|(stage, us)| format!("{stage} {us:.2}"))
        .collect();
    writeln!(
        out,
        "  microseconds per edge: {}; handwritten loss {:.2}",
        stages.join(", "),
        report.loss_by_hand,
    )?;
    match report.page_faults_per_batch {
        Some(count) => writeln!(out, "  {count:.2} page faults per batch"),
        None => Ok(()),
    }
}

fn seconds(text: &str) -> std::result::Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.01..=3600.0).contains(&seconds) => Ok(seconds),
        _ => Err("not a number of seconds from 0.01 to 3600".to_owned()),
    }
}
