//! `pbg-host check`.

mod time;

use std::collections::BTreeMap;
use std::io::{self, Write};

use pbg_core::batch_graph::pipeline::PipelineDevice;
use pbg_core::plan::PlanCost;
use pbg_core::strategy::BucketOrder;
use pbg_dataset::describe::UnseenCounts;
use pbg_lab::bound;
use pbg_lab::cluster_simulation::{self, PassCost};
use pbg_model::{ResolvedConfig, RunError};
use pbg_train::{CheckReport, RateCourse};
use serde::Serialize;

use crate::comparator_price::ComparatorPrice;
use crate::failure::{Failure, Result};
use crate::kind::FailureKind;
use crate::options::{AllowArgs, ConfigArgs};
use crate::partition_servers::memory_of_server;
use crate::plugins::{self, StrategyOverrides};
use crate::terminal::{self, Terminal};
use crate::{format, interrupt, load, model_notes};

use time::EpochTime;

/// Check everything and show the memory and disk space that training will need, without training (except with
/// `--time`).
///
/// Checks the configuration, the dataset with the checksums of all its files, the checkpoint if it exists,
/// and the plugins; asks the bucket order for the plan of the next pass. Training will not use more memory
/// than shown.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host check
  pbg-host check pbg.toml --set buffer_partitions=4
  pbg-host check pbg.toml --time
  pbg-host check pbg.toml --machines 4
  pbg-host check pbg.toml --plugin my_order.wasm --json")]
pub(crate) struct Args {
    /// Arguments that name the configuration.
    #[command(flatten)]
    config: ConfigArgs,
    /// Use this plugin instead of the configured strategy of its kind, as for `train`; can be repeated.
    #[arg(long = "plugin", value_name = "FILE|NAME")]
    plugins: Vec<String>,
    /// Allowed differences from the run that trained the checkpoint.
    #[command(flatten)]
    allow: AllowArgs,
    /// Also show the rounds of buckets in which this many machines would train a pass, and the bytes that they would
    /// read and write. Memory and disk space are per machine.
    #[arg(long, value_name = "M", value_parser = clap::value_parser!(u32).range(1..=256))]
    machines: Option<u32>,
    /// Also train for ten seconds in a temporary folder next to the checkpoint, and estimate the duration of an epoch.
    #[arg(long, conflicts_with = "machines")]
    time: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// The first problem that would prevent training from starting.
pub(crate) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let mut config = load::without_formulas(&args.config, terminal)?;
    let given = plugins::given_formulas(&mut config, &args.plugins, None, &terminal)?;
    let named = StrategyOverrides::named(&given.others);
    let filled = plugins::fill(&config, named, None, None, &terminal)?;
    filled.warnings.iter().for_each(|text| terminal.warn(text));
    let resolved = ResolvedConfig::new(config)?;
    resolved.check_checkpoint_path()?;
    refuse_unsupported(&resolved)?;
    let mut needs = pbg_train::check(&resolved, Some(&filled.strategies))?;
    let partition_servers = ServerNeeds::of(&resolved, args.machines);
    if let Some(ServerNeeds {
        in_trainers: true,
        bytes,
        ..
    }) = partition_servers
    {
        needs
            .memory
            .push(("partition server of this trainer".to_owned(), bytes));
    }
    let unseen = pbg_train::verify(&resolved)?;
    let next = pbg_train::verify_checkpoint(&resolved, &filled.strategies, args.allow.allowed())?;
    let negatives = filled.strategies.negatives.as_ref();
    let negatives = negatives.filter(|chosen| !chosen.is_uniform());
    let negatives = negatives.map(|chosen| (chosen.kind(), chosen.id().to_string()));
    let (kind_of_negatives, negatives) = negatives.unzip();
    let mut strategies = filled.strategies;
    let rates = pbg_train::rate_course(&resolved, &mut strategies);
    let mut order = strategies.order;
    let plan = match pbg_train::too_large_to_plan(&resolved) {
        None => pbg_train::first_plan(&resolved, order.as_mut()).map(Some),
        Some(_) => Ok(None),
    };
    filled.log.show(|line| terminal.print_line(line));
    if !next.missing.is_empty() {
        let gained =
            model_notes::describe_additions(next.missing.rows.iter(), next.missing.relations);
        terminal.print_line(format_args!(
            "training will initialise {gained}, which the checkpoint does not contain"
        ));
    }
    for change in &next.changes {
        terminal.print_line(format_args!(
            "training will resume with changed edges: {change}"
        ));
    }
    let (plan, rates) = (plan?, rates?);
    let together = args.machines;
    let together = together.map(|machines| rounds(&resolved, order.as_mut(), machines));
    let report = Report {
        order: order.id().to_string(),
        plan,
        planning_bytes: pbg_train::too_large_to_plan(&resolved),
        kind_of_negatives,
        negatives,
        rates,
        comparator: ComparatorPrice::of(&resolved),
        together: together.transpose()?,
        time: match args.time {
            true => Some(measure_epoch(&resolved, &given.others, terminal)?),
            false => None,
        },
        needs,
        partition_servers,
        unseen,
    };
    terminal::print_result(args.json, &report, |out| print_report(out, &report))?;
    for (set, unseen) in report.unseen.iter().filter(|(_, unseen)| !unseen.is_none()) {
        let what = model_notes::unseen(unseen);
        terminal.warn(format_args!(
            "edge set {set}: {what}; `eval --seen` leaves them out"
        ));
    }
    resolved
        .advice()
        .iter()
        .for_each(|text| terminal.warn(text));
    if let Some(advice) = order_advice(&resolved, &report)? {
        terminal.warn(advice);
    }
    if resolved.config().is_distributed() {
        let advice = pbg_distributed::distributed_warnings(&resolved);
        advice.iter().for_each(|text| terminal.warn(text));
    }
    if let Err(too_little) =
        pbg_model::memory::require("training", report.needs.taken(), report.needs.threads())
    {
        terminal.warn(too_little);
    }
    // What a GPU would need is shown on machines without one, too.
    Ok(pbg_train::check_device(&resolved)?)
}

