//! `pbg-host import`.

mod format_args;

use std::io::{self, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::Duration;

use indicatif::ProgressBar;
use pbg_import::{
    self, ColumnSpec, ImportOptions, ImportProgress, ImportReport, LEAST_MEMORY, NameStorage,
    OnBadLine,
};

use crate::failure::Result;
use crate::options::{self, ConfigArgs};
use crate::terminal::{self, Terminal};
use crate::{bars, format, interrupt, load, model_notes};

use self::format_args::{RdfArgs, TextArgs};
use super::describe;

/// Import edge lists (TSV, CSV, Parquet, RDF) into the dataset that a configuration names.
///
/// Reads files of edges, plain or compressed with gzip or Zstandard, one edge per line or row. The column separator,
/// the header, comments and compression are detected from the first lines of each file, regardless of its name, and
/// printed with its first edge. If they are ambiguous, the import stops and names the option to set. The configuration
/// defines the entity types, the number of partitions of each, and the types of both sides of a relation. Edge sets
/// (such as `train`, `valid`, `test`) have names of your choice; training uses those in `edge_sets`, evaluation can use
/// any.
///
/// A second import into the same dataset keeps its ids and adds new entities at the end; edge sets that are not named
/// again are kept.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host import pbg.toml --edges train=train.tsv --edges valid=valid.tsv --edges test=test.tsv
  pbg-host import pbg.toml --edges train=part-1.tsv.gz --edges train=part-2.tsv.gz
  pbg-host import pbg.toml --edges train=edges.csv --columns lhs,rhs,weight
  pbg-host import pbg.toml --edges train=edges.parquet --columns lhs=head,rel=relation,rhs=tail
  pbg-host import pbg.toml --edges train=part-files/ --edges 'test=parts/test-*.csv'
  pbg-host import pbg.toml --edges train=<(bzcat edges.tsv.bz2)
  pbg-host import pbg.toml --edges train=edges.txt --separator space --comment '#' --header no
  pbg-host import pbg.toml --edges train=dump.nt.gz --prefix wd=http://www.wikidata.org/entity/
  pbg-host import pbg.toml --edges train=edges.tsv --entity-min-count 5
  pbg-host import pbg.toml --edges train=edges.tsv --memory 1G")]
pub(crate) struct Args {
    /// Configuration that names the dataset.
    #[command(flatten)]
    config: ConfigArgs,
    /// Name of an edge set and a file of its edges, a folder of such files, a pattern of file names, or a pipe; files may be
    /// in an object store (`s3://BUCKET/FILE`, `gs://`, `az://`). Can be repeated, also for the same set.
    #[arg(long, value_name = "NAME=FILE", required = true, value_parser = named_file)]
    edges: Vec<(String, PathBuf)>,
    /// Meaning of the columns: `lhs`, `rel`, `rhs`, `weight` by position, `-` for a column to ignore; or
    /// `lhs=HEADER,...` for files with a header [default: lhs,rel,rhs].
    #[arg(long, value_name = "COLUMNS")]
    columns: Option<ColumnSpec>,
    #[command(flatten)]
    text: TextArgs,
    #[command(flatten)]
    rdf: RdfArgs,
    /// What to do with a line that is not an edge [default: error].
    #[arg(long, value_name = "error|skip", value_parser = str::parse::<OnBadLine>, hide_possible_values = true)]
    on_bad_line: Option<OnBadLine>,
    /// Leave out entities that occur in fewer than this many edges, with their edges.
    #[arg(long, value_name = "N", default_value_t = 0)]
    entity_min_count: u32,
    /// Leave out relations that have fewer than this many edges, with their edges.
    #[arg(long, value_name = "N", default_value_t = 0)]
    relation_type_min_count: u32,
    /// Keep the ids of this dataset [default: the existing dataset of the configuration].
    #[arg(long, value_name = "DATASET", conflicts_with = "fresh")]
    dictionary: Option<PathBuf>,
    /// Replace the existing dataset instead of keeping its ids and edge sets.
    #[arg(long)]
    fresh: bool,
    /// Features of the entities of a featurized type: each line is an entity and its features,
    /// separated by tabs; can be repeated.
    #[arg(long, value_name = "TYPE=FILE", value_parser = named_file)]
    features: Vec<(String, PathBuf)>,
    /// Number of threads [default: one per core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    threads: Option<u32>,
    /// Memory for names and buffers together, as in `512M` or `2G`; the program itself needs about 120M more. If names
    /// do not fit, reading starts again with names sorted on disk [default: three quarters of the free memory for
    /// names, and 256M for buffers].
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    memory: Option<u64>,
    /// Sort names on disk from the beginning, which is the default if the files of edges are larger than 256M. This
    /// needs about as much disk space next to the dataset as the edges need as plain text.
    #[arg(long)]
    names_on_disk: bool,
    /// Print the report as JSON.
    #[arg(long)]
    json: bool,
}

fn memory(text: &str) -> Result<u64, String> {
    match options::bytes(text)? {
        bytes if bytes < LEAST_MEMORY => Err(format!(
            "less than the {} that an import needs",
            format::bytes(LEAST_MEMORY)
        )),
        bytes => Ok(bytes),
    }
}

fn named_file(text: &str) -> Result<(String, PathBuf), String> {
    match text.split_once('=') {
        Some((name, file)) if !name.is_empty() && !file.is_empty() => {
            Ok((name.to_owned(), file.into()))
        }
        _ => Err("expected NAME=FILE, as in train=edges.tsv".to_owned()),
    }
}

/// Runs the command.
///
/// # Errors
/// When the files or the target are invalid or cannot be read or written; the target then stays unchanged.
pub(crate) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let config = load::config(&args.config, terminal)?;
    let options = ImportOptions {
        target: PathBuf::from(&config.dataset),
        seed: config.seed,
        columns: args.columns.clone(),
        text: args.text.options(),
        rdf: args.rdf.options(),
        on_bad_line: args.on_bad_line.unwrap_or_default(),
        threads: args.threads.map(|n| n as usize),
        entity_min_count: args.entity_min_count,
        relation_min_count: args.relation_type_min_count,
        dictionary: args.dictionary.clone(),
        fresh: args.fresh,
        features: args.features.clone(),
        memory: args.memory,
        names_memory: pbg_model::memory::default_name_bytes(),
        name_storage: args.names_on_disk.then_some(NameStorage::Files),
        trained: config.edge_sets.clone(),
    };
    let bar = terminal.bar(1, "{percent:>3} % {wide_bar} {msg}  {eta} left");
    let announce = terminal.announcer_above(&bar);
    let stop = interrupt::watch("stopping; the dataset stays unchanged", announce)?;
    let start = pbg_clock::now();
    let result = pbg_import::run(
        &config.graph_schema(),
        &sets(&args.edges),
        &options,
        &mut |progress| {
            show(&bar, &progress, terminal);
            if stop.load(Ordering::SeqCst) {
                ControlFlow::Break(())
            } else {
                ControlFlow::Continue(())
            }
        },
    );
    bar.finish_and_clear();
    let report = result?;
    warn_of_imbalance(&report, terminal);
    terminal::print_result(args.json, &report.as_json(), |out| {
        print_report(out, &report, start.elapsed())
    })
}

