//! `pbg-host plugin check`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use pbg_contract::{
    ContractFinding, ContractReport, FindingOutcome, NegativesInstance, OperatorExecutors,
    OrderInstance, ScheduleInstance, SelectorInstance, check_comparator, check_loss,
    check_negatives, check_operator, check_order, check_sampler, check_schedule, check_selector,
    checked_dimension,
};
use pbg_wasm::{LoadedPlugin, PluginInfo, PluginSlot};
use serde::Serialize;
use serde_json::Value;

use crate::failure::{Failure, Result};
use crate::format;
use crate::kind::FailureKind;
use crate::limits::LimitArgs;
use crate::terminal::{self, Terminal};

use super::influence::without_influence;
use super::loading::{self, open_with_folders, sandbox};
use crate::comparator_price::ComparatorPrice;

/// Check on many inputs that a plugin keeps the promises that the host requires.
///
/// Finds in seconds the errors that a run would find after hours: each promise is reported with the
/// inputs that were tried, or with the first input that broke it. The plugin runs in the same sandbox,
/// with the same limits, as in training.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host plugin check my_order.wasm
  pbg-host plugin check my_order.wasm --set shuffle=false")]
pub(crate) struct Args {
    /// Component file, or name of a standard plugin or of a plugin in PBG_PLUGIN_PATH.
    #[arg(value_name = "FILE|NAME")]
    plugin: String,
    /// Set a parameter of the plugin; can be repeated [default: the plugin's defaults].
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = loading::parameter)]
    parameters: Vec<(String, Value)>,
    /// Folder that the plugin may read; can be repeated.
    #[arg(long = "read", value_name = "FOLDER")]
    folders: Vec<PathBuf>,
    /// Limits of the plugin.
    #[command(flatten)]
    limits: LimitArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Checked<'a> {
    #[serde(flatten)]
    inspection: &'a PluginInfo,
    load_seconds: f64,
    peak_memory_bytes: usize,
    seconds: f64,
    findings: &'a [ContractFinding],
}

pub(super) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let begin = pbg_clock::now();
    let limits = args.limits.limits()?;
    let sandbox = sandbox(limits.clone(), terminal)?;
    let (plugin, source) = open_with_folders(&sandbox, &args.plugin, &args.folders)?;
    let load = begin.elapsed();
    let parameters = Value::Object(args.parameters.iter().cloned().collect());
    // Invalid parameters are an error of the user, not a broken promise.
    let mut report = tried(&plugin, &parameters)?;
    let idle = without_influence(&plugin, &parameters);
    if !idle.is_empty() {
        report.add_note("parameters", idle.join("\n"));
    }
    report.add_note(
        "memory",
        format_args!(
            "at most {} of {}",
            format::bytes(plugin.peak_memory() as u64),
            format::bytes(limits.memory_bytes as u64)
        ),
    );
    let checked = Checked {
        inspection: plugin.inspection(),
        load_seconds: load.as_secs_f64(),
        peak_memory_bytes: plugin.peak_memory(),
        seconds: begin.elapsed().as_secs_f64(),
        findings: report.findings(),
    };
    let print = |out: &mut dyn Write| print(out, &source, &checked);
    terminal::print_result(args.json, &checked, print)?;
    match report.broken() {
        0 => Ok(()),
        broken => {
            let text = format!(
                "plugin {}: breaks {}",
                plugin.id(),
                format::plural(broken as u64, "promise")
            );
            Err(Failure::message(FailureKind::Plugin, text))
        }
    }
}

/// Numbers of an embedding for which the price of a comparator is told.
const PRICED_DIMENSION: usize = 400;

