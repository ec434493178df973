//! `pbg-host eval`.

mod by;
mod listed;

use std::path::{Path, PathBuf};

use comfy_table::Table;
use pbg_core::event::RankStats;
use pbg_model::ResolvedConfig;
use pbg_query::{CandidateSet, EvalOptions, EvalReport};

use crate::failure::Result;
use crate::options::TrainedArgs;
use crate::terminal::{self, Terminal};
use crate::{bars, format, load, model_notes, tables};
use by::ByArg;

/// Evaluate how well a model ranks edges.
///
/// Replaces each side of every edge in turn by every other entity of its type (or by a sample) and
/// takes the rank of the true entity among them. Reports the mean reciprocal rank (MRR), the fraction
/// of ranks of at most 1, 3, 10 and 50 (Hits@k), the mean rank, and the area under the ROC curve
/// (AUC), for the left side, the right side and both. Ties count as the average rank.
///
/// Filtered ranks leave out candidates that are true edges in one of the edge sets of `--filter`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host eval pbg.toml --edges test --filter train,valid,test
  pbg-host eval pbg.toml --edges test --candidates 10000
  pbg-host eval pbg.toml --candidates test_negatives.tsv
  pbg-host eval pbg.toml --edges test --filter train,valid,test --by relation
  pbg-host eval pbg.toml --edges test --filter train,valid,test --seen
  pbg-host eval --checkpoint model --edges test
  pbg-host eval pbg.toml --edges test --machines 4
  pbg-host eval pbg.toml --edges test --filter train,valid,test --check
  pbg-host eval pbg.toml --edges valid --json")]
pub(crate) struct Args {
    /// Arguments that name the model.
    #[command(flatten)]
    model: TrainedArgs,
    /// Edge set to rank [default: test].
    #[arg(long, value_name = "NAME")]
    edges: Option<String>,
    /// Edge sets whose edges do not count as negatives, separated by commas.
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    filter: Vec<String>,
    /// Candidates to rank against: `all` entities, a number of random entities, or those that a file lists for each
    /// edge, in lines of head, relation, tail, `head` or `tail` for the side, and its candidates, separated by tabs.
    /// Results with different candidates are not comparable.
    #[arg(long, value_name = "all|N|FILE", default_value = "all", value_parser = candidates)]
    candidates: CandidatesArg,
    /// Rank only a random sample of this many edges.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
    /// Also show the ranks of each relation, or of each type of the ranked entities.
    #[arg(long, value_name = "relation|entity-type")]
    by: Option<ByArg>,
    /// Leave out edges with an entity or a relation that no trained edge has, about which the model has learned
    /// nothing. The candidates stay the same.
    #[arg(long)]
    seen: bool,
    /// Share the work between this many processes: run the same command in as many terminals, or on machines that share
    /// the checkpoint. Each process ranks a part of the edges, and all show the same results.
    #[arg(long, value_name = "N", conflicts_with = "check", value_parser = clap::value_parser!(u32).range(1..=256))]
    machines: Option<u32>,
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

/// Candidates of an evaluation.
#[derive(Clone, Debug)]
enum CandidatesArg {
    /// The same for all edges.
    Set(CandidateSet),
    /// Candidates of each edge, in a file.
    File(PathBuf),
}

fn candidates(text: &str) -> Result<CandidatesArg, String> {
    let is_number = text
        .trim_start_matches(['-', '+'])
        .bytes()
        .all(|byte| byte.is_ascii_digit());
    match text.parse() {
        _ if text == "all" => Ok(CandidatesArg::Set(CandidateSet::All)),
        // Standard input.
        _ if text == "-" => Ok(CandidatesArg::File(PathBuf::from(text))),
        Ok(n) if n > 0 => Ok(CandidatesArg::Set(CandidateSet::Sample(n))),
        _ if is_number => Err("not a positive number".to_owned()),
        // A word is likelier a mistake than the name of a file that is missing.
        _ if !text.contains(['/', '.']) && !Path::new(text).exists() => {
            Err("neither `all`, nor a number, nor a file that exists".to_owned())
        }
        _ => Ok(CandidatesArg::File(PathBuf::from(text))),
    }
}

/// Runs the command.
///
/// # Errors
/// When the edge set or the checkpoint does not exist, or cannot be read.
pub(crate) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let resolved = load::trained(&args.model, terminal)?;
    let candidates = match &args.candidates {
        CandidatesArg::Set(candidates) => *candidates,
        CandidatesArg::File(path) => return listed::run(args, path, &resolved, terminal),
    };
    let options = EvalOptions {
        edges: args.edges.clone().unwrap_or_else(|| "test".to_owned()),
        filter: args.filter.clone(),
        candidates,
        threads: args.threads.map(|n| n as usize),
        limit: args.limit.map(|n| n as usize),
        by: args.by.map(Into::into),
        seen: args.seen,
    };
    if args.check {
        return check(&resolved, &options, args.json, terminal);
    }
    let bar = terminal.bar(1, "{percent:>3} % {wide_bar} {human_pos} edges  {eta} left");
    let mut progress = |done, of| bars::advance(&bar, done, of);
    let result = match args.machines {
        Some(machines) => {
            pbg_query::evaluate_together(&resolved, &options, machines, &mut progress)
        }
        None => pbg_query::evaluate(&resolved, &options, &mut progress),
    };
    bar.finish_and_clear();
    let report = result?;
    model_notes::warn_about_missing_rows(&report.missing, &resolved, terminal);
    if report.without_embedding > 0 {
        terminal.warn(format_args!(
            "{} of the edge set {} left out, whose entities or relations have no embedding yet",
            format::plural(report.without_embedding, "edge"),
            report.edges
        ));
    }
    warn_of_unseen(args, &report, terminal);
    match args.json {
        true => terminal::print_json(&report),
        false => print(args, &report, terminal),
    }
}

