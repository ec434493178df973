//! `pbg-host orders show`.

use std::io::{self, Write};

use pbg_core::graph::{Bucket, Side, SidePartition};
use pbg_core::strategy::Pass;
use pbg_lab::analysis::Analysis;
use pbg_lab::replay::{BufferReplay, PartitionLoad};

use super::plan_source::{GridArgs, PassSource, RateArgs};
use crate::failure::{Failure, Result};
use crate::format;
use crate::kind::FailureKind;
use crate::limits::LimitArgs;
use crate::options::ConfigArgs;
use crate::terminal::{self, Terminal};
use pbg_session::orders::{OrderSpec, parse_order};

/// Show the plan of an order: the position of each bucket, and the contents of the buffer.
///
/// Plans either the first pass of a configuration over its dataset, with its buffer, seed and
/// parameters of plugins, or a grid of any size (`--partitions`).
///
/// The grid has one row per left partition and one column per right partition; a number is the
/// position of the bucket in the plan, counted from 0. The timeline has one row per state of the
/// buffer: the partitions loaded and evicted, the contents of the slots, and the number of buckets
/// trained in this state.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host orders show inside_out --partitions 8 --buffer 3
  pbg-host orders show beta pbg.toml
  pbg-host orders show my_order.wasm --partitions 16 --buffer 4 --seed 7
  pbg-host orders show random --partitions 4 --buffer 2 --json > plan.json")]
pub(crate) struct Args {
    /// Standard order or .wasm file, with parameters after a colon as in `beta:assignment=random`.
    #[arg(value_name = "ORDER", value_parser = parse_order)]
    order: OrderSpec,
    /// Arguments that name the configuration.
    #[command(flatten)]
    config: ConfigArgs,
    /// Options of a grid.
    #[command(flatten)]
    grid: GridArgs,
    /// Number of partitions in the buffer [default: `buffer_partitions` of the configuration, or a
    /// quarter of the partitions].
    #[arg(long, short = 'c', value_name = "C", value_parser = clap::value_parser!(u32).range(2..))]
    buffer: Option<u32>,
    /// Seed of the plan [default: `seed` of the configuration, or 0].
    #[arg(long, value_name = "S")]
    seed: Option<u64>,
    /// Speeds of training and disk.
    #[command(flatten)]
    rates: RateArgs,
    /// Limits of the order.
    #[command(flatten)]
    limits: LimitArgs,
    /// Print the plan as JSON: `[[left, right], ...]`.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// When there is not exactly one grid, or the order cannot be loaded or fails.
pub(crate) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let setting = PassSource::new(&args.config, &args.grid, terminal)?;
    let grids = setting.grids();
    let [partitions] = grids[..] else {
        let text = "only one grid can be shown: give it with --partitions P";
        return Err(Failure::message(FailureKind::Usage, text));
    };
    let configured = setting.buffers(partitions)[0];
    let buffer = args.buffer.unwrap_or(configured);
    let seed = args.seed.unwrap_or(setting.seed());
    let loader = setting.loader(&args.limits, args.rates.rates(), &terminal)?;
    let mut order = loader.load(&args.order)?;
    let pass = setting.pass(partitions, buffer, seed)?;
    let plan = order
        .plan(&pass)
        .map_err(|error| Failure::new(FailureKind::Plugin, error))?;
    if args.json {
        let pairs: Vec<[u32; 2]> = plan.iter().map(|b| [b.lhs, b.rhs]).collect();
        return terminal::print(|out| {
            serde_json::to_writer(&mut *out, &pairs).map_err(io::Error::from)?;
            writeln!(out)
        });
    }
    let analysis = Analysis::new(&pass, &plan, &args.rates.rates());
    terminal::print(|out| {
        writeln!(out, "{}, seed {seed}", order.id())?;
        print_grid(out, &pass, &plan)?;
        writeln!(out)?;
        Timeline {
            pass: &pass,
            plan: &plan,
        }
        .print(out)?;
        writeln!(out)?;
        print_summary(out, &analysis)
    })
}

/// Maximum width in characters of a grid in the terminal.
const WIDEST: usize = 240;

