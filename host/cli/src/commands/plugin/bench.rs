//! `pbg-host plugin bench`.

use std::io::{self, Write};
use std::path::PathBuf;
use std::time::Duration;

use pbg_contract::{
    Timing, bench_comparator, bench_loss, bench_negatives, bench_operator, bench_order,
    bench_sampler, bench_schedule, bench_selector,
};
use pbg_core::strategy::StrategyError;
use pbg_wasm::{Limits, LoadedPlugin, PluginSlot, Sandbox};
use serde::Serialize;
use serde_json::Value;

use crate::failure::{Failure, Result};
use crate::format;
use crate::kind::FailureKind;
use crate::limits::LimitArgs;
use crate::plugins;
use crate::terminal::{self, Terminal};

use super::loading::{self, open, open_with_folders, sandbox};

/// Measure the time of loading and calling a plugin, in absolute terms and as a fraction of training time.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host plugin bench my_order.wasm
  pbg-host plugin bench my_order.wasm --edges-per-second 2000000")]
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
    /// Speed of training without the plugin, as `pbg-host train` prints it.
    #[arg(long, value_name = "RATE", default_value_t = 500_000.0, value_parser = rate)]
    edges_per_second: f64,
    /// Number of edges of a bucket, for the fraction of training time of an order.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    edges_per_bucket: u64,
    /// Seconds for which each kind of call is measured.
    #[arg(long, value_name = "S", default_value_t = 0.5, value_parser = rate)]
    seconds: f64,
    /// Limits of the plugin.
    #[command(flatten)]
    limits: LimitArgs,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

fn rate(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(value) if value > 0.0 && value <= 1e12 => Ok(value),
        Ok(_) => Err("must be a number greater than 0".to_owned()),
        Err(_) => Err("not a number".to_owned()),
    }
}

/// Measurement of one kind of call.
#[derive(Serialize)]
struct Row {
    call: String,
    #[serde(flatten)]
    timing: Timing,
    /// Training time per call, in seconds.
    per: f64,
    /// Median divided by `per`.
    share: f64,
}

impl Row {
    /// Creates a row from a measurement, with one call per `per` seconds of training.
    fn new(
        call: String,
        measured: std::result::Result<Timing, StrategyError>,
        per: f64,
    ) -> Result<Self> {
        let timing = measured.map_err(|fault| {
            Failure::new(FailureKind::Plugin, fault).context(format!("measuring {call}"))
        })?;
        Ok(Self {
            call,
            timing,
            per,
            share: timing.median / per,
        })
    }
}

/// Time in seconds until a plugin has returned its metadata, the minimum of several measurements.
#[derive(Serialize)]
struct Loading {
    /// Time including compilation.
    compiled: f64,
    /// Time with compiled code from the cache. Equal to `compiled` without a cache.
    cached: f64,
}

/// All measurements, as printed in JSON.
#[derive(Serialize)]
struct Measured {
    loading: Loading,
    calls: Vec<Row>,
}

/// Number of measurements of compiling a plugin, and of loading it from the cache.
const COMPILATIONS: usize = 3;
const LOADS: usize = 10;

pub(super) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let limits = args.limits.limits()?;
    let cached = sandbox(limits.clone(), terminal)?;
    let (plugin, _) = open_with_folders(&cached, &args.plugin, &args.folders)?;
    let loading = loading(&cached, limits, &args.plugin, terminal)?;
    let parameters = Value::Object(args.parameters.iter().cloned().collect());
    let Calls {
        rows: calls,
        assumption,
        failed,
    } = measured(&plugin, &parameters, args)?;
    let measured = Measured { loading, calls };
    let print = |out: &mut dyn Write| print(out, &plugin, &measured, &assumption);
    terminal::print_result(args.json, &measured, print)?;
    failed.map_or(Ok(()), Err)
}

/// Measurements of calls, up to the first failure.
struct Calls {
    rows: Vec<Row>,
    assumption: String,
    failed: Option<Failure>,
}

