//! `pbg-host predict`.

pub(crate) mod answers;
mod edge_lines;
mod missing;
pub(crate) mod questions;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use indicatif::ProgressBar;
use pbg_model::{ResolvedConfig, RunError};
use pbg_query::{AnswerNotes, AskedQuestion, PredictOptions, Prediction, Predictor};

use super::score;
use crate::failure::{Failure, Result};
use crate::kind::FailureKind;
use crate::options::{IndexArgs, TrainedArgs};
use crate::terminal::Terminal;
use crate::{interrupt, load, model_notes};
use answers::AnswerSink;
use questions::QuestionSource;

/// Predict what best completes an edge: an entity, or the relation.
///
/// Answers questions of the form `(head, relation, ?)` and `(?, relation, tail)`: every entity of the type that the
/// relation has on the open side is scored as for `eval`, and the K best are listed, best first. Entities that complete
/// a known edge of the dataset are left out.
///
/// `(head, ?, tail)` lists the relations with the highest scores, which are those of `score`. Training makes scores of
/// different relations comparable only if the configuration sets `relation_prediction`.
///
/// `--missing` asks no question: it lists the edges with the highest scores that the graph lacks.
///
/// Each partition of candidates is read once for thousands of questions, so it is best to ask many questions together:
/// one line `head<TAB>relation<TAB>?`, `?<TAB>relation<TAB>tail` or `head<TAB>?<TAB>tail` for each, or JSON as in
/// {"head": "dog.n.01", "relation": "hypernym"}.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  pbg-host predict pbg.toml --head dog.n.01 --relation hypernym
  pbg-host predict pbg.toml --relation hypernym --tail canine.n.02 -k 25 --json
  pbg-host predict pbg.toml --head dog.n.01 --tail canine.n.02
  pbg-host predict pbg.toml --missing --per-relation -k 100 --out missing.parquet
  pbg-host predict model --questions questions.tsv --out answers.parquet
  cut -f1,2 test.tsv | sed 's/$/\\t?/' | pbg-host predict pbg.toml --questions - --filter train --json
  pbg-host predict pbg.toml --head dog.n.01 --relation hypernym --unfiltered")]
pub(crate) struct Args {
    /// Arguments that name the model.
    #[command(flatten)]
    model: TrainedArgs,
    /// Left entity.
    #[arg(long, value_name = "NAME")]
    head: Option<String>,
    /// Relation of the edge; without it, the relation is predicted.
    #[arg(long, value_name = "NAME")]
    relation: Option<String>,
    /// Right entity.
    #[arg(long, value_name = "NAME")]
    tail: Option<String>,
    /// File of questions, one per line; `-` for standard input.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["head", "relation", "tail"])]
    questions: Option<PathBuf>,
    /// List the best edges that are missing in the whole graph instead: every pair of entities is scored for every
    /// relation, or for that of `--relation`.
    #[arg(long, conflicts_with_all = ["head", "tail", "questions", "index"])]
    missing: bool,
    /// List the best missing edges of each relation, instead of all together, whose scores training may not have made
    /// comparable.
    #[arg(long, requires = "missing", conflicts_with = "relation")]
    per_relation: bool,
    /// Refuse a search for missing edges that scores more pairs than this.
    #[arg(
        long,
        value_name = "N",
        requires = "missing",
        default_value_t = 100_000_000_000
    )]
    most_pairs: u64,
    /// Number of answers per question, or of missing edges.
    #[arg(short = 'k', long, value_name = "K", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    answers: u32,
    /// Edge sets whose edges are left out of the answers, separated by commas [default: all edge sets of the dataset].
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    filter: Option<Vec<String>>,
    /// Do not leave out known edges.
    #[arg(long, conflicts_with = "filter")]
    unfiltered: bool,
    /// Leave out edges from an entity to itself.
    #[arg(long)]
    no_loops: bool,
    /// Also show the probability that `calibrate` has fitted for each answer.
    #[arg(long, conflicts_with = "missing")]
    probability: bool,
    /// Options for the use of an index.
    #[command(flatten)]
    index: IndexArgs,
    /// Number of threads [default: one per core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=4096))]
    threads: Option<u32>,
    /// Only show the maximum memory that the command would use.
    #[arg(long)]
    check: bool,
    /// Print JSON, one line per question.
    #[arg(long)]
    json: bool,
    /// Write to a file instead: .jsonl for JSON with a line per question, .parquet for a table with a row per predicted
    /// edge.
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    out: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// When the model cannot be opened, a question cannot be read, or a name in it is unknown.
pub(crate) fn run(args: &Args, terminal: Terminal) -> Result<()> {
    if args.missing {
        return missing::run(args, terminal);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let mut questions = match &args.questions {
        Some(path) => Some(QuestionSource::of(path, &stop)?),
        None if args.check && args.relation.is_none() && args.head.is_none() => None,
        None => {
            let (head, relation, tail) = (&args.head, &args.relation, &args.tail);
            let one = QuestionSource::one(head.as_ref(), relation.as_ref(), tail.as_ref());
            Some(one?)
        }
    };
    let resolved = load::trained(&args.model, terminal)?;
    let options = PredictOptions {
        count: args.answers,
        filter: filter(args, &resolved),
        loops: !args.no_loops,
        threads: args.threads.map(|n| n as usize),
        questions: (args.questions.is_none() && questions.is_some()).then_some(1),
        index: args.index.index_options(),
    };
    let Some(questions) = questions.as_mut().filter(|_| !args.check) else {
        return check(&resolved, &options, args.json, terminal);
    };
    let is_table = args
        .out
        .as_ref()
        .is_some_and(|path| path.extension() == Some("parquet".as_ref()));
    if args.probability && is_table {
        let text = "--probability: tables of predictions have no column for probabilities";
        let help = "name a file that ends in .jsonl";
        return Err(Failure::message(FailureKind::Usage, text).help(help));
    }
    let curves = score::calibration(&resolved, args.probability, terminal)?;
    let predictor = pbg_query::Predictor::open(&resolved, &options)?;
    model_notes::warn_about_missing_rows(predictor.missing(), &resolved, terminal);
    let bar = terminal.bar(100, "{percent:>3} % {wide_bar} {msg}");
    interrupt::watch_into(&stop, "stopping", terminal.announcer_above(&bar))?;
    let mut answers = match &args.out {
        Some(path) => AnswerSink::file(path)?,
        None if args.json => AnswerSink::Json,
        None => AnswerSink::Text,
    };
    let put = &mut |question: &AskedQuestion, found: &Prediction<'_>| {
        bar.suspend(|| answers.put(question, found, curves.as_ref()))
    };
    let count = answer_all(&predictor, questions, put, &stop, &bar, terminal);
    bar.finish_and_clear();
    let count = count?;
    answers.finish()?;
    if let Some(path) = &args.out {
        let questions = crate::format::plural(count, "question");
        terminal.print_line(format_args!(
            "wrote {}: answers to {questions}",
            path.display()
        ));
    }
    Ok(())
}