/// Refuses what the processor cores, or several trainers, cannot train.
fn refuse_unsupported(resolved: &ResolvedConfig) -> Result<()> {
    if resolved.config().is_distributed() {
        pbg_distributed::check_distributed(resolved).map_err(RunError::from)?;
    }
    Ok(pbg_train::check_cores(resolved)?)
}

/// Report of a check.
#[derive(Serialize)]
struct Report {
    #[serde(flatten)]
    needs: CheckReport,
    /// Memory of the partition servers, if the run has any.
    #[serde(skip_serializing_if = "Option::is_none")]
    partition_servers: Option<ServerNeeds>,
    order: String,
    /// Cost of the first pass; `None` if the order was not asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<PlanCost>,
    /// Memory in bytes that asking the order takes, if that is too much for a check.
    #[serde(skip_serializing_if = "Option::is_none")]
    planning_bytes: Option<u64>,
    #[serde(skip)]
    kind_of_negatives: Option<&'static str>,
    /// Negative sampler or selector, unless negatives are uniform.
    #[serde(skip_serializing_if = "Option::is_none")]
    negatives: Option<String>,
    /// Course of the learning rates, unless they stay as configured.
    #[serde(rename = "lr_schedule", skip_serializing_if = "Option::is_none")]
    rates: Option<RateCourse>,
    /// Price of comparing a pair of embeddings, unless scores are matrix products.
    #[serde(skip_serializing_if = "Option::is_none")]
    comparator: Option<ComparatorPrice>,
    /// Entities and relations of untrained edge sets that no trained edge has.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    unseen: BTreeMap<String, UnseenCounts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    together: Option<PassCost>,
    #[serde(skip_serializing_if = "Option::is_none")]
    time: Option<EpochTime>,
}

