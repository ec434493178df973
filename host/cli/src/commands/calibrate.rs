//! `pbg-host calibrate`.

use pbg_query::{Calibration, CalibrationOptions};

use crate::failure::Result;
use crate::options::TrainedArgs;
use crate::terminal::{self, Terminal};
use crate::{format, load, tables};

/// Calibrate probabilities for scores, on edges that were not trained.
///
/// Scores the edges of a held-out set and, for each of them, random edges that the graph lacks, and fits the ascending
/// curve from scores to probabilities with the smallest squared error (isotonic regression). `score --probability` and
/// `predict --probability` use it, and `report --html` shows how reliable it is.
///
/// A probability refers to this mixture of edges: with one negative per edge, half of all are edges. It is not the
/// probability that a random pair of entities is an edge. More negatives per edge give lower probabilities.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host calibrate pbg.toml --edges valid
  pbg-host calibrate pbg.toml --edges valid --negatives 9
  pbg-host calibrate model --json")]
pub(crate) struct Args {
    /// Arguments that name the model.
    #[command(flatten)]
    model: TrainedArgs,
    /// Edge set that was not trained.
    #[arg(long, value_name = "NAME", default_value = "valid")]
    edges: String,
    /// Number of random negatives per edge, to which the probabilities refer.
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    negatives: u32,
    /// Use a random sample of this many edges if the set has more.
    #[arg(long, value_name = "N", default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..))]
    limit: u32,
    /// Edge sets whose edges are no negatives, separated by commas [default: all edge sets of the dataset].
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    filter: Option<Vec<String>>,
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
/// When the model or an edge set cannot be read, or the calibration cannot be stored.
pub(crate) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let resolved = load::trained(&args.model, terminal)?;
    let sets = &resolved.dataset().manifest().edge_sets;
    let all = || sets.keys().cloned().collect();
    let options = CalibrationOptions {
        edges: args.edges.clone(),
        negatives: args.negatives,
        limit: args.limit,
        filter: args.filter.clone().unwrap_or_else(all),
    };
    if args.check {
        resolved.admit_checkpoint()?;
        let needs = pbg_query::calibration_needs(&resolved, &options)?;
        return super::check::print_needs("calibration", &needs, args.json, terminal);
    }
    if resolved.config().edge_sets.contains(&args.edges) {
        terminal.warn(format_args!(
            "edge set {} is trained, so its scores are too high for edges that are not known; \
             choose a set that is not trained with --edges",
            args.edges
        ));
    }
    let made = pbg_query::calibrate(&resolved, &options)?;
    match args.json {
        true => terminal::print_json(&made),
        false => print(&made),
    }
}

/// Describes the mixture that probabilities refer to.
pub(super) fn mixture(of: &Calibration) -> String {
    let [edges, negatives] = [(of.positives, "edge"), (of.negatives, "random negative")]
        .map(|(count, noun)| format::plural(count, noun));
    format!(
        "probabilities refer to a mixture of {edges} of {} and {negatives}, {} drawn per edge",
        of.edges, of.negatives_per_edge
    )
}

/// Prints the reliability.
fn print(made: &Calibration) -> Result<()> {
    let rows = made.reliability.iter().map(|bin| {
        vec![
            format!("{:.3}", bin.predicted),
            format!("{:.3}", bin.observed),
            bin.count.to_string(),
        ]
    });
    let header = ["mean probability", "share of edges", "samples"];
    let table = tables::wrapped(header, rows, 0);
    terminal::print(|out| {
        writeln!(out, "{}", mixture(made))?;
        writeln!(out, "{table}")?;
        writeln!(
            out,
            "Brier score {:.4}, mean calibration error {:.4}, each half judged by a curve of the other half",
            made.brier, made.calibration_error
        )
    })
}