/// Returns the edge sets whose edges are left out.
fn filter(args: &Args, resolved: &ResolvedConfig) -> Vec<String> {
    match &args.filter {
        _ if args.unfiltered => Vec::new(),
        Some(named) => named.clone(),
        None => {
            let sets = &resolved.dataset().manifest().edge_sets;
            sets.keys().cloned().collect()
        }
    }
}

/// Answers all questions block by block, and returns their number.
fn answer_all(
    predictor: &Predictor<'_>,
    questions: &mut QuestionSource,
    put: &mut dyn FnMut(&AskedQuestion, &Prediction<'_>) -> Result<()>,
    stop: &AtomicBool,
    bar: &ProgressBar,
    terminal: Terminal,
) -> Result<u64> {
    let (mut count, mut told) = (0, model_notes::PrintedNotes::default());
    loop {
        let (most_questions, most_bytes) = predictor.at_once();
        let block = questions.next(most_questions, most_bytes);
        // After an interruption the block may be incomplete.
        if stop.load(Ordering::SeqCst) {
            return Err(RunError::Interrupted.into());
        }
        let block = block?;
        if block.questions.is_empty() {
            return Ok(count);
        }
        let last = count + block.questions.len() as u64;
        bar.set_message(format!("questions {} to {last}", count + 1));
        let notes = &mut |notes: &AnswerNotes<'_>| {
            told.print_search_plan(notes, terminal, |say| bar.suspend(say));
        };
        let progress = &mut |share: f64| bar.set_position((share * 100.0) as u64);
        let found = predictor.answer_all(&block.questions, stop, notes, progress);
        let found = found.map_err(|no| questions.with_line(&block, no))?;
        for (question, found) in block.questions.iter().zip(found.iter()) {
            put(question, &found)?;
        }
        count = last;
    }
}

/// Prints the memory that predictions need.
fn check(
    resolved: &ResolvedConfig,
    options: &PredictOptions,
    json: bool,
    terminal: Terminal,
) -> Result<()> {
    resolved.admit_checkpoint()?;
    let needs = pbg_query::predict_needs(resolved, options)?;
    super::check::print_needs("prediction", &needs, json, terminal)
}