/// Warns about edges with entities or relations that no trained edge has.
fn warn_of_unseen(args: &Args, report: &EvalReport, terminal: Terminal) {
    let Some(unseen) = report.unseen.filter(|unseen| !unseen.is_none()) else {
        return;
    };
    let what = model_notes::unseen(&unseen);
    let edges = &report.edges;
    match args.seen {
        true => terminal.warn(format_args!("edge set {edges}: {what}; these edges are left out")),
        false => terminal.warn(format_args!(
            "edge set {edges}: {what}, so the model has learned nothing about them; `--seen` leaves them out"
        )),
    }
}

/// Prints the ranks as tables.
fn print(args: &Args, report: &EvalReport, terminal: Terminal) -> Result<()> {
    terminal.detail(format_args!(
        "checkpoint version {}, ranked in {}",
        report.version,
        format::seconds(report.seconds)
    ));
    let among = match report.sampled {
        Some(candidates) => format!("{candidates} random entities"),
        None => "all entities".to_owned(),
    };
    terminal::print(|out| {
        let edges = &report.edges;
        writeln!(out, "edge set {edges}, each side ranked among {among}")?;
        writeln!(out, "{}", table(report))?;
        match args.by {
            Some(by) => {
                let condition = if report.filter.is_empty() {
                    "raw"
                } else {
                    "filtered"
                };
                writeln!(out, "\n{condition} ranks by {}", by.name())?;
                writeln!(out, "{}", by::table(report, by))
            }
            None => Ok(()),
        }
    })?;
    if args.filter.is_empty() {
        terminal.help(
            "`--filter train,valid,test` also computes filtered ranks, without the candidates that are true edges",
        );
    }
    Ok(())
}

/// Prints the memory that an evaluation needs.
fn check(
    resolved: &ResolvedConfig,
    options: &EvalOptions,
    json: bool,
    terminal: Terminal,
) -> Result<()> {
    resolved.admit_checkpoint()?;
    let needs = pbg_query::eval_needs(resolved, options)?;
    super::check::print_needs("evaluation", &needs, json, terminal)
}

/// Header of a table of ranks.
const HEADER: [&str; 10] = [
    "ranks",
    "side",
    "edges",
    "MRR",
    "Hits@1",
    "Hits@3",
    "Hits@10",
    "Hits@50",
    "mean rank",
    "AUC",
];

/// Returns a table with a row per side, raw ranks first.
fn table(report: &EvalReport) -> Table {
    let raw = [&report.raw_lhs, &report.raw_rhs, &report.raw].map(Some);
    let filtered = [&report.filtered_lhs, &report.filtered_rhs, &report.filtered];
    let ranks = [("raw", raw), ("filtered", filtered.map(Option::as_ref))].into_iter();
    let rows = ranks.flat_map(|(ranks, sides)| {
        let sides = ["left", "right", "both"].into_iter().zip(sides);
        sides.filter_map(move |(side, stats)| Some(row(ranks, side, stats?)))
    });
    tables::wrapped(HEADER, rows, 2)
}

fn row(ranks: &str, side: &str, stats: &RankStats) -> Vec<String> {
    let share = |x: f64| format!("{x:.4}");
    vec![
        ranks.to_owned(),
        side.to_owned(),
        stats.count.to_string(),
        share(stats.mrr),
        share(stats.hits_at_1),
        share(stats.hits_at_3),
        share(stats.hits_at_10),
        share(stats.hits_at_50),
        format!("{:.2}", stats.mean_rank),
        share(stats.auc),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_are_all_or_some_or_listed() {
        let set = |text| match candidates(text) {
            Ok(CandidatesArg::Set(set)) => Some(set),
            _ => None,
        };
        assert_eq!(set("all"), Some(CandidateSet::All));
        assert_eq!(set("100"), Some(CandidateSet::Sample(100)));
        for file in ["./none", "./100", "test_500.tsv"] {
            assert!(
                matches!(candidates(file), Ok(CandidatesArg::File(_))),
                "{file}"
            );
        }
        for wrong in ["0", "-1", "", "none"] {
            assert!(candidates(wrong).is_err(), "{wrong}");
        }
    }
}
