//! Reads questions from options, files or standard input.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pbg_model::RunError;
use pbg_query::{AskedQuestion, Unanswerable};
use serde::Deserialize;

use crate::commands::score::columns;
use crate::failure::{Failure, Result};
use crate::kind::FailureKind;
use crate::line_reader::LineReader;

/// Placeholder of what is to be predicted.
const OPEN: &str = "?";
/// Help text about the syntax of questions.
const HELP: &str = "a question is `head<TAB>relation<TAB>?`, `?<TAB>relation<TAB>tail` or `head<TAB>?<TAB>tail`, or JSON as in \
    {\"head\": \"dog.n.01\", \"relation\": \"hypernym\"}";

/// Source of questions.
pub(crate) enum QuestionSource {
    /// A single question from options; `None` after it was taken.
    One(Option<AskedQuestion>),
    /// Lines of a file or of standard input.
    Lines(LineReader),
}

/// Block of questions, with their line numbers.
#[derive(Default)]
pub(crate) struct QuestionBlock {
    pub(crate) questions: Vec<AskedQuestion>,
    lines: Vec<u64>,
}

/// Question as a line of JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Json {
    relation: Option<String>,
    head: Option<String>,
    tail: Option<String>,
}

impl QuestionSource {
    /// Creates a single question from the values of options.
    ///
    /// # Errors
    /// When not exactly two of the values are given.
    pub(crate) fn one(
        head: Option<&String>,
        relation: Option<&String>,
        tail: Option<&String>,
    ) -> Result<Self> {
        let wrong = |text: &str| {
            Failure::message(FailureKind::Usage, text).help(
                "ask with `--head NAME --relation NAME`, with `--relation NAME --tail NAME`, with `--head NAME --tail NAME`, or with \
                 `--questions FILE`",
            )
        };
        let question = AskedQuestion::new(head.cloned(), relation.cloned(), tail.cloned());
        question.map(|q| Self::One(Some(q))).map_err(wrong)
    }

    /// Reads questions from a file; standard input ends as soon as `stop` is set.
    ///
    /// # Errors
    /// When the file cannot be opened.
    pub(crate) fn of(path: &Path, stop: &Arc<AtomicBool>) -> Result<Self> {
        LineReader::open_until(path, stop).map(Self::Lines)
    }

    /// Returns the next questions: at most `count`, from at most `bytes` of text and one more line. Empty at the end.
    ///
    /// # Errors
    /// When a line cannot be read or is not a question.
    pub(crate) fn next(&mut self, count: usize, bytes: usize) -> Result<QuestionBlock> {
        let mut block = QuestionBlock::default();
        let lines = match self {
            Self::One(one) => {
                block.questions.extend(one.take());
                return Ok(block);
            }
            Self::Lines(lines) => lines,
        };
        let mut read = 0;
        while block.questions.len() < count && read < bytes {
            let Some(line) = lines.next()? else {
                break;
            };
            read += line.len();
            if !line.is_empty() {
                block.questions.push(parse(&line, lines)?);
                block.lines.push(lines.number());
            }
        }
        Ok(block)
    }

    /// Returns the failure to answer a question of `block`, with its line if the question is to blame.
    pub(crate) fn with_line(&self, block: &QuestionBlock, no: Unanswerable) -> Failure {
        let is_blamed = matches!(
            *no.error,
            RunError::Unknown(_) | RunError::NotComparable { .. }
        );
        let failure = Failure::from(*no.error);
        match (self, block.lines.get(no.question).filter(|_| is_blamed)) {
            (Self::Lines(lines), Some(&number)) => failure.context(lines.place_of(number)),
            _ => failure,
        }
    }
}

/// Parses a question from a line. Lines of three columns are never read as JSON.
fn parse(line: &str, lines: &LineReader) -> Result<AskedQuestion> {
    let is_json = line.starts_with('{') && line.split('\t').count() != 3;
    let found = if is_json {
        let json = serde_json::from_str(line);
        let Json {
            relation,
            head,
            tail,
        } = json.map_err(|error| {
            lines
                .error_at_line(format_args!("not valid: {error}"))
                .help(HELP)
        })?;
        AskedQuestion::new(head, relation, tail)
    } else {
        let [head, relation, tail] = columns(line, lines).map_err(|failure| failure.help(HELP))?;
        let given = |text: &str| (text != OPEN).then(|| text.to_owned());
        AskedQuestion::new(given(head), given(relation), given(tail))
    };
    found.map_err(|what| lines.error_at_line(what).help(HELP))
}
