//! Writes answers as text, as lines of JSON, or as a Parquet table.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

use pbg_core::graph::Side;
use pbg_export::predictions::{PredictedEdge, PredictionTable};
use pbg_files::owner::{self, OwnerKind};
use pbg_files::{ChecksummedFile, FileError};
use pbg_query::{AskedQuestion, Calibration, MissingEdge, Prediction};
use serde::Serialize;

use super::edge_lines;
use crate::failure::{Failure, Result};
use crate::kind::FailureKind;
use crate::terminal;

/// Destination and format of answers.
pub(super) enum AnswerSink {
    /// Text on standard output.
    Text,
    /// JSON lines on standard output.
    Json,
    /// File of JSON lines.
    Lines(LinesFile),
    /// Parquet file.
    Table(Box<PredictionTable>),
}

/// File of JSON lines, which gets its final name only when it is complete.
pub(super) struct LinesFile(ChecksummedFile);

/// Question and its answers, as JSON.
#[derive(Serialize)]
pub(crate) struct AnswerJson<'a> {
    head: Option<&'a str>,
    relation: Option<&'a str>,
    tail: Option<&'a str>,
    left_out: u64,
    answers: Vec<Named<'a>>,
}

#[derive(Serialize)]
struct Named<'a> {
    name: &'a str,
    score: f32,
    #[serde(skip_serializing_if = "Option::is_none")]
    probability: Option<f64>,
}

/// Returns the probability of an answer to a question.
fn probability(curves: Option<&Calibration>, question: &AskedQuestion, score: f32) -> Option<f64> {
    let open = match question {
        AskedQuestion::Entity(asked) => asked.open,
        // Relations have the scores of edges, whose left side is open.
        AskedQuestion::Relation(_) => Side::Lhs,
    };
    curves.map(|curves| curves.probability(open, score))
}

impl AnswerSink {
    /// Creates a file, whose format its extension decides.
    ///
    /// # Errors
    /// When the extension is unknown, or the file cannot be created.
    pub(super) fn file(path: &Path) -> Result<Self> {
        // The new file replaces an existing one, which must be a regular file.
        if fs::symlink_metadata(path).is_ok_and(|there| !there.is_file()) {
            let text = format!("{} exists and is not a regular file", path.display());
            let help = "name another file; without --out, --json writes to standard output";
            return Err(Failure::message(FailureKind::Usage, text).help(help));
        }
        let folder = path.parent().unwrap_or(Path::new(""));
        // Files in the folder of a checkpoint are safe: a checkpoint deletes only its own files.
        let dataset = owner::owner_of(folder).filter(|owner| owner.kind == OwnerKind::Dataset);
        if let Some(dataset) = dataset {
            let text = format!(
                "{} is in {dataset}, whose folder an import replaces as a whole",
                path.display()
            );
            let help = "name a file in another folder";
            return Err(Failure::message(FailureKind::Usage, text).help(help));
        }
        let ending = path.extension().and_then(|ending| ending.to_str());
        match ending {
            Some("parquet") => {
                let table = PredictionTable::create(path).map_err(failed)?;
                Ok(Self::Table(Box::new(table)))
            }
            Some("jsonl") => LinesFile::create(path).map(Self::Lines).map_err(failed),
            _ => {
                let text = format!("{} has an unknown file format", path.display());
                let help = "name a file that ends in .parquet or .jsonl";
                Err(Failure::message(FailureKind::Usage, text).help(help))
            }
        }
    }

    /// Writes the answers to a question.
    ///
    /// # Errors
    /// When the answers cannot be written.
    pub(super) fn put(
        &mut self,
        question: &AskedQuestion,
        found: &Prediction<'_>,
        curves: Option<&Calibration>,
    ) -> Result<()> {
        match self {
            Self::Text => terminal::print(|out| print(out, question, found, curves)),
            Self::Json => terminal::print_raw(|out| write_json(out, question, found, curves)),
            Self::Lines(lines) => lines.put(question, found, curves).map_err(failed),
            Self::Table(table) => put_rows(table, question, found).map_err(failed),
        }
    }

    /// Writes missing edges.
    ///
    /// # Errors
    /// When the edges cannot be written.
    pub(super) fn put_edges(&mut self, edges: &[MissingEdge]) -> Result<()> {
        match self {
            Self::Text | Self::Json => edge_lines::print_all(edges, matches!(self, Self::Json)),
            Self::Lines(lines) => {
                let written = edge_lines::write_json(&mut lines.0, edges);
                written.map_err(|error| failed(lines.0.error(error)))
            }
            Self::Table(table) => {
                let mut rows = edges.iter().map(edge_lines::row);
                rows.try_for_each(|row| table.put(&row)).map_err(failed)
            }
        }
    }

    /// Completes the file.
    ///
    /// # Errors
    /// When the file cannot be completed.
    pub(super) fn finish(self) -> Result<()> {
        match self {
            Self::Text | Self::Json => Ok(()),
            Self::Lines(lines) => lines.finish().map_err(failed),
            Self::Table(table) => table.finish().map_err(failed),
        }
    }
}