/// Memory of the partition servers of a run.
#[derive(Clone, Copy, Serialize)]
struct ServerNeeds {
    /// Number of servers.
    servers: u64,
    /// Whether each trainer has one.
    in_trainers: bool,
    /// Bytes of each server.
    bytes: u64,
}

impl ServerNeeds {
    /// Returns the needs in a run of `machines`, or else of as many as the configuration says.
    fn of(resolved: &ResolvedConfig, machines: Option<u32>) -> Option<Self> {
        let config = resolved.config();
        let in_trainers = config.num_partition_servers == -1;
        let servers = match in_trainers {
            true => u64::from(machines.unwrap_or(config.num_machines)),
            false => u64::try_from(config.num_partition_servers).unwrap_or(0),
        };
        let layout = &resolved.blueprint().layout;
        let replicas = u64::from(config.distributed.partition_replicas);
        (servers > 0).then(|| Self {
            servers,
            in_trainers,
            bytes: memory_of_server(layout, replicas, servers),
        })
    }
}

/// Trains a part of an epoch with newly loaded strategies, since the others have already been asked for a plan.
fn measure_epoch(
    resolved: &ResolvedConfig,
    given: &[String],
    terminal: Terminal,
) -> Result<EpochTime> {
    let config = resolved.config().clone();
    let promise = "stopping; the trial training is discarded";
    let stop = interrupt::watch(promise, terminal.announcer())?;
    let named = StrategyOverrides::named(given);
    let filled = plugins::fill(&config, named, None, Some(&stop), &terminal)?;
    time::measure(config, filled.strategies, &stop)
}

/// Returns a warning about an order that needs at least twice the minimum number of swaps. Orders made for buffers of
/// two partitions do not benefit from larger ones.
fn order_advice(resolved: &ResolvedConfig, report: &Report) -> Result<Option<String>> {
    let Some(PlanCost { swaps, .. }) = report.plan else {
        return Ok(None);
    };
    let pass = pbg_train::first_pass(resolved)?;
    let slots = pass.buffer_partitions;
    let least = bound::swaps(&pass, slots);
    if least == 0 || swaps < 2 * least {
        return Ok(None);
    }
    let partitions = pass.lhs_partitions.max(pass.rhs_partitions);
    Ok(Some(format!(
        "the bucket order {} needs {swaps} partition swaps per pass; the lower bound with {slots} partitions in the buffer \
         is {least}: `pbg-host orders compare --partitions {partitions} --buffer {slots}` shows better orders",
        report.order
    )))
}

/// Computes the rounds in which `machines` trainers train the first pass with this order.
fn rounds(
    resolved: &ResolvedConfig,
    order: &mut dyn BucketOrder,
    machines: u32,
) -> Result<PassCost> {
    let pass = pbg_train::first_pass(resolved)?;
    let tree_init = resolved.config().distributed_tree_init_order;
    let rounds = cluster_simulation::simulate(order, &pass, machines, tree_init);
    rounds.map_err(|fault| Failure::message(FailureKind::Plugin, fault))
}

fn print_report(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    let needs = &report.needs;
    print_parts(out, "memory", &needs.memory)?;
    if let Some(device) = &needs.device_memory {
        print_parts(out, &format!("memory of {}", device.device), &device.parts)?;
    }
    if let Some(of) = report.partition_servers.filter(|of| !of.in_trainers) {
        let (count, bytes) = (
            format::plural(of.servers, "partition server"),
            format::bytes(of.bytes),
        );
        writeln!(
            out,
            "{count}: start each with `--memory` of at least {bytes}"
        )?;
    }
    print_parts(out, "disk", &needs.disk)?;
    print_execution(out, &report.needs)?;
    print_plan(out, report)?;
    if let Some(price) = &report.comparator {
        writeln!(out, "comparator {}: {price}", price.name())?;
    }
    if let Some(time) = &report.time {
        time.print(out)?;
    }
    report
        .together
        .map_or(Ok(()), |rounds| print_together(out, &rounds))
}