/// Groups files by edge set. Sets and files keep the order of the command line.
fn sets(edges: &[(String, PathBuf)]) -> Vec<(String, Vec<PathBuf>)> {
    let mut sets: Vec<(String, Vec<PathBuf>)> = Vec::new();
    for (name, file) in edges {
        match sets.iter_mut().find(|(known, _)| known == name) {
            Some((_, files)) => files.push(file.clone()),
            None => sets.push((name.clone(), vec![file.clone()])),
        }
    }
    sets
}

/// Shows the progress in the bar, or as a line above it.
fn show(bar: &ProgressBar, progress: &ImportProgress, terminal: Terminal) {
    use ImportProgress as Now;
    let (done, total, text) = match progress {
        Now::Spooling { path, bytes } => {
            let bytes = format::bytes(*bytes);
            (0, 1, format!("copying {}: {bytes}", path.display()))
        }
        Now::ReadAs { what } => return bar.suspend(|| terminal.print_line(what)),
        Now::Reading {
            set,
            bytes,
            total_bytes,
            edges,
        } => {
            let speed = *edges as f64 / bar.elapsed().as_secs_f64().max(1e-3);
            let text = format!("reading {set}, {} edges/s", format::count(speed));
            (*bytes, *total_bytes, text)
        }
        Now::NamesToDisk { why } => {
            let line = format!("{why}: reading starts again, with names sorted on disk");
            return bar.suspend(|| terminal.print_line(&line));
        }
        Now::Numbering { bytes, total_bytes } => {
            (*bytes, *total_bytes, "numbering names".to_owned())
        }
        Now::Joining {
            set,
            edges,
            total_edges,
        } => (*edges, *total_edges, format!("numbering edges of {set}")),
        Now::Assigning { entities } => {
            let entities = format::count(*entities as f64);
            (0, 1, format!("placing {entities} entities"))
        }
        Now::Counting { edges, total_edges } => (*edges, *total_edges, "counting".to_owned()),
        Now::Writing {
            set,
            edges,
            total_edges,
        } => (*edges, *total_edges, format!("writing {set}")),
    };
    bars::advance(bar, done, total.max(1));
    bar.set_message(text);
}