fn failed(error: FileError) -> Failure {
    Failure::new(FailureKind::Io, error)
}

/// Head, relation and tail of a question; `None` for the open one.
struct QuestionParts<'q> {
    head: Option<&'q str>,
    relation: Option<&'q str>,
    tail: Option<&'q str>,
}

impl<'q> QuestionParts<'q> {
    fn of(question: &'q AskedQuestion) -> Self {
        let (head, relation, tail) = match question {
            AskedQuestion::Entity(asked) => match asked.open {
                Side::Rhs => (Some(&asked.entity), Some(&asked.relation), None),
                Side::Lhs => (None, Some(&asked.relation), Some(&asked.entity)),
            },
            AskedQuestion::Relation(asked) => (Some(&asked.head), None, Some(&asked.tail)),
        };
        Self {
            head: head.map(String::as_str),
            relation: relation.map(String::as_str),
            tail: tail.map(String::as_str),
        }
    }

    /// Returns what is asked for.
    const fn open(&self) -> &'static str {
        match (self.head, self.relation) {
            (None, _) => "head",
            (_, None) => "relation",
            _ => "tail",
        }
    }
}

/// Prints the question, and a line for each answer: rank, score, name.
fn print(
    out: &mut dyn Write,
    question: &AskedQuestion,
    found: &Prediction<'_>,
    curves: Option<&Calibration>,
) -> io::Result<()> {
    let known = match found.left_out {
        0 => String::new(),
        n => format!("   left out: {} in known edges", counted(n, question)),
    };
    writeln!(out, "{question}{known}")?;
    let probability = |score| match probability(curves, question, score) {
        None => String::new(),
        Some(probability) => format!("  {probability:.3}"),
    };
    if found.best.is_empty() {
        writeln!(out, "  no {} left", kind_of(question)[1])?;
    }
    let scores: Vec<String> = found.best.iter().map(|(_, s)| format!("{s:.4}")).collect();
    let width = scores.iter().map(String::len).max().unwrap_or(0);
    let ranks = found.best.len().to_string().len().max(3);
    for (rank, ((name, number), score)) in (1..).zip(found.best.iter().zip(&scores)) {
        writeln!(
            out,
            "{rank:>ranks$}  {score:>width$}{}  {name}",
            probability(*number)
        )?;
    }
    Ok(())
}

/// Returns the name of what a question asks for, in the singular and in the plural.
const fn kind_of(question: &AskedQuestion) -> [&'static str; 2] {
    match question {
        AskedQuestion::Entity(_) => ["entity", "entities"],
        AskedQuestion::Relation(_) => ["relation", "relations"],
    }
}

fn counted(count: u64, question: &AskedQuestion) -> String {
    let [one, many] = kind_of(question);
    match count {
        1 => format!("1 {one}"),
        n => format!("{n} {many}"),
    }
}

/// Returns a question and its answers, for JSON.
pub(crate) fn as_json<'a>(
    question: &'a AskedQuestion,
    found: &Prediction<'a>,
    curves: Option<&Calibration>,
) -> AnswerJson<'a> {
    let QuestionParts {
        head,
        relation,
        tail,
    } = QuestionParts::of(question);
    let named = |&(name, score): &(_, f32)| Named {
        name,
        score,
        probability: probability(curves, question, score),
    };
    AnswerJson {
        head,
        relation,
        tail,
        left_out: found.left_out,
        answers: found.best.iter().map(named).collect(),
    }
}

fn write_json(
    out: &mut dyn Write,
    question: &AskedQuestion,
    found: &Prediction<'_>,
    curves: Option<&Calibration>,
) -> io::Result<()> {
    let answer = as_json(question, found, curves);
    serde_json::to_writer(&mut *out, &answer).map_err(io::Error::from)?;
    writeln!(out)
}

fn put_rows(
    table: &mut PredictionTable,
    question: &AskedQuestion,
    found: &Prediction<'_>,
) -> Result<(), FileError> {
    let parts = QuestionParts::of(question);
    for (rank, &(name, score)) in (1..).zip(&found.best) {
        table.put(&PredictedEdge {
            head: parts.head.unwrap_or(name),
            relation: parts.relation.unwrap_or(name),
            tail: parts.tail.unwrap_or(name),
            asked: parts.open(),
            rank,
            score,
        })?;
    }
    Ok(())
}

impl LinesFile {
    fn create(path: &Path) -> Result<Self, FileError> {
        ChecksummedFile::unfinished(path).map(Self)
    }

    fn put(
        &mut self,
        question: &AskedQuestion,
        found: &Prediction<'_>,
        curves: Option<&Calibration>,
    ) -> Result<(), FileError> {
        let written = write_json(&mut self.0, question, found, curves);
        written.map_err(|error| self.0.error(error))
    }

    fn finish(self) -> Result<(), FileError> {
        self.0.finish(true).map(|_| ())
    }
}