impl Calls {
    /// Collects `rows` up to the first failure.
    fn new(rows: impl Iterator<Item = Result<Row>>, assumption: String) -> Self {
        let mut failed = None;
        let measured = rows.map_while(|row| row.map_err(|failure| failed = Some(failure)).ok());
        Self {
            rows: measured.collect(),
            assumption,
            failed,
        }
    }
}

fn loading(cached: &Sandbox, limits: Limits, name: &str, terminal: Terminal) -> Result<Loading> {
    let shortest = |sandbox: &Sandbox, times| -> Result<f64> {
        let mut shortest = f64::INFINITY;
        for _ in 0..times {
            let start = pbg_clock::now();
            open(sandbox, name)?;
            shortest = shortest.min(start.elapsed().as_secs_f64());
        }
        Ok(shortest)
    };
    Ok(Loading {
        compiled: shortest(&plugins::uncached(limits, &terminal)?, COMPILATIONS)?,
        cached: shortest(cached, LOADS)?,
    })
}

fn measured(plugin: &LoadedPlugin, parameters: &Value, args: &Args) -> Result<Calls> {
    match plugin.inspection().kind {
        PluginSlot::BucketOrder => order(plugin, parameters, args),
        PluginSlot::RelationSampler => sampler(plugin, parameters, args),
        PluginSlot::NegativeSampler => negatives(plugin, parameters, args),
        PluginSlot::NegativeSelector => selector(plugin, parameters, args),
        PluginSlot::RateSchedule => schedule(plugin, parameters, args),
        PluginSlot::TracedLoss | PluginSlot::ComputedLoss => loss(plugin, parameters, args),
        PluginSlot::TracedOperator => operator(plugin, parameters, args),
        PluginSlot::Comparator => comparator(plugin, parameters, args),
        other => Err(Failure::message(
            FailureKind::Plugin,
            format!("there is no benchmark for a {other}"),
        )),
    }
}

fn order(plugin: &LoadedPlugin, parameters: &Value, args: &Args) -> Result<Calls> {
    let mut order = plugin.clone().into_order(parameters)?;
    let budget = Duration::from_secs_f64(args.seconds);
    let rows = [4_u32, 16, 64].into_iter().map(|partitions| {
        let edges = f64::from(partitions * partitions) * args.edges_per_bucket as f64;
        Row::new(
            format!("plan {partitions} x {partitions}"),
            bench_order(&mut order, partitions, budget),
            edges / args.edges_per_second,
        )
    });
    let assumption = format!(
        "one plan per pass; a pass has {} edges per bucket, trained at {} edges per second",
        args.edges_per_bucket, args.edges_per_second
    );
    Ok(Calls::new(rows, assumption))
}

/// Number of edges of a batch, the default of configurations.
const BATCH: u32 = 1000;

fn sampler(plugin: &LoadedPlugin, parameters: &Value, args: &Args) -> Result<Calls> {
    let sampler = plugin.clone().into_sampler(parameters)?;
    let budget = Duration::from_secs_f64(args.seconds);
    let rows = [10, 100, 1000].into_iter().map(|relations| {
        Row::new(
            format!("draw of {relations}"),
            bench_sampler(&sampler, relations, BATCH, budget),
            f64::from(BATCH) / args.edges_per_second,
        )
    });
    let assumption = format!(
        "one draw with its observation per batch of {BATCH} edges, trained at {} edges per second",
        args.edges_per_second
    );
    Ok(Calls::new(rows, assumption))
}

/// Number of edges of a relation in a partition and pass.
const RELATION_EDGES: u32 = 1000;

fn negatives(plugin: &LoadedPlugin, parameters: &Value, args: &Args) -> Result<Calls> {
    let mut sampler = plugin.clone().into_negatives(parameters)?;
    let budget = Duration::from_secs_f64(args.seconds);
    let row = Row::new(
        "distribution".to_owned(),
        bench_negatives(&mut sampler, budget),
        f64::from(RELATION_EDGES) / args.edges_per_second,
    );
    let assumption = format!(
        "one distribution per relation, side and partition in a pass, for {RELATION_EDGES} edges trained at {} edges per \
         second",
        args.edges_per_second
    );
    Ok(Calls::new(std::iter::once(row), assumption))
}

