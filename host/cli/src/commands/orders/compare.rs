//! `pbg-host orders compare`.

mod progress;

use pbg_lab::comparison::{NamedOrder, OrderComparison, compare};
use pbg_report::provenance::Provenance;
use pbg_report::table::comparison_csv;
use pbg_report::{latex, pages};

use super::outputs::{OutputArgs, Results};
use super::plan_source::{GridArgs, PassSource, RateArgs};
use super::table;
use crate::failure::{Failure, Result};
use crate::kind::FailureKind;
use crate::limits::{self, LimitArgs};
use crate::options::ConfigArgs;
use crate::provenance;
use crate::terminal::{self, Terminal};
use pbg_session::orders::{OrderSpec, parse_order, require_distinct};
use progress::CompareProgress;

/// Compare bucket orders without training.
///
/// Asks every order for a plan and counts the partition loads of training with it, with optimal
/// (Belady's) eviction. The orders plan either for a configuration and its dataset, or for a grid of any
/// size (`--partitions`), by default with the entities and edges of Freebase86m.
///
/// Figures are means over the seeds. An order that fails is listed with the reason.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host orders compare --partitions 16 --buffer 4
  pbg-host orders compare --partitions 8,16,32,64 --buffer 4,8 --seeds 3 --html orders.html
  pbg-host orders compare --partitions 32 --machines 8
  pbg-host orders compare pbg.toml --order inside_out --order my_order.wasm
  pbg-host orders compare -p 16 -c 4 --order beta --order optimal --csv orders.csv")]
pub(crate) struct Args {
    /// Arguments that name the configuration.
    #[command(flatten)]
    config: ConfigArgs,
    /// Options of a grid.
    #[command(flatten)]
    grid: GridArgs,
    /// Number of partitions in the buffer; several numbers are compared one after the other [default:
    /// `buffer_partitions` of the configuration, or a quarter of the partitions].
    #[arg(long, short = 'c', value_name = "C,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(2..))]
    buffer: Vec<u32>,
    /// Order to compare: a standard order or a .wasm file, with parameters after a colon as in
    /// `beta:assignment=random`; can be repeated [default: all standard orders].
    #[arg(long, value_name = "NAME|FILE", value_parser = parse_order)]
    order: Vec<OrderSpec>,
    /// Number of seeds with which every order plans.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// Also show how many rounds this many trainers need for a pass, where a bucket takes one round, and the bytes that
    /// they read and write, as means over the seeds; several numbers are compared.
    #[arg(long, short = 'm', value_name = "M,...", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=256))]
    machines: Vec<u32>,
    /// Speeds of training and disk.
    #[command(flatten)]
    rates: RateArgs,
    /// Limits of the orders.
    #[command(flatten)]
    limits: LimitArgs,
    /// Files to write.
    #[command(flatten)]
    outputs: OutputArgs,
}

/// Runs the command.
///
/// # Errors
/// When there is nothing to compare, or a result cannot be written.
pub(crate) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    require_distinct(&args.order)?;
    for (option, numbers) in [
        ("--partitions", &args.grid.partitions),
        ("--buffer", &args.buffer),
        ("--machines", &args.machines),
    ] {
        require_distinct_numbers(option, numbers)?;
    }
    let setting = PassSource::new(&args.config, &args.grid, terminal)?;
    let rates = args.rates.rates();
    let loader = setting.loader(&args.limits, rates, &terminal)?;
    let mut orders = loader.orders(&args.order);
    let mut comparison = OrderComparison {
        rates,
        cases: Vec::new(),
    };
    let mut progress = CompareProgress::new(terminal);
    for grid in setting.grids() {
        let buffers = match args.buffer.as_slice() {
            [] => setting.buffers(grid),
            given => given.to_vec(),
        };
        for buffer in buffers {
            let passes = setting.passes(grid, buffer, args.seeds)?;
            let case = compare(
                &mut orders,
                &passes,
                &comparison.rates,
                &args.machines,
                &mut |step| progress.show(grid, buffer, &step),
            );
            comparison.cases.extend(case);
        }
    }
    progress.finish();
    if args.outputs.any() {
        let provenance = provenance(args, &setting, &orders);
        args.outputs.write(
            terminal,
            &provenance,
            &Results {
                json: &comparison,
                csv: &|| Ok(comparison_csv(&comparison, &provenance)?),
                html: &|| pages::comparison::page(&comparison, &provenance),
                latex: &|| latex::comparison(&comparison, &provenance),
                figures: &|| pages::comparison::figures(&comparison),
            },
        )?;
    }
    terminal::print(|out| table::print(out, &comparison))?;
    let refused = comparison.cases.iter().flat_map(|case| &case.refused);
    if let Some(advice) = { refused }.find_map(|order| limits::advice(&order.reason)) {
        terminal.help(advice);
    }
    if comparison.cases.iter().all(|case| case.orders.is_empty()) {
        let text = "all orders failed; the reasons are above";
        return Err(Failure::message(FailureKind::Plugin, text));
    }
    Ok(())
}

/// Ensures that no number of an option is given twice, since its rows would be there twice.
fn require_distinct_numbers(option: &str, numbers: &[u32]) -> Result<()> {
    for (at, number) in numbers.iter().enumerate() {
        if numbers.iter().take(at).any(|other| other == number) {
            let text = format!("{option}: {number} is given twice");
            return Err(Failure::message(FailureKind::Usage, text).help("give each number once"));
        }
    }
    Ok(())
}

/// Returns the provenance of the comparison.
fn provenance(args: &Args, setting: &PassSource, orders: &[NamedOrder]) -> Provenance {
    let seeds = (0..args.seeds).map(|n| setting.seed().wrapping_add(n));
    let mut provenance = provenance::of_command(seeds.collect());
    if let PassSource::Config(resolved) = setting {
        provenance::add_configuration(&mut provenance, resolved);
    }
    let loaded = orders.iter().filter_map(|(label, order)| {
        let order = order.as_ref().ok()?;
        Some(provenance::plugin(label, order.id()))
    });
    provenance.plugins.extend(loaded);
    provenance
}