fn print_report(out: &mut dyn Write, report: &ImportReport, time: Duration) -> io::Result<()> {
    let edges: u64 = report.sets.iter().map(|set| set.edges + set.dropped).sum();
    writeln!(
        out,
        "{}: {} edges imported in {} ({}/s)",
        report.path.display(),
        format::count(edges as f64),
        format::duration(time),
        format::count(edges as f64 / time.as_secs_f64().max(1e-9)),
    )?;
    for set in &report.sets {
        let dropped = remark(set.dropped, "left out by the minimum counts");
        writeln!(out, "  edge set {}: {} edges{dropped}", set.name, set.edges)?;
        if set.skipped.literals > 0 {
            let triples = format::plural(set.skipped.literals, "triple");
            writeln!(
                out,
                "    {triples} with literals skipped (`--literals entities` reads them)"
            )?;
        }
        if let Some(first) = &set.skipped.first {
            let lines = format::plural(set.skipped.count, "bad line");
            writeln!(out, "    {lines} skipped, the first: {first}")?;
        }
    }
    for name in &report.kept_sets {
        writeln!(out, "  edge set {name}: kept unchanged")?;
    }
    for entities in &report.types {
        let added = match entities.known {
            0 => 0,
            known => entities.entities.saturating_sub(known),
        };
        let remarks = [
            remark(added, "new"),
            remark(entities.absent, "in no imported edge"),
            remark(entities.dropped, "left out for too few edges"),
        ];
        writeln!(
            out,
            "  entity type {}: {} entities{}",
            entities.name,
            entities.entities,
            remarks.concat()
        )?;
    }
    let dropped = remark(report.dropped_relations, "left out for too few edges");
    writeln!(out, "  relations: {}{dropped}", report.relations)?;
    if report.unused_features > 0 {
        writeln!(
            out,
            "  features: {} entities with features have no edges",
            report.unused_features
        )?;
    }
    print_counts(out, report)
}

/// Prints counts of edges that a model cannot learn, and of names that may have the wrong type.
fn print_counts(out: &mut dyn Write, report: &ImportReport) -> io::Result<()> {
    for (set, unseen) in report.unseen.iter().filter(|(_, unseen)| !unseen.is_none()) {
        writeln!(out, "  edge set {set}: {}", model_notes::unseen(unseen))?;
    }
    if let Some(line) = describe::shared_names(&report.shared_names) {
        writeln!(out, "  {line}")?;
    }
    for what in &report.not_counted {
        writeln!(out, "  not counted: {what}")?;
    }
    Ok(())
}

/// Warns about types whose partitions have very unequal sizes.
fn warn_of_imbalance(report: &ImportReport, terminal: Terminal) {
    for entities in &report.types {
        if let Some(ratio) = entities.imbalance() {
            terminal.warn(format_args!(
                "the partitions of {} are unequal: the largest has {ratio:.1} times the mean number of entities, because \
                 existing entities keep their partitions; `--fresh` assigns all entities again, but then the model must \
                 be trained from the beginning",
                entities.name
            ));
        }
    }
}

/// Formats a count with its meaning, as an appendix to a line of the report; empty if the count is 0.
fn remark(count: u64, what: &str) -> String {
    if count == 0 {
        String::new()
    } else {
        format!(", {count} {what}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_of_a_set_stay_together_and_in_order() {
        let edges = ["train=b", "test=c", "train=a"].map(|text| named_file(text).unwrap());
        let sets = sets(&edges);
        assert_eq!(sets[0], ("train".to_owned(), vec!["b".into(), "a".into()]));
        assert_eq!(sets[1], ("test".to_owned(), vec!["c".into()]));
    }

    #[test]
    fn a_name_and_a_file() {
        assert_eq!(
            named_file("train=a=b.tsv").unwrap(),
            ("train".to_owned(), "a=b.tsv".into())
        );
        assert!(
            named_file("train.tsv").is_err()
                && named_file("=x").is_err()
                && named_file("x=").is_err()
        );
    }
}