/// Number of negatives of each side of a chunk, the default of configurations.
const NEGATIVES: u32 = 50;

fn selector(plugin: &LoadedPlugin, parameters: &Value, args: &Args) -> Result<Calls> {
    let selector = plugin.clone().into_selector(parameters)?;
    let budget = Duration::from_secs_f64(args.seconds);
    let rows = [NEGATIVES, 20 * NEGATIVES].into_iter().map(|negatives| {
        Row::new(
            format!("{negatives} negatives"),
            bench_selector(&selector, ROWS.into(), negatives, budget),
            // A chunk has two sides. The time of training is proportional to the number of negatives.
            f64::from(ROWS) / 2.0 / args.edges_per_second * f64::from(negatives / NEGATIVES),
        )
    });
    let assumption = format!(
        "two selections per {ROWS} edges, trained at {} edges per second with {NEGATIVES} negatives of each side; scoring \
         the candidates is not included",
        args.edges_per_second
    );
    Ok(Calls::new(rows, assumption))
}

fn schedule(plugin: &LoadedPlugin, parameters: &Value, args: &Args) -> Result<Calls> {
    let mut schedule = plugin.clone().into_schedule(parameters)?;
    let budget = Duration::from_secs_f64(args.seconds);
    let row = Row::new(
        "factor".to_owned(),
        bench_schedule(&mut schedule, budget),
        args.edges_per_bucket as f64 / args.edges_per_second,
    );
    let assumption = format!(
        "one factor per pass, all before training begins; a pass has a bucket of {} edges, trained at {} edges per second",
        args.edges_per_bucket, args.edges_per_second
    );
    Ok(Calls::new(std::iter::once(row), assumption))
}

/// Number of positives of a chunk, the default of configurations.
const ROWS: u16 = 50;

fn loss(plugin: &LoadedPlugin, parameters: &Value, args: &Args) -> Result<Calls> {
    let mut loss = loading::loss(plugin, parameters)?.0.worker();
    let budget = Duration::from_secs_f64(args.seconds);
    let rows = [100_usize, 1050].into_iter().map(|columns| {
        Row::new(
            format!("{ROWS} x {columns} scores"),
            bench_loss(loss.as_mut(), ROWS.into(), columns, budget),
            // Every edge has two rows: one with negatives of the left side, one with negatives of the right side.
            // The time of training is proportional to the number of negatives.
            f64::from(ROWS) / 2.0 / args.edges_per_second * (columns as f64 / 100.0),
        )
    });
    let assumption = format!(
        "two rows per edge, trained at {} edges per second by one thread with 100 negatives",
        args.edges_per_second
    );
    Ok(Calls::new(rows, assumption))
}

/// Number of embeddings per call.
const EMBEDDINGS: usize = 100;

fn operator(plugin: &LoadedPlugin, parameters: &Value, args: &Args) -> Result<Calls> {
    let formula = loading::operator(plugin, parameters)?;
    let budget = Duration::from_secs_f64(args.seconds);
    let mut rows = Vec::new();
    let components = formula.components();
    for dimension in [100_usize, 400].map(|dimension| dimension.next_multiple_of(components)) {
        let sides = [("", Some(formula)), (" of the left side", formula.lhs())];
        for (of, formula) in sides {
            let Some(formula) = formula else { continue };
            let mut executed = pbg_train::executable(formula, dimension);
            let timings =
                bench_operator(&formula, executed.as_mut(), EMBEDDINGS, dimension, budget);
            for (what, timing) in ["forward", "with gradient"].into_iter().zip(timings) {
                let call = format!("{what}{of}, {dimension}");
                // The time of training is proportional to the dimension.
                let per = EMBEDDINGS as f64 / args.edges_per_second * (dimension as f64 / 100.0);
                rows.push(Row::new(call, Ok(timing), per));
            }
        }
    }
    let assumption = format!(
        "{EMBEDDINGS} embeddings of that dimension, one per edge, trained at {} edges per second by one thread",
        args.edges_per_second
    );
    Ok(Calls::new(rows.into_iter(), assumption))
}

