//! `pbg-host index`.

use std::io::{self, Write};

use indicatif::ProgressBar;
use pbg_query::{BuiltType, IndexOptions, IndexProgress};

use crate::failure::Result;
use crate::options::{IndexedComparatorArg, TrainedArgs};
use crate::terminal::{self, Terminal};
use crate::{bars, format, interrupt, load, model_notes, tables};

/// Build an index for `neighbors` and `predict`, so that they need not score all entities.
///
/// Links every entity to its near neighbours, partition by partition. With `--index`, `neighbors` and `predict` follow
/// the links to entities with high scores and read only the entities on the way. The scores are the same as without an
/// index, but some answers may be missed. This command measures the recall with random entities and edges, and prints
/// it: the fraction of the ten best answers that the search finds, by beam width.
///
/// The index is stored in the folder of the checkpoint and belongs to its current version: after more training it must
/// be built again. It pays for single questions from some hundred thousand entities on, and for thousands of questions
/// asked together from about a million entities on.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host index pbg.toml
  pbg-host index model --entity-type city --links 64 --build-width 200
  pbg-host index model --comparator cos
  pbg-host index pbg.toml --check")]
pub(crate) struct Args {
    /// Arguments that name the model.
    #[command(flatten)]
    model: TrainedArgs,
    /// Entity type to index [default: all types].
    #[arg(long, visible_alias = "type", value_name = "TYPE")]
    entity_type: Option<String>,
    /// Comparator of embeddings [default: the comparator of the configuration]. An index with another comparator serves
    /// only `neighbors` with the same option.
    #[arg(long, value_name = "NAME")]
    comparator: Option<IndexedComparatorArg>,
    /// Maximum number of links per entity: more links find more answers and need more space.
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u32).range(4..=512))]
    links: u32,
    /// Beam width of the search while an entity is inserted: a wider beam makes better links and is slower.
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u32).range(4..=100_000))]
    build_width: u32,
    /// Number of random entities and edges for measuring the recall; 0 turns the measurement off.
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(..=100_000))]
    recall_queries: u32,
    /// Number of threads [default: one per core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    threads: Option<u32>,
    /// Only show the maximum memory that the command would use.
    #[arg(long)]
    check: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
///
/// # Errors
/// When the model cannot be read, the index cannot be written, or the command is interrupted.
pub(crate) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let resolved = load::trained(&args.model, terminal)?;
    let options = IndexOptions {
        entity_type: args.entity_type.clone(),
        comparator: args.comparator.map(Into::into),
        degree: args.links,
        width: args.build_width,
        questions: args.recall_queries,
        threads: args.threads.map(|n| n as usize),
    };
    if args.check {
        resolved.admit_checkpoint()?;
        let needs = pbg_query::index_needs(&resolved, &options)?;
        return super::check::print_needs("the index", &needs, args.json, terminal);
    }
    let bar = terminal.bar(1, "{percent:>3} % {wide_bar} {msg}");
    let stop = interrupt::watch("stopping", terminal.announcer_above(&bar))?;
    let built = pbg_query::build_index(&resolved, &options, &stop, &|linking| show(&bar, &linking));
    bar.finish_and_clear();
    let report = built?;
    model_notes::warn_about_missing_rows(&report.missing, &resolved, terminal);
    let advice = report.advice();
    advice.iter().for_each(|text| terminal.warn(text));
    if let Some(newer) = report.newer {
        terminal.warn(format_args!(
            "a run has committed version {newer} meanwhile: the index is of version {}, so `--index` rejects it; build it \
             again after the run, or build an index of a kept version (`best`, `epoch_N`)",
            report.version
        ));
    }
    terminal::print_result(args.json, &report, |out| {
        let types = &mut report.types.iter();
        types.try_for_each(|of| print_type(out, of, args.recall_queries))?;
        let (folder, version) = (report.folder.display(), report.version);
        writeln!(out, "wrote {folder}: index of checkpoint version {version}")
    })
}

fn print_type(out: &mut dyn Write, built: &BuiltType, queries: u32) -> io::Result<()> {
    writeln!(
        out,
        "{}: {} entities in {}, linked in {}, {}",
        built.entity_type,
        built.entities,
        format::plural(u64::from(built.partitions), "partition"),
        format::seconds(built.seconds),
        format::bytes(built.bytes),
    )?;
    if built.recall.is_empty() {
        return Ok(());
    }
    writeln!(
        out,
        "recall@10 of {queries} entities, and of both sides of {queries} edges:"
    )?;
    let share = |recall: Option<f64>| recall.map_or("-".to_owned(), |r| format!("{r:.4}"));
    let rows = built.recall.iter().map(|of| {
        [
            of.width.to_string(),
            share(of.neighbors),
            share(of.predictions),
        ]
    });
    let table = tables::markdown(["width", "neighbors", "predictions"], rows, 0);
    writeln!(out, "{table}")
}

fn show(bar: &ProgressBar, linking: &IndexProgress<'_>) {
    let (message, done, of) = match linking {
        IndexProgress::Partition {
            entity_type,
            partition: [partition, partitions],
            entities: [done, of],
        } => {
            let message = format!("{entity_type}, partition {} of {partitions}", partition + 1);
            (message, u64::from(*done), u64::from(*of))
        }
        IndexProgress::Measuring(share) => ("recall".to_owned(), (share * 1000.0) as u64, 1000),
    };
    bar.set_message(message);
    bars::advance(bar, done, of);
}
