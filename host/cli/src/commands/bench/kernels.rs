//! `pbg-host bench kernels`.

use std::io::{self, Write};

use pbg_core::config::Precision;
use pbg_train::bench::{self, StepReport};

use crate::commands::plugin;
use crate::failure::Result;
use crate::format;
use crate::terminal::{self, Terminal};

/// Measure training steps on made-up edges, in fp32 and bf16.
///
/// Each is shown beside the speed that its matrix products alone would allow on this machine (libtorch's
/// product, the same shapes, the same minute), with the time of each stage.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host bench kernels
  pbg-host bench kernels --json > kernels.json")]
pub(crate) struct Args {
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Measures.
///
/// # Errors
/// When a step cannot be measured.
pub(crate) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let mut reports = Vec::new();
    for case in bench::step_cases() {
        let loss = plugin::loss_with_defaults(case.loss, terminal)?;
        for precision in [Precision::Fp32, Precision::Bf16] {
            terminal.detail(format_args!("measuring {}, {precision:?}", case.name));
            let report = bench::step(&case, loss.as_ref(), precision)?;
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
        "  microseconds per edge: {}; the loss by hand {:.2}",
        stages.join(", "),
        report.loss_by_hand,
    )
}