/// Number of candidates per call.
const CANDIDATES: usize = 100;
/// Number of pairs per edge: 100 negatives of each side.
const PAIRS_PER_EDGE: f64 = 200.0;

fn comparator(plugin: &LoadedPlugin, parameters: &Value, args: &Args) -> Result<Calls> {
    let formula = loading::comparator(plugin, parameters)?;
    let budget = Duration::from_secs_f64(args.seconds);
    let mut rows = Vec::new();
    let components = formula.components();
    for dimension in [100_usize, 400].map(|dimension| dimension.next_multiple_of(components)) {
        let mut executed = pbg_train::executable_pairs(formula);
        let timings = bench_comparator(executed.as_mut(), CANDIDATES, dimension, budget);
        for (what, timing) in ["scores", "with gradient"].into_iter().zip(timings) {
            let call = format!("{what}, {dimension}");
            let edges = CANDIDATES as f64 / PAIRS_PER_EDGE;
            // The time of training is proportional to the dimension.
            let per = edges / args.edges_per_second * (dimension as f64 / 100.0);
            rows.push(Row::new(call, Ok(timing), per));
        }
    }
    let assumption = format!(
        "{CANDIDATES} pairs of that dimension, {PAIRS_PER_EDGE} per edge, trained at {} edges per second by one thread with \
         the inner product",
        args.edges_per_second
    );
    Ok(Calls::new(rows.into_iter(), assumption))
}

fn print(
    out: &mut dyn Write,
    plugin: &LoadedPlugin,
    Measured { loading, calls }: &Measured,
    assumption: &str,
) -> io::Result<()> {
    writeln!(
        out,
        "{}: a {} of {}; loads in {} with compilation, in {} from the cache",
        plugin.id(),
        plugin.inspection().kind,
        format::bytes(plugin.inspection().size),
        small(loading.compiled),
        small(loading.cached),
    )?;
    writeln!(
        out,
        "  {:16} {:>12} {:>12} {:>12} {:>8}   share of training",
        "call", "median", "minimum", "maximum", "calls"
    )?;
    for row in calls {
        let Timing {
            calls,
            median,
            least,
            most,
        } = row.timing;
        writeln!(
            out,
            "  {:16} {:>12} {:>12} {:>12} {calls:>8}   {} %",
            row.call,
            small(median),
            small(least),
            small(most),
            percent(row.share)
        )?;
    }
    writeln!(out, "  {assumption}")
}

/// Formats a share in percent with three significant digits; a tiny one with an exponent.
fn percent(share: f64) -> String {
    let percent = share * 100.0;
    match percent {
        x if x > 0.0 && x < 0.001 => format!("{x:.2e}"),
        x if x < 1.0 => format!("{x:.4}"),
        x if x < 100.0 => format!("{x:.1}"),
        x => format!("{x:.0}"),
    }
}

/// Formats the duration of a call.
fn small(seconds: f64) -> String {
    if seconds < 1e-3 {
        format!("{:.1} us", seconds * 1e6)
    } else {
        format!("{:.2} ms", seconds * 1e3)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_written_out() {
        let shown = [0.0, 3.25e-7, 0.000_123_4, 0.0512, 0.999, 20.1].map(percent);
        let expected = ["0.0000", "3.25e-5", "0.0123", "5.1", "99.9", "2010"];
        assert_eq!(shown, expected);
    }

    #[test]
    fn short_times_are_readable() {
        assert_eq!(small(0.000_012_34), "12.3 us");
        assert_eq!(small(0.012_34), "12.34 ms");
    }

    #[test]
    fn rates_are_positive() {
        assert!(rate("0").is_err() && rate("-1").is_err() && rate("nan").is_err());
        assert_eq!(rate("2e6"), Ok(2e6));
    }
}
