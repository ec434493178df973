//! `pbg-host predict --missing`: the best edges that are missing in the whole graph.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pbg_query::{MissingOptions, MissingSearch};

use super::answers::AnswerSink;
use super::{Args, filter};
use crate::failure::{Failure, Result};
use crate::kind::FailureKind;
use crate::terminal::Terminal;
use crate::{format, interrupt, load, model_notes};

/// Runs the command.
///
/// # Errors
/// When the model cannot be opened, or there are too many pairs.
pub(super) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    let resolved = load::trained(&args.model, terminal)?;
    let options = MissingOptions {
        count: args.answers,
        relation: args.relation.clone(),
        per_relation: args.per_relation,
        filter: filter(args, &resolved),
        loops: !args.no_loops,
        threads: args.threads.map(|n| n as usize),
    };
    let pairs = pbg_query::missing_pairs(&resolved, &options);
    if args.check {
        resolved.admit_checkpoint()?;
        terminal.print_line(format_args!(
            "{} pairs to score",
            format::count(pairs as f64)
        ));
        let needs = pbg_query::missing_needs(&resolved, &options)?;
        return crate::commands::check::print_needs("prediction", &needs, args.json, terminal);
    }
    let search = MissingSearch::open(&resolved, &options)?;
    if pairs > args.most_pairs {
        let text = format!(
            "the search would score {} pairs, more than the {} that --most-pairs allows",
            format::count(pairs as f64),
            format::count(args.most_pairs as f64)
        );
        let help = format!(
            "choose a relation with `--relation NAME`, or allow the work with `--most-pairs {pairs}`"
        );
        return Err(Failure::message(FailureKind::Usage, text).help(help));
    }
    model_notes::warn_about_missing_rows(search.missing(), &resolved, terminal);
    let mut sink = match &args.out {
        Some(path) => AnswerSink::file(path)?,
        None if args.json => AnswerSink::Json,
        None => AnswerSink::Text,
    };
    terminal.print_line(format_args!(
        "{} pairs to score",
        format::count(pairs as f64)
    ));
    let bar = terminal.bar(1000, "{percent:>3} % {wide_bar} {elapsed}  {eta} left");
    let stop = Arc::new(AtomicBool::new(false));
    interrupt::watch_into(&stop, "stopping", terminal.announcer_above(&bar))?;
    let estimate = &mut |time| {
        bar.suspend(|| {
            terminal.print_line(format_args!("about {} in all", format::duration(time)))
        });
    };
    let progress = &mut |share: f64| bar.set_position((share * 1000.0) as u64);
    let found = search.run(&stop, estimate, progress);
    bar.finish_and_clear();
    let found = found?;
    sink.put_edges(&found)?;
    sink.finish()?;
    if let Some(path) = &args.out {
        let edges = format::plural(found.len() as u64, "missing edge");
        terminal.print_line(format_args!("wrote {}: {edges}", path.display()));
    }
    Ok(())
}
