//! `pbg-host check`.

use std::io::{self, Write};
use std::path::Path;

use pbg_core::batch_graph::pipeline::Device;
use pbg_core::event::Event;
use pbg_core::plan::PlanCost;
use pbg_store::checkpoint::{CheckpointError, PartitionData, ReadCheckpoint};
use pbg_train::{CheckReport, Resolved, RunError};
use serde::Serialize;

use crate::failure::Result;
use crate::options::ConfigArgs;
use crate::terminal::{self, Terminal};
use crate::{format, load, plugins};

/// Check everything and show the memory and disk that training will need; starts nothing.
///
/// Reads the configuration, the dataset with the checksums of all its files, the checkpoint if there is
/// one, and the plugins; asks the bucket order for the plan of the next pass. Training stays below the
/// memory that is shown.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host check
  pbg-host check pbg.toml --set buffer_partitions=4
  pbg-host check pbg.toml --plugin my_order.wasm --json")]
pub(crate) struct Args {
    /// Which configuration.
    #[command(flatten)]
    config: ConfigArgs,
    /// Component that takes the place of a standard strategy, as for `train`; can be repeated.
    #[arg(long = "plugin", value_name = "FILE|NAME")]
    plugins: Vec<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Checks.
///
/// # Errors
/// The first thing that would keep training from starting.
pub(crate) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let config = load::config(&args.config, terminal)?;
    let filled = plugins::fill(&config, &args.plugins, None, terminal)?;
    filled.warnings.iter().for_each(|text| terminal.warn(text));
    let resolved = Resolved::new(config)?;
    let needs = resolved.check(Some(&filled.strategies.loss))?;
    let mut order = filled.strategies.order;
    resolved.verify()?;
    verify_checkpoint(Path::new(&resolved.config().checkpoint_path))?;
    let plan = resolved.first_plan(order.as_mut());
    for line in filled.log.drain() {
        if let Event::PluginLog {
            plugin, message, ..
        } = line
        {
            terminal.say(format_args!("[{plugin}] {message}"));
        }
    }
    let report = Report {
        order: order.id().to_string(),
        plan: plan?,
        needs,
    };
    if args.json {
        terminal::print_json(&report)?;
    } else {
        terminal::print(|out| print_report(out, &report))?;
    }
    Ok(resolved.check_device()?)
}

/// What was found out.
#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    needs: CheckReport,
    order: String,
    plan: PlanCost,
}

/// Reads every file of the checkpoint, if there is one.
fn verify_checkpoint(path: &Path) -> Result<()> {
    let checkpoint = match ReadCheckpoint::open(path) {
        Ok(checkpoint) => checkpoint,
        Err(CheckpointError::Missing { .. }) => return Ok(()),
        Err(error) => return Err(RunError::from(error).into()),
    };
    checkpoint.model().map_err(RunError::from)?;
    let mut data = PartitionData::default();
    for (entity_type, partition) in checkpoint.manifest().partitions() {
        checkpoint
            .read_partition_into(&entity_type, partition, &mut data)
            .map_err(RunError::from)?;
    }
    Ok(())
}

fn print_report(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    let device = match &report.needs.device_memory {
        Some(needs) => (format!("memory of {}", needs.device), &needs.parts[..]),
        None => (String::new(), &[][..]),
    };
    for (title, parts) in [
        ("memory".to_owned(), &report.needs.memory[..]),
        device,
        ("disk".to_owned(), &report.needs.disk[..]),
    ] {
        if parts.is_empty() {
            continue;
        }
        let total: u64 = parts.iter().map(|(_, bytes)| bytes).sum();
        writeln!(out, "{title:<36} {:>12}", format::bytes(total))?;
        for (component, bytes) in parts {
            writeln!(out, "  {component:<34} {:>12}", format::bytes(*bytes))?;
        }
    }
    print_execution(out, &report.needs)?;
    let PlanCost {
        loads,
        swaps,
        bytes,
    } = report.plan;
    writeln!(
        out,
        "bucket order {}: {} per pass ({swaps} after the buffer is full), {}",
        report.order,
        format::plural(loads, "partition load"),
        format::bytes(bytes),
    )
}

/// Groups with their devices and pipes, and how a batch is cut.
fn print_execution(out: &mut dyn Write, needs: &CheckReport) -> io::Result<()> {
    writeln!(out, "execution")?;
    for group in &needs.execution.groups {
        let devices: Vec<String> = group
            .devices
            .iter()
            .map(|device| match device {
                Device::Disk => "disk".to_owned(),
                Device::Cpu => format::plural(group.threads as u64, "worker"),
                Device::Cuda(index) => format!("cuda:{index}"),
            })
            .collect();
        let tasks: Vec<&str> = group.tasks.iter().map(|task| task.name()).collect();
        let title = format!("{} on {}", group.name, devices.join(" and "));
        writeln!(out, "  {title:<34} {}", tasks.join(", "))?;
        for pipe in needs
            .execution
            .pipes
            .iter()
            .filter(|p| p.from == group.name)
        {
            let title = format!("pipe to {}", pipe.to);
            let bytes = format::bytes(pipe.bytes);
            let (bound, carries) = (pipe.bound, &pipe.carries);
            writeln!(
                out,
                "    {title:<32} {bytes:>12}  {bound} {carries}, at most"
            )?;
        }
    }
    let slices = &needs.slices;
    writeln!(
        out,
        "{:<36} {:>12}  {}, {} per batch, {} in flight",
        "slice of a worker",
        format::bytes(slices.slice_bytes()),
        format::plural(slices.edges as u64, "edge"),
        slices.slices_per_batch,
        needs.execution.slices_in_flight,
    )?;
    for cluster in slices.clusters.iter().filter(|cluster| cluster.bytes > 0) {
        let (name, bytes) = (cluster.cluster.name(), format::bytes(cluster.bytes));
        writeln!(out, "  {name:<34} {bytes:>12}")?;
    }
    let bytes = format::bytes(slices.batch_bytes);
    writeln!(out, "  {:<34} {bytes:>12}", "kept for the whole batch")
}