fn print_grid(out: &mut dyn Write, pass: &Pass, plan: &[Bucket]) -> io::Result<()> {
    let columns = pass.rhs_partitions as usize;
    let mut positions = vec![0; plan.len()];
    for (position, bucket) in plan.iter().enumerate() {
        positions[bucket.lhs as usize * columns + bucket.rhs as usize] = position;
    }
    let mut width = (plan.len().max(columns) - 1).to_string().len();
    if (width + 1) * (columns + 1) > WIDEST {
        width = 2;
        if (width + 1) * (columns + 1) > WIDEST {
            return writeln!(
                out,
                "(the grid is too wide to print; --json prints the plan)"
            );
        }
        for position in &mut positions {
            *position = *position * 100 / plan.len();
        }
        writeln!(out, "positions in hundredths of the plan")?;
    }
    write!(out, "{:>width$} |", "")?;
    for rhs in 0..columns {
        write!(out, " {rhs:>width$}")?;
    }
    writeln!(out, "\n{}", "-".repeat((width + 1) * (columns + 1) + 1))?;
    for (lhs, row) in positions.chunks(columns).enumerate() {
        write!(out, "{lhs:>width$} |")?;
        for position in row {
            write!(out, " {position:>width$}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// Timeline of the states of the buffer.
struct Timeline<'a> {
    pass: &'a Pass,
    plan: &'a [Bucket],
}

impl Timeline<'_> {
    fn print(&self, out: &mut dyn Write) -> io::Result<()> {
        let replay = BufferReplay::new(self.pass, self.plan, self.pass.buffer_partitions);
        let mut slots: Vec<Option<SidePartition>> = vec![None; replay.slots as usize];
        let width = self.width();
        let digits = self.plan.len().to_string().len().max("position".len());
        writeln!(
            out,
            "{:>digits$}  {:<cells$}  {:<moves$}  buckets",
            "position",
            "slots",
            "in and out",
            cells = (width + 3) * slots.len(),
            moves = 4 * width + 6,
        )?;
        let groups = replay.loads.chunk_by(|a, b| a.position == b.position);
        let mut groups = groups.peekable();
        while let Some(now) = groups.next() {
            let start = now[0].position;
            let end = groups
                .peek()
                .map_or(self.plan.len(), |next| next[0].position);
            for load in now {
                slots[load.slot as usize] = Some(load.group);
            }
            let trained = end - start;
            write!(out, "{start:>digits$}  ")?;
            for (slot, held) in slots.iter().enumerate() {
                let new = now.iter().any(|load| load.slot as usize == slot);
                write!(out, "{}", self.cell(*held, new, width))?;
            }
            writeln!(
                out,
                "  {:<moves$}  {trained}",
                self.moves(now),
                moves = 4 * width + 6
            )?;
        }
        Ok(())
    }

    /// Formats a slot; a partition that was just loaded is in brackets.
    fn cell(&self, held: Option<SidePartition>, new: bool, width: usize) -> String {
        let name = held.map_or("-".to_owned(), |group| self.name(group));
        if new {
            format!("[{name:>width$}] ")
        } else {
            format!(" {name:>width$}  ")
        }
    }

    fn moves(&self, loads: &[PartitionLoad]) -> String {
        let moves = loads.iter().map(|load| {
            let gone = load
                .evicted
                .map_or(String::new(), |group| format!(" -{}", self.name(group)));
            format!("+{}{gone}", self.name(load.group))
        });
        moves.collect::<Vec<_>>().join(" ")
    }

    /// Formats a partition, with its side if the two sides have different entities.
    fn name(&self, (side, partition): SidePartition) -> String {
        match side {
            _ if self.pass.shared => partition.to_string(),
            Side::Lhs => format!("l{partition}"),
            Side::Rhs => format!("r{partition}"),
        }
    }

    fn width(&self) -> usize {
        let most = self.pass.lhs_partitions.max(self.pass.rhs_partitions) - 1;
        most.to_string().len() + usize::from(!self.pass.shared)
    }
}

fn print_summary(out: &mut dyn Write, analysis: &Analysis) -> io::Result<()> {
    let Analysis {
        loads,
        swaps,
        lower_bound,
        ..
    } = analysis;
    writeln!(
        out,
        "{}, of which {swaps} into a full buffer (at least {lower_bound}); reads {}, writes {} and {} at the end",
        format::plural(*loads, "load"),
        format::bytes(analysis.bytes_read),
        format::bytes(analysis.bytes_written),
        format::bytes(analysis.bytes_final),
    )?;
    writeln!(
        out,
        "bias {:.2} on average, at most {:.2}; stalls {} at the given rates, {} with prefetch",
        analysis.bias.mean,
        analysis.bias.max,
        format::seconds(analysis.stall_on_demand),
        format::seconds(analysis.stall_ahead),
    )
}
