//! Questions as they are handed in: by options, or line by line.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use pbg_core::graph::Side;
use pbg_train::Question;
use serde::Deserialize;

use crate::commands::score::columns;
use crate::failure::{Failure, Result};
use crate::kind::FailureKind;
use crate::lines::Lines;

/// What stands in the place of the entity that is asked for.
const OPEN: &str = "?";
/// How questions are written.
const HELP: &str = "a question is `head<TAB>relation<TAB>?` or `?<TAB>relation<TAB>tail`, or JSON as in \
    {\"head\": \"dog.n.01\", \"relation\": \"hypernym\"}";

/// Where questions come from.
pub(crate) enum Questions {
    /// The options: one question, once.
    One(Option<Question>),
    /// A file or standard input.
    Lines(Lines),
}

/// Some questions, and the lines that they stand in.
#[derive(Default)]
pub(crate) struct Block {
    pub(crate) questions: Vec<Question>,
    lines: Vec<u64>,
}

/// A question as a line of JSON.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Json {
    relation: String,
    head: Option<String>,
    tail: Option<String>,
}

impl Questions {
    /// The one that options ask.
    ///
    /// # Errors
    /// When they ask for both sides, or for none.
    pub(crate) fn one(
        head: Option<&String>,
        relation: Option<&String>,
        tail: Option<&String>,
    ) -> Result<Self> {
        let wrong = |text: &str| {
            Failure::message(FailureKind::Usage, text).help(
                "ask with `--head NAME --relation NAME`, with `--relation NAME --tail NAME`, or with `--questions FILE`",
            )
        };
        let Some(relation) = relation.cloned() else {
            return Err(wrong("nothing is asked: name a relation"));
        };
        let question = question(head.cloned(), relation, tail.cloned());
        question.map(|q| Self::One(Some(q))).map_err(wrong)
    }

    /// Those of a file; standard input is waited for until `stop` is set.
    ///
    /// # Errors
    /// When it cannot be opened.
    pub(crate) fn of(path: &Path, stop: &Arc<AtomicBool>) -> Result<Self> {
        Lines::open_until(path, stop).map(Self::Lines)
    }

    /// The next questions: at most `count`, and no more text than `bytes` and a line. None at the end.
    ///
    /// # Errors
    /// When a line cannot be read or is no question.
    pub(crate) fn next(&mut self, (count, bytes): (usize, usize)) -> Result<Block> {
        let mut block = Block::default();
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

    /// The failure with where in the input question `at` of `block` stands.
    pub(crate) fn blame(&self, failure: Failure, block: &Block, at: usize) -> Failure {
        match (self, block.lines.get(at)) {
            (Self::Lines(lines), Some(&number)) => failure.context(lines.place_of(number)),
            _ => failure,
        }
    }
}

/// The question that a line asks. Lines of three columns are no JSON.
fn parse(line: &str, lines: &Lines) -> Result<Question> {
    let is_json = line.starts_with('{') && line.split('\t').count() != 3;
    let found = if is_json {
        let json = serde_json::from_str(line);
        let Json {
            relation,
            head,
            tail,
        } = json.map_err(|error| lines.wrong(format_args!("no question: {error}")).help(HELP))?;
        question(head, relation, tail)
    } else {
        let [head, relation, tail] = columns(line, lines).map_err(|failure| failure.help(HELP))?;
        let given = |text: &str| (text != OPEN).then(|| text.to_owned());
        question(given(head), relation.to_owned(), given(tail))
    };
    found.map_err(|what| lines.wrong(what).help(HELP))
}

/// The question that leaves one side open.
fn question(
    head: Option<String>,
    relation: String,
    tail: Option<String>,
) -> Result<Question, &'static str> {
    let (open, entity) = match (head, tail) {
        (Some(head), None) => (Side::Rhs, head),
        (None, Some(tail)) => (Side::Lhs, tail),
        (Some(_), Some(_)) => return Err("nothing is asked: head and tail are both given"),
        (None, None) => return Err("neither head nor tail is given"),
    };
    Ok(Question {
        open,
        entity,
        relation,
    })
}