fn tried(plugin: &LoadedPlugin, parameters: &Value) -> Result<ContractReport> {
    match plugin.inspection().kind {
        PluginSlot::BucketOrder => {
            drop(plugin.clone().into_order(parameters)?);
            Ok(check_order(|| -> OrderInstance {
                match plugin.clone().into_order(parameters) {
                    Ok(order) => Ok(Box::new(order)),
                    Err(error) => Err(error.to_string()),
                }
            }))
        }
        PluginSlot::RelationSampler => Ok(check_sampler(&plugin.clone().into_sampler(parameters)?)),
        PluginSlot::NegativeSampler => {
            drop(plugin.clone().into_negatives(parameters)?);
            Ok(check_negatives(|| -> NegativesInstance {
                match plugin.clone().into_negatives(parameters) {
                    Ok(sampler) => Ok(Box::new(sampler)),
                    Err(error) => Err(error.to_string()),
                }
            }))
        }
        PluginSlot::NegativeSelector => {
            drop(plugin.clone().into_selector(parameters)?);
            Ok(check_selector(|| -> SelectorInstance {
                match plugin.clone().into_selector(parameters) {
                    Ok(selector) => Ok(Box::new(selector)),
                    Err(error) => Err(error.to_string()),
                }
            }))
        }
        PluginSlot::RateSchedule => {
            drop(plugin.clone().into_schedule(parameters)?);
            Ok(check_schedule(|| -> ScheduleInstance {
                match plugin.clone().into_schedule(parameters) {
                    Ok(schedule) => Ok(Box::new(schedule)),
                    Err(error) => Err(error.to_string()),
                }
            }))
        }
        PluginSlot::TracedLoss | PluginSlot::ComputedLoss => {
            let (loss, formula) = loading::loss(plugin, parameters)?;
            Ok(check_loss(loss.as_ref(), &formula))
        }
        PluginSlot::TracedOperator => {
            let formula = loading::operator(plugin, parameters)?;
            let dimension = checked_dimension(&formula);
            let executable = |side| pbg_train::executable(side, dimension);
            let executors = OperatorExecutors::new(formula, executable);
            Ok(check_operator(&formula, executors))
        }
        PluginSlot::Comparator => {
            let formula = loading::comparator(plugin, parameters)?;
            let mut executed = pbg_train::executable_pairs(formula);
            let mut report = check_comparator(&formula, executed.as_mut());
            let dimension = PRICED_DIMENSION.next_multiple_of(formula.components());
            report.add_note("price", ComparatorPrice::new(&formula, dimension));
            Ok(report)
        }
        other => Err(Failure::message(
            FailureKind::Plugin,
            format!("there is no check for a {other}"),
        )),
    }
}

fn print(out: &mut dyn Write, source: &str, checked: &Checked<'_>) -> io::Result<()> {
    let PluginInfo {
        kind,
        wit,
        metadata,
        size,
        ..
    } = checked.inspection;
    writeln!(
        out,
        "{} {}: a {kind} ({source}, {})",
        metadata.name,
        metadata.version,
        format::bytes(*size)
    )?;
    let loaded = format!(
        "in {}; uses {wit}, imports only interfaces that the host offers, {} with defaults in range",
        format::duration(Duration::from_secs_f64(checked.load_seconds)),
        format::plural(metadata.parameters.len() as u64, "parameter")
    );
    row(out, "ok", "loads", &loaded)?;
    for finding in checked.findings {
        let mark = match finding.outcome {
            FindingOutcome::Kept => "ok",
            FindingOutcome::Broken => "BROKEN",
            FindingOutcome::Note => "note",
        };
        row(out, mark, finding.promise, &finding.detail)?;
    }
    let seconds = Duration::from_secs_f64(checked.seconds);
    writeln!(out, "checked in {}", format::duration(seconds))
}

/// Prints a labelled line and, below it, its continuation lines.
fn row(out: &mut dyn Write, mark: &str, what: &str, detail: &str) -> io::Result<()> {
    let labels = std::iter::once((mark, what)).chain(std::iter::repeat(("", "")));
    let mut lines = labels.zip(detail.lines());
    lines.try_for_each(|((mark, what), line)| writeln!(out, "  {mark:6}  {what:13}  {line}"))
}