/// Prints the cost of a pass, or why the order was not asked, the choice of negatives and the learning rate schedule.
fn print_plan(out: &mut dyn Write, report: &Report) -> io::Result<()> {
    let order = &report.order;
    if let Some(PlanCost {
        loads,
        swaps,
        bytes,
    }) = report.plan
    {
        let loads = format::plural(loads, "partition load");
        let bytes = format::bytes(bytes);
        writeln!(
            out,
            "bucket order {order}: {loads} per pass ({swaps} after the buffer is full), {bytes}"
        )?;
    }
    if let Some(bytes) = report.planning_bytes {
        let bytes = format::bytes(bytes);
        writeln!(
            out,
            "bucket order {order}: not asked, since a plan of so many buckets takes up to {bytes} of memory; \
             `pbg-host orders compare` asks it"
        )?;
    }
    if let (Some(kind), Some(negatives)) = (report.kind_of_negatives, &report.negatives) {
        writeln!(out, "{kind} {negatives}")?;
    }
    if let Some(rates) = &report.rates {
        writeln!(
            out,
            "learning rate schedule {}: factor {} in the first pass and {} in the last, from {} to {}",
            rates.schedule, rates.first, rates.last, rates.lowest, rates.highest
        )?;
    }
    Ok(())
}

/// Prints the rounds of a pass on several machines.
fn print_together(out: &mut dyn Write, rounds: &PassCost) -> io::Result<()> {
    let each = |bytes: u64| format::bytes(bytes / u64::from(rounds.trainers.max(1)));
    writeln!(
        out,
        "{}: {} per pass, {} without waiting for each other; each is busy {:.0} % of the time, reads {} and writes {} per \
         pass",
        format::plural(u64::from(rounds.trainers), "machine"),
        format::plural(rounds.rounds, "round"),
        rounds.ideal,
        rounds.busy() * 100.0,
        each(rounds.bytes_read),
        each(rounds.bytes_written),
    )
}

/// Prints the total number of bytes, and the bytes of each component; nothing if there are no components.
fn print_parts(out: &mut dyn Write, title: &str, parts: &[(String, u64)]) -> io::Result<()> {
    if parts.is_empty() {
        return Ok(());
    }
    let total = pbg_model::memory::total(parts);
    writeln!(out, "{title:<36} {:>12}", format::bytes(total))?;
    for (component, bytes) in parts {
        writeln!(out, "  {component:<34} {:>12}", format::bytes(*bytes))?;
    }
    Ok(())
}

/// Prints the memory that `what` needs, and warns if less is free.
///
/// # Errors
/// When standard output cannot be written.
pub(super) fn print_needs(
    what: &'static str,
    needs: &[(String, u64)],
    json: bool,
    terminal: Terminal,
) -> Result<()> {
    let value = serde_json::json!({ "memory": needs });
    terminal::print_result(json, &value, |out| print_parts(out, "memory", needs))?;
    let total = pbg_model::memory::total(needs);
    if let Err(too_little) = pbg_model::memory::require(what, total, 1) {
        terminal.warn(too_little);
    }
    Ok(())
}

/// Prints the groups of threads with their devices and pipes, and the slices of a batch.
fn print_execution(out: &mut dyn Write, needs: &CheckReport) -> io::Result<()> {
    writeln!(out, "execution")?;
    for group in &needs.execution.groups {
        let devices: Vec<String> = group
            .devices
            .iter()
            .map(|device| match device {
                PipelineDevice::Disk => "disk".to_owned(),
                PipelineDevice::Cpu => format::plural(group.threads as u64, "worker"),
                PipelineDevice::Cuda(index) => format!("cuda:{index}"),
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
                "    {title:<32} {bytes:>12}  {carries}: at most {bound}"
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
