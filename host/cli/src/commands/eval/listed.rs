//! `pbg-host eval --candidates FILE`: ranks among the candidates of a file.

use std::path::Path;

use pbg_core::event::RankStats;
use pbg_core::graph::Side;
use pbg_model::{ResolvedConfig, RunError};
use pbg_query::{ListedCandidates, ListedRanker, ListedReport};

use super::{Args, row};
use crate::failure::{Failure, Result};
use crate::kind::FailureKind;
use crate::line_reader::LineReader;
use crate::terminal::{self, Terminal};
use crate::{format, model_notes, tables};

/// Help text about the lines of the file.
const HELP: &str = "each line has the left entity, the relation, the right entity, `head` or `tail` for the side that is \
    ranked, and at least one candidate for it, separated by tabs";

/// Lines that are ranked together.
#[derive(Default)]
struct LineBlock {
    lines: Vec<String>,
    numbers: Vec<u64>,
}

/// Runs the command.
///
/// # Errors
/// When the file or the model cannot be read, or a name is unknown.
pub(super) fn run(
    args: &Args,
    path: &Path,
    resolved: &ResolvedConfig,
    terminal: Terminal,
) -> Result<()> {
    refuse_other_options(args)?;
    let threads = args.threads.map(|n| n as usize);
    if args.check {
        resolved.admit_checkpoint()?;
        let needs = pbg_query::listed_needs(resolved, threads);
        return crate::commands::check::print_needs("evaluation", &needs, args.json, terminal);
    }
    let mut input = LineReader::open(path)?;
    let mut ranker = ListedRanker::open(resolved, threads)?;
    model_notes::warn_about_missing_rows(ranker.missing(), resolved, terminal);
    let bar = terminal.bar(0, "{human_pos} lines  {elapsed}");
    let mut rank_all = || loop {
        let block = read(&mut input, &ranker)?;
        if block.lines.is_empty() {
            return Ok::<_, Failure>(());
        }
        let edges = block.lines.iter().zip(&block.numbers);
        let edges = edges.map(|(line, &number)| parse(line, number, &input));
        let edges = edges.collect::<Result<Vec<_>>>()?;
        ranker.rank(&edges).map_err(|no| {
            let is_blamed = matches!(
                *no.error,
                RunError::Unknown(_) | RunError::NotComparable { .. }
            );
            let failure = Failure::from(*no.error);
            match block.numbers.get(no.question).filter(|_| is_blamed) {
                Some(&number) => failure.context(input.place_of(number)),
                None => failure,
            }
        })?;
        bar.inc(edges.len() as u64);
    };
    let done = rank_all();
    bar.finish_and_clear();
    done?;
    let report = ranker.report();
    if report.raw.count == 0 {
        let text = format!("{} has no lines", path.display());
        return Err(Failure::message(FailureKind::Data, text).help(HELP));
    }
    match args.json {
        true => terminal::print_json(&report),
        false => print(path, &report, terminal),
    }
}

/// Returns an error if options are given that the file decides.
fn refuse_other_options(args: &Args) -> Result<()> {
    let given = [
        ("--edges", args.edges.is_some()),
        ("--filter", !args.filter.is_empty()),
        ("--limit", args.limit.is_some()),
        ("--by", args.by.is_some()),
        ("--seen", args.seen),
        ("--machines", args.machines.is_some()),
    ];
    match given.iter().find(|(_, is_given)| *is_given) {
        None => Ok(()),
        Some((option, _)) => {
            let text = format!("{option} cannot be used with a file of candidates");
            let help = "the file has the edges and all of their candidates; each is ranked as it is listed";
            Err(Failure::message(FailureKind::Usage, text).help(help))
        }
    }
}

/// Reads the next lines; none at the end.
fn read(input: &mut LineReader, ranker: &ListedRanker<'_>) -> Result<LineBlock> {
    let (limits, mut block) = (ranker.limits(), LineBlock::default());
    let (mut candidates, mut bytes) = (0, 0);
    while block.lines.len() < limits.edges && candidates < limits.candidates && bytes < limits.bytes
    {
        let Some(line) = input.next()? else {
            break;
        };
        if line.is_empty() {
            continue;
        }
        bytes += line.len();
        candidates += line.bytes().filter(|&byte| byte == b'\t').count();
        block.lines.push(line);
        block.numbers.push(input.number());
    }
    Ok(block)
}

fn parse<'l>(line: &'l str, number: u64, input: &LineReader) -> Result<ListedCandidates<'l>> {
    let wrong = |what: String| {
        let text = format!("{}: {what}", input.place_of(number));
        Failure::message(FailureKind::Data, text).help(HELP)
    };
    let mut columns = line.split('\t');
    let mut next = || columns.next();
    let (Some(head), Some(relation), Some(tail), Some(side)) = (next(), next(), next(), next())
    else {
        let found = line.split('\t').count();
        return Err(wrong(format!("has {found} columns instead of at least 5")));
    };
    let side = match side {
        "head" => Side::Lhs,
        "tail" => Side::Rhs,
        _ => {
            return Err(wrong(format!(
                "the side is `{side}` instead of `head` or `tail`"
            )));
        }
    };
    let candidates: Vec<&str> = columns.collect();
    if candidates.is_empty() {
        return Err(wrong("has no candidates".to_owned()));
    }
    Ok(ListedCandidates {
        head,
        relation,
        tail,
        side,
        candidates,
    })
}

/// Prints the ranks as a table.
fn print(path: &Path, report: &ListedReport, terminal: Terminal) -> Result<()> {
    terminal.detail(format_args!(
        "checkpoint version {}, ranked in {}",
        report.version,
        format::seconds(report.seconds)
    ));
    let mean = report.candidates as f64 / report.raw.count as f64;
    let all = [
        ("left", &report.raw_lhs),
        ("right", &report.raw_rhs),
        ("both", &report.raw),
    ];
    let asked = all
        .into_iter()
        .filter(|(_, stats): &(_, &RankStats)| stats.count > 0);
    let rows = asked.map(|(side, stats)| row("listed", side, stats));
    let table = tables::wrapped(super::HEADER, rows, 2);
    terminal::print(|out| {
        writeln!(
            out,
            "{}: {} ranked among {mean:.1} listed candidates each",
            path.display(),
            format::plural(report.raw.count, "side")
        )?;
        writeln!(out, "{table}")
    })
}
